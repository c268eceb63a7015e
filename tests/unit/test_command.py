"""Quoting and framing, through real shells."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.hosts.answer import Answer
from orchestrator.hosts.command import (
    Command,
    Raw,
    Script,
    Secret,
    for_any_shell,
    framed,
    lasting,
    on_host,
    on_path,
)

POSIX = [s for s in (["dash"], ["busybox", "sh"], ["bash", "--posix"]) if shutil.which(s[0])] or [["sh"]]
LOGIN = [s for s in ("bash", "dash", "zsh", "fish", "csh", "tcsh", "ksh") if shutil.which(s)]

# everything that argv can hold: no NUL, and bytes that are no UTF-8 as surrogates
words = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    | st.sampled_from("\udc80\udcff'\\!\n$`;"),
    max_size=30,
)


def said(shell: list[str], text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return subprocess.run([*shell, "-s"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("shell", POSIX, ids=" ".join)
@given(st.lists(words, max_size=4))
def test_every_word_arrives_as_it_was(shell: list[str], argv: list[str]) -> None:
    out = said(shell, Command.of("printf", "[%s]", *argv).shell())
    assert out == ("".join(f"[{w}]" for w in argv) or "[]").encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("shell", LOGIN)
@settings(deadline=None)
@given(words)
def test_a_line_for_any_shell_means_the_same_to_each(shell: str, word: str) -> None:
    line = for_any_shell(Command.of("printf", "[%s]", word)).encode("utf-8", "surrogateescape")
    done = subprocess.run([shell.encode(), b"-c", line], capture_output=True, check=True)
    assert done.stdout == f"[{word}]".encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("shell", LOGIN)
def test_a_script_for_any_shell_keeps_stdin_for_data(shell: str) -> None:
    line = for_any_shell(Script("x", 'read a\nread b\necho "$b, $a! it\'s \\\\"'))
    done = subprocess.run([shell, "-c", line], input=b"one\ntwo\n", capture_output=True, check=True)
    assert done.stdout == b"two, one! it's \\\n"


def test_a_secret_is_told_to_the_host_only() -> None:
    command = Command.of("login", Secret("hunter2"), Raw("< /dev/null"))
    assert command.shell() == "login hunter2 < /dev/null"
    assert str(command) == "login *** < /dev/null"
    assert "hunter2" not in repr(command)


@pytest.mark.parametrize(
    ("path", "word"), [("~", '"$HOME"'), ("~/a b", "\"$HOME\"'/a b'"), ("/a b", "'/a b'"), ("~x/y", "'~x/y'")]
)
def test_a_path_may_begin_at_home(path: str, word: str) -> None:
    assert on_host(path).text == word


def test_folders_come_before_path() -> None:
    script = on_path(("~/bin", "/opt/a b"), Script("x", 'printf %s "$PATH"'))
    env = {"PATH": "/bin", "HOME": "/h"}
    done = subprocess.run(["/bin/sh", "-c", script.text], env=env, capture_output=True, check=True)
    assert done.stdout == b"/h/bin:/opt/a b:/bin"
    assert on_path((), script) is script


def ask(text: str, *, shell: list[str] | None = None, cut: int | None = None) -> Answer:
    frame = framed(Script("x", text))
    done = subprocess.run(
        [*(shell or ["sh"]), "-s"], input=frame.stdin[:cut], capture_output=True, check=False
    )
    answer = Answer(frame)
    answer.feed(b"*** Welcome ***\n" + done.stdout)
    answer.feed_error(b"warning: no locale\n" + done.stderr)
    return answer


@pytest.mark.parametrize("shell", POSIX, ids=" ".join)
@pytest.mark.parametrize(
    ("text", "status", "out", "err"),
    [
        ("echo hi; exit 3", 3, b"hi\n", b""),
        ("", 0, b"", b""),
        ("# nothing", 0, b"", b""),
        ("cat; echo after", 0, b"after\n", b""),  # a child that reads stdin does not eat the script
        ("printf 'no end of line'; false", 1, b"no end of line", b""),
        ("echo no >&2; exit 255", 255, b"", b"no\n"),
        ("set -e; false; echo never", 1, b"", b""),
        ("cat <<EOF\n$((1+1))\nEOF", 0, b"2\n", b""),
        ("cd /; unset PATH; exec >&- 2>&-", 0, b"", b""),
        ("printf 'caf\\351\\n'", 0, b"caf\xe9\n", b""),
        ("echo $LC_ALL", 0, b"C\n", b""),
    ],
)
def test_the_answer_is_what_the_script_said(
    shell: list[str], text: str, status: int, out: bytes, err: bytes
) -> None:
    answer = ask(text, shell=shell)
    assert answer.whole
    result = answer.result("x", "gpu01", 0)
    assert (result.status, result.out, result.err) == (status, out, err)


def watched(shell: list[str], text: str) -> tuple[subprocess.Popen[bytes], Answer]:
    """Start a watched script; its stdin stays open."""
    frame = framed(Script("x", text), watched=True)
    pipe = subprocess.PIPE
    process = subprocess.Popen([*shell, "-s"], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    assert process.stdin
    process.stdin.write(frame.stdin)
    process.stdin.flush()
    return process, Answer(frame)


@pytest.mark.parametrize("shell", POSIX, ids=" ".join)
def test_a_watched_script_answers_and_what_it_left_behind_lives(shell: list[str]) -> None:
    process, answer = watched(shell, "echo out; echo err >&2; sleep 300 >/dev/null 2>&1 & echo $!; exit 3")
    with process:
        assert process.stdout
        assert process.stderr
        answer.feed(process.stdout.read())
        answer.feed_error(process.stderr.read())
        result = answer.result("x", "gpu01", 0)
        pid = int(result.text.split()[-1])
    assert (result.status, result.err, process.returncode) == (3, b"err\n", 0)
    os.kill(pid, signal.SIGKILL)  # raises where it is gone


@pytest.mark.parametrize("shell", POSIX, ids=" ".join)
def test_a_watched_script_is_ended_with_its_stdin(shell: list[str], tmp_path: Path) -> None:
    """All of it: a child that takes no SIGTERM too."""
    text = f"( trap '' TERM; echo > '{tmp_path}/up'; sleep 300 ); echo never"
    process, _ = watched(shell, text)
    with process:
        until = time.monotonic() + 60
        while not (tmp_path / "up").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        assert process.poll() is None
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        assert b"never" not in process.stdout.read()  # comes to its end when nobody holds it any more


@pytest.mark.parametrize("shell", POSIX, ids=" ".join)
def test_a_script_that_is_cut_anywhere_runs_nothing(shell: list[str], tmp_path: os.PathLike[str]) -> None:
    text = f"cd '{tmp_path}'\necho a >> seen\necho b >> seen\n"
    length = len(framed(Script("x", text)).stdin)
    seen = os.path.join(tmp_path, "seen")
    for cut in range(length):
        answer = ask(text, shell=shell, cut=cut)
        if cut < length - 1:  # the last byte is the line end, which a shell can do without
            assert not os.path.exists(seen), cut
            assert not answer.whole, cut
    with open(seen) as file:
        assert file.read() == "a\nb\n"


def test_an_end_by_a_signal_is_128_and_the_signal() -> None:
    for asked in (Command.of("sh", "-c", "kill -9 $$"), Script("x", "sh -c 'kill -9 $$'")):
        done = subprocess.run(["/bin/sh", "-c", lasting(asked).text], capture_output=True, check=False)
        assert done.returncode == 128 + 9
