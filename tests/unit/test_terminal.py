"""The caller's terminal joined to a stream: played on a real pseudo-terminal."""

from __future__ import annotations

import sys
import textwrap

import pexpect
import pytest

PROGRAM = textwrap.dedent("""
    import sys
    from orchestrator.hosts.command import Command, Script
    from orchestrator.hosts.connect import connect
    from orchestrator.hosts.terminal import interact, local_terminal
    from orchestrator.inventory import Host

    machine = connect(Host("here", "localhost", connection="local"))
    with machine.stream(Script("x", sys.argv[1]), terminal=local_terminal()) as stream:
        status = interact(stream)
    print("status", status, "typed", repr(input()))
""")


@pytest.fixture
def start() -> object:
    def spawn(script: str) -> pexpect.spawn:
        return pexpect.spawn(
            sys.executable, ["-c", PROGRAM, script], timeout=30, dimensions=(40, 100), env={"TERM": "vt100"}
        )

    return spawn


def test_a_shell_sees_the_callers_terminal_and_keys(start: object) -> None:
    child = start(
        "stty size; echo $TERM; trap 'echo caught' INT; echo go; "
        'until read a; do :; done; echo "<$a>"; exit 7'
    )
    child.expect_exact("40 100")
    child.expect_exact("vt100")
    child.expect_exact("go")
    child.send("\x03")  # goes to the shell there, not to the program here
    child.expect_exact("caught")
    child.send("hi\r")
    child.expect_exact("<hi>")
    child.sendline("next")
    child.expect_exact("status 7 typed 'next'")  # what is typed afterwards is the caller's again
    child.expect(pexpect.EOF)
    child.wait()


def test_a_new_size_is_passed_on(start: object) -> None:
    child = start("trap 'stty size; exit 9' WINCH; echo go; while :; do sleep 0.05; done")
    child.expect_exact("go")
    child.setwinsize(50, 132)
    child.expect_exact("50 132")
    child.sendline("")
    child.expect_exact("status 9")
    child.expect(pexpect.EOF)
    child.wait()
