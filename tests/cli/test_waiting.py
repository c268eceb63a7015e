"""The line on a terminal about who is still waited for."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

PROGRAM = textwrap.dedent("""
    import re, sys, threading
    from pathlib import Path
    from orchestrator.cli import waiting
    from orchestrator.cli.app import App
    from orchestrator.cli.main import run
    from orchestrator.hosts.fake import FakeMachine
    from orchestrator.hosts.base import Result

    waiting.SILENT, waiting._AGAIN = 0.1, 0.1
    go = threading.Event()

    def slow(asked):
        go.wait(60)
        return Result(0, b"up\\n", b"")

    def connect(host):
        if sys.argv[2] == "connect":
            go.wait(60)
        machine = FakeMachine(host)
        late = host.name in ("gpu03", "gpu07")
        machine.answer(re.compile("uptime"), slow if late else Result(0, b"up\\n", b""))
        return machine

    threading.Thread(target=lambda: (input(), App.say("talk"), input(), go.set()), daemon=True).start()
    app = App(connect=connect, cwd=Path(sys.argv[1]))
    sys.exit(run(sys.argv[3:], app=app))
""")


EXEC = ("exec", "--on-host", "all", "uptime")


def start(tmp_path: Path, slow: str, *words: str, **environ: str) -> pexpect.spawn:
    (tmp_path / "hosts.ini").write_text("gpu[01:08]\n")
    env = {"TERM": "xterm", "HOME": str(tmp_path / "home"), "COLUMNS": "60", **environ}
    return pexpect.spawn(
        sys.executable,
        ["-c", PROGRAM, str(tmp_path), slow, *(words or EXEC)],
        timeout=60,
        env=env,
        echo=False,
        cwd=Path.cwd(),
    )


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_it_names_those_that_are_left_and_leaves_no_trace(tmp_path: Path) -> None:
    child = start(tmp_path, "command")
    child.expect_exact("waiting for gpu03, gpu07   ")
    child.sendline("")
    child.expect(r"\r\x1b\[Ktalk\r\n")  # talk stands on a line of its own
    child.expect_exact("waiting for gpu03, gpu07   ")
    child.sendline("")
    child.expect(r"\r\x1b\[Kgpu\[01-08\]: up\r\n")
    child.expect(pexpect.EOF)
    assert child.before == b""
    child.close()
    assert child.exitstatus == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_dumb_terminal_is_left_alone(tmp_path: Path) -> None:
    child = start(tmp_path, "command", TERM="dumb")
    child.sendline("")
    child.sendline("")
    child.expect(pexpect.EOF)
    assert child.before == b"talk\r\ngpu[01-08]: up\r\n"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    "line",
    [
        "exec --on-host gpu03 uptime",
        "ssh --on-host gpu03 uptime",
        "cp gpu03:x .",
        "train --hosts gpu03 -- true",
    ],
)
def test_one_host_is_waited_for_too(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.py").touch()
    child = start(tmp_path, "connect", *line.split())
    child.expect_exact("waiting for gpu03   ")
    child.close(force=True)
