"""The caller's terminal joined to a stream: played on a real pseudo-terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pexpect
import pytest

from orchestrator.hosts.escape import Escape

PROGRAM = textwrap.dedent("""
    import sys
    from orchestrator.hosts.command import Command, Script
    from orchestrator.hosts.connect import connect
    from orchestrator.errors import LostConnection
    from orchestrator.hosts.escape import Escape
    from orchestrator.hosts.terminal import interact, local_terminal
    from orchestrator.inventory import Host

    machine = connect(Host("here", "localhost", connection="local"))
    with machine.stream(Script("x", sys.argv[1]), terminal=local_terminal()) as stream:
        try:
            status = interact(stream, escape=Escape())
        except LostConnection as error:
            status = error
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


def test_a_session_that_hangs_can_be_left(start: object) -> None:
    child = start("trap '' INT; stty -echo; echo go; while :; do sleep 0.05; done")
    child.expect_exact("go")
    child.send("\x03\r~.")
    child.sendline("next")
    child.expect_exact("status you left with ~. typed 'next'")
    child.expect(pexpect.EOF)
    child.wait()


@pytest.mark.parametrize(
    ("typed", "sent", "left"),
    [
        ("ls\r~.more", "ls\r", True),
        ("~.", "", True),
        ("\r~\r~.", "\r~\r", True),
        ("a~.", "a~.", False),
        ("\r~~.", "\r~.", False),
        ("\r~x", "\r~x", False),
        ("\n~", "\n", False),
        ("cd ~\r", "cd ~\r", False),
    ],
)
def test_where_a_tilde_is_the_way_out(typed: str, sent: str, left: bool) -> None:
    for size in (1, len(typed)):
        keys = Escape()
        pieces = [typed[at : at + size].encode() for at in range(0, len(typed), size)]
        assert b"".join(map(keys.through, pieces)).decode() == sent
        assert keys.left is left


PIPED = textwrap.dedent("""
    import sys
    from orchestrator.hosts.command import Script
    from orchestrator.hosts.connect import connect
    from orchestrator.hosts.terminal import interact
    from orchestrator.inventory import Host

    with connect(Host("here", "localhost", connection="local")) as machine:
        with machine.stream(Script("x", sys.argv[1])) as stream:
            status = interact(stream, stdin=sys.argv[2] == "stdin")
    sys.exit(status)
""")


def piped(script: str, *, stdin: str = "stdin", data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-c", PIPED, script, stdin]
    return subprocess.run(words, input=data, capture_output=True, check=False, timeout=60)


def test_pipes_are_joined_byte_for_byte() -> None:
    data = os.urandom(3_000_000)
    done = piped("tee /dev/stderr; exit 3", data=data)
    assert (done.returncode, done.stdout, done.stderr) == (3, data, data)


def test_stdin_is_left_alone_unless_it_is_asked_for() -> None:
    """A loop `while read h; do orch exec $h ...; done` must not lose its lines."""
    words = [sys.executable, "-c", PIPED, "cat", ""]
    program = f"import subprocess; subprocess.run({words!r}); print(input())"
    done = subprocess.run([sys.executable, "-c", program], input=b"next", capture_output=True, check=True)
    assert done.stdout == b"next\n"


def test_stdin_may_be_closed() -> None:
    words = f"{sys.executable} -c \"$1\" 'cat; echo over' stdin <&-"
    done = subprocess.run(["sh", "-c", words, "sh", PIPED], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"over\n", b"")
