"""What runs a service on a host, under a real supervisor; a small web server stands for the program."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import stat
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.unit.supervised import Worker, worker
from tests.until import until

__all__ = ["worker"]  # a fixture

SERVICE = Path(__file__).resolve().parents[2] / "templates" / "service"
PROGRAM = """
import http.server, json, os, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2])) if '--port' in sys.argv else {}
port = words.get('--port') or next(w for w in sys.argv if w.startswith('--port=')).partition('=')[2]
print('words', sys.argv[1:], 'in', os.getcwd(), 'path', sys.path[0], flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = os.environ.get('JUPYTER_TOKEN_FILE')
        if known and self.headers['Authorization'] != 'token ' + open(known).read():
            return self.send_error(403)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(open(os.environ['KERNELS']).read().encode() if 'kernels' in self.path else b'hello')
    def log_message(self, *words): print(self.requestline, flush=True)
http.server.ThreadingHTTPServer(('127.0.0.1', int(port)), Handler).serve_forever()
"""


@pytest.fixture
def modules(tmp_path: Path, worker: Worker) -> Path:
    """A folder of modules for the service, which stands in the worker's work folder."""
    shutil.copytree(SERVICE, worker.folder / "work", dirs_exist_ok=True)
    folder = tmp_path / "modules"
    (folder / "tensorboard").mkdir(parents=True)
    (folder / "tensorboard/__init__.py").touch()
    (folder / "tensorboard/main.py").write_text(PROGRAM)
    (folder / "jupyterlab").mkdir()
    (folder / "jupyterlab/__init__.py").touch()
    (folder / "jupyterlab/__main__.py").write_text(PROGRAM)
    (tmp_path / "kernels.json").write_text("[]")
    return folder


def start(worker: Worker, modules: Path, *words: str) -> None:
    run = worker.folder.parent / "run-1"
    env = {
        "PYTHONPATH": str(modules),
        "ORCH_RUN_DIR": str(run),
        "KERNELS": str(worker.folder.parent / "kernels.json"),
    }
    worker.start(sys.executable, "serve.py", *words, env=env)


def service(worker: Worker) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((worker.folder / "service.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def get(port: int, token: str = "") -> str:
    headers = {"Authorization": f"token {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers=headers)
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode())


def test_tensorboard_shows_a_folder_of_links(worker: Worker, modules: Path) -> None:
    start(worker, modules, "tensorboard", "--show", "nightly=run-2/gpu01", "--show", "other=run-3/gpu01")
    until(lambda: service(worker))
    assert get(service(worker)["port"]) == "hello"
    links = worker.folder / "work/runs"
    above = worker.folder.parent
    assert {p.name: os.readlink(p) for p in links.iterdir()} == {
        "nightly": str(above / "run-2/gpu01/work"),
        "other": str(above / "run-3/gpu01/work"),
    }
    assert f"'--logdir', '{links}', '--host', '127.0.0.1', '--port', " in worker.log
    assert f"path {modules}" in worker.log  # and not what lies about in the working directory
    assert service(worker)["idle"] == 0


def test_it_ends_when_nobody_uses_it(worker: Worker, modules: Path) -> None:
    start(worker, modules, "tensorboard", "--idle", "0.9")
    state = worker.end()
    assert state["state"] == "stopped"
    assert state["cause"] == {
        "kind": "stopped",
        "by": "--idle",
        "why": "nobody used it for 0.9 s",
        "time": state["cause"]["time"],
    }


def test_it_ends_where_the_disk_is_full(worker: Worker, modules: Path) -> None:
    (worker.folder / "stop.json.part").symlink_to("/dev/full")
    start(worker, modules, "tensorboard", "--idle", "0.5")
    assert worker.end()["exit_code"] == 0
    assert "Traceback" not in worker.log


def test_it_ends_when_it_never_answers(worker: Worker, modules: Path) -> None:
    (modules / "tensorboard/main.py").write_text("import time; time.sleep(600)")
    watching = worker.folder / "work/watching.py"
    watching.write_text(watching.read_text().replace("START = 180.0", "START = 1.5"))
    start(worker, modules, "tensorboard", "--idle", "0.5")
    state = worker.end()
    assert (state["state"], state["cause"]["by"]) == ("stopped", "--idle")
    assert state["cause"]["why"] == "it did not answer for 1.5 s"


def test_use_puts_the_end_off() -> None:
    now, visited, asked = [0.0], [False], list[float]()
    use = _module("watching").Use(
        100, lambda: visited[0], lambda: asked.append(now[0]) or len(asked) == 1, clock=lambda: now[0]
    )

    def at(when: float, visitors: bool) -> bool:
        now[0], visited[0] = when, visitors
        use.look()
        return bool(use.over())

    assert not at(90, True)
    assert not at(180, False)
    assert (at(195, False), asked) == (False, [195])  # it works, although nobody looks
    assert (at(290, False), asked) == (False, [195])
    assert at(300, False)


def test_a_short_request_is_seen_for_a_minute(worker: Worker, modules: Path) -> None:
    connections = _module("connections")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        watched = connections.Connections(port)
        assert not watched.others()  # that it listens is no use
        assert watched.answers()
        assert not watched.others()  # nor that we ask ourselves
        server.accept()[0].close()
        assert not watched.others()
        with socket.create_connection(("127.0.0.1", port)):
            assert watched.others()
        assert watched.others()


def test_the_token_is_in_a_file_alone(worker: Worker, modules: Path) -> None:
    start(worker, modules, "jupyter", "--folder", str(worker.folder))
    until(lambda: service(worker))
    file = worker.folder / "token"
    token = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert re.fullmatch("[0-9a-f]{48}", token)
    assert get(service(worker)["port"], token) == "hello"
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert token.encode() not in line.read_bytes(), line
        except OSError:
            continue
    assert token not in worker.log + json.dumps(worker.state) + (worker.folder / "service.json").read_text()
    assert f"in {worker.folder} " in worker.log


def test_a_notebook_that_computes_is_in_use(worker: Worker, modules: Path) -> None:
    kernels = worker.folder.parent / "kernels.json"
    kernels.write_text('[{"execution_state": "busy"}]')
    start(worker, modules, "jupyter", "--idle", "0.3")
    until(lambda: worker.log.count("GET /api/kernels") > 2)
    assert worker.state["state"] == "running"
    kernels.write_text('[{"execution_state": "idle"}]')
    assert worker.end()["cause"]["by"] == "--idle"


def test_a_program_that_is_not_there_or_ends_is_a_failure(worker: Worker, modules: Path) -> None:
    shutil.rmtree(modules / "tensorboard")
    start(worker, modules, "tensorboard")
    assert (worker.end()["exit_code"], worker.log) == (1, "orch: no TensorBoard in this environment\n")


def test_the_status_of_the_program_is_that_of_the_run(worker: Worker, modules: Path) -> None:
    (modules / "tensorboard/main.py").write_text("raise SystemExit(7)")
    start(worker, modules, "tensorboard")
    assert worker.end()["exit_code"] == 7


def test_it_is_python_3_6() -> None:
    files = list(SERVICE.glob("*.py"))
    assert len(files) == 4
    for file in files:
        ast.parse(file.read_text(), feature_version=(3, 6))


def _module(name: str) -> Any:
    sys.path.insert(0, str(SERVICE))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(SERVICE))
