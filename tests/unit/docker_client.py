"""What the docker client sends as a build context, caught by a daemon that only takes it."""

from __future__ import annotations

import http.server
import io
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

DOCKER = shutil.which("docker")


class _Daemon(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sent: bytes = b""

    def do_GET(self) -> None:
        self._answer(b"OK")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        type(self).sent = b"".join(self._chunks())
        self._answer(b'{"stream":"Successfully built 0\\n"}\n')

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        for name, value in {"API-Version": "1.40", "OSType": "linux", "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class Client:
    """`sent(folder)`: the names that `docker build folder` sends, as they stand in the tar."""

    def __init__(self, port: int, home: Path) -> None:
        self._env = {"DOCKER_HOST": f"tcp://127.0.0.1:{port}", "DOCKER_BUILDKIT": "0", "HOME": str(home)}

    @cached_property
    def version(self) -> int:
        """The client's major version."""
        said = subprocess.run([DOCKER or "docker", "--version"], capture_output=True, text=True, check=True)
        return int(said.stdout.split("version ")[1].split(".")[0])

    def sent(self, folder: Path) -> set[str]:
        env = {**self._env, "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [DOCKER or "docker", "build", "-q", str(folder)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        with tarfile.open(fileobj=io.BytesIO(_Daemon.sent)) as archive:
            return {m.name.rstrip("/") for m in archive}


@contextmanager
def client(home: Path) -> Iterator[Client]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Daemon) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Client(server.server_port, home)
        server.shutdown()
