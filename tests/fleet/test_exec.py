"""orch exec and orch ssh beside docker exec and ssh: statuses, signals, windows, stdin and bytes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Fleet, Host
from .lab.shell import wait_until
from .orch import Orch, make_project

PROJECT = "parity"


@pytest.fixture(scope="module")
def there(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orch]:
    """Somebody whose project is deployed on gpu01."""
    top = tmp_path_factory.mktemp("exec")
    orch = Orch(fleet, home=top / "home", cwd=make_project(top / PROJECT), account="ana")
    orch("deploy", "--yes", "gpu01")
    yield orch
    fleet["gpu01"].run(f"docker rm -f orch-ana-{PROJECT}; rm -rf /home/ana/.orch/ana/{PROJECT}")


def said(orch: Orch, *words: str, data: bytes = b"") -> tuple[int, bytes, str]:
    argv, env = orch.argv(*words), orch.environment()
    done = subprocess.run(
        argv, cwd=orch.cwd, env=env, input=data, capture_output=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, done.stderr.decode()


def test_the_status_is_the_commands_and_that_is_said(there: Orch) -> None:
    for where in ((), ("--on-host",)):
        assert said(there, "exec", *where, "gpu01", "--", "sh", "-c", "exit 3") == (
            3,
            b"",
            "orch: gpu01: exit status 3 is the command's\n",
        )
        status, _, words = said(there, "exec", *where, "gpu01", "--", "no-such-program")
        assert (status, "no-such-program" in words) == (127, True)
        assert said(there, "exec", *where, "gpu01", "--", "/etc/passwd")[0] == 126
        assert said(there, "exec", *where, "gpu01", "--", "sh", "-c", "kill -KILL $$")[0] == 128 + 9
    assert said(there, "exec", "gpu01", "--", "true") == (0, b"", "")


def test_ssh_gives_a_line_to_a_shell(there: Orch) -> None:
    line = "cd /; echo $HOME '*' 2>&1 | tr a-z A-Z; exit 5"
    assert said(there, "ssh", "gpu01", "--", line)[:2] == (5, b"/HOME/ANA *\n")
    assert said(there, "ssh", "gpu01", "echo", "$((6*7))", ">", "/dev/stderr") == (0, b"", "42\n")
    assert said(there, "ssh", "--on-host", "gpu01", "echo $((6*7)) $0") == (0, b"42 /bin/bash\n", "")
    assert said(there, "ssh", "gpu01", data=b"echo $((6*7)); exit 4\n")[:2] == (4, b"42\n")
    assert said(there, "ssh", "gpu01", "no-such-program")[0] == 127


def test_stdin_only_where_it_is_asked_for(there: Orch) -> None:
    loop = f"while read h; do {shlex.join(there.argv('exec'))} --on-host $h -- cat; echo $h; done"
    env = there.environment()
    done = subprocess.run(["sh", "-c", loop], env=env, input=b"gpu01\n" * 3, capture_output=True, check=True)
    assert done.stdout == b"gpu01\n" * 3


@pytest.mark.parametrize("words", [("exec", "-i", "gpu01", "--", "cat"), ("ssh", "gpu01", "cat")])
def test_every_byte_comes_back(there: Orch, words: tuple[str, ...]) -> None:
    data = os.urandom(10_000_000)
    assert said(there, *words, data=data) == (0, data, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_ends_orch_ends_the_command_in_the_container(
    there: Orch, gpu01: Host, number: signal.Signals
) -> None:
    seconds = str(7000 + number)
    process = subprocess.Popen(
        there.argv("exec", "gpu01", "--", "sh", "-c", f"echo go; sleep {seconds}"),
        cwd=there.cwd,
        env=there.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline() == b"go\n"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
    wait_until("its end", lambda: gpu01.run(f"pgrep -f '^sleep {seconds}'", check=False).stdout == "")


@pytest.mark.parametrize(
    "words",
    [
        ("exec", "-it", "gpu01", "--", "sh", "-c"),
        ("exec", "-it", "--on-host", "gpu01", "--", "sh", "-c"),
        ("ssh", "-t", "gpu01", "exec sh -c"),
    ],
    ids=["container", "host", "ssh"],
)
def test_a_window_and_its_change(there: Orch, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Seen in tmux, whose window is resized under it."""
    script = "trap 'stty size' WINCH; tty; stty size; until read x; do :; done; read y; echo $x-$y; exit 6"
    given = shlex.quote(script) if words[0] == "ssh" else script
    (tmp_path / "run").write_text(
        f"cd {there.cwd}\n{shlex.join(there.argv(*words, given))}\necho status $?\nread end\n"
    )

    def tmux(*words: str) -> str:
        line = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null", *words]
        env = {**there.environment(), "TERM": "xterm"}
        return subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout

    def shows(pattern: str) -> None:
        wait_until(pattern, lambda: re.search(pattern, tmux("capture-pane", "-p"), re.MULTILINE))

    tmux("new-session", "-d", "-x", "100", "-y", "40", f"sh {tmp_path}/run")
    try:
        shows(r"^/dev/pts/\d+\n(0 0\n)?40 100$")  # Docker 20.10 tells the size when the command has begun
        tmux("resize-window", "-x", "132", "-y", "50")
        shows("^50 132$")
        tmux("send-keys", "one", "Enter", "two", "Enter")
        shows("^one-two$")
        shows("^status 6$")
    finally:
        tmux("kill-server")
