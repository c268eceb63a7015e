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
        machine = FakeMachine(host)
        late = host.name in ("gpu03", "gpu07")
        machine.answer(re.compile("uptime"), slow if late else Result(0, b"up\\n", b""))
        return machine

    threading.Thread(target=lambda: (input(), App.say("talk"), input(), go.set()), daemon=True).start()
    app = App(connect=connect, cwd=Path(sys.argv[1]))
    sys.exit(run(["exec", "--on-host", "all", "uptime"], app=app))
""")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # pexpect, while other tests had threads
def start(tmp_path: Path, **environ: str) -> pexpect.spawn:
    (tmp_path / "hosts.ini").write_text("gpu[01:08]\n")
    env = {"TERM": "xterm", "HOME": str(tmp_path), "COLUMNS": "60", **environ}
    return pexpect.spawn(
        sys.executable, ["-c", PROGRAM, str(tmp_path)], timeout=60, env=env, echo=False, cwd=Path.cwd()
    )


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_it_names_those_that_are_left_and_leaves_no_trace(tmp_path: Path) -> None:
    child = start(tmp_path)
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
    child = start(tmp_path, TERM="dumb")
    child.sendline("")
    child.sendline("")
    child.expect(pexpect.EOF)
    assert child.before == b"talk\r\ngpu[01-08]: up\r\n"
