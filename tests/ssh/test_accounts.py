"""Accounts as institutions hand them out: other shells, noisy login files, none that runs commands."""

from __future__ import annotations

import io
import shutil

import pytest

from orchestrator.errors import NotPermitted
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from tests.ssh.server import Server

SHELLS = [s for s in ("bash", "dash", "fish", "zsh", "csh", "tcsh") if shutil.which(s)]


def restart(sshd: Server, *lines: str) -> None:
    sshd.stop()
    sshd.start(*lines)


@pytest.mark.parametrize("shell", SHELLS)
def test_any_login_shell_will_do(sshd: Server, shell: str) -> None:
    """sshd hands the line to `SHELL -c`; a forced command does just that with another shell."""
    restart(sshd, f'ForceCommand exec {shutil.which(shell)} -c "$SSH_ORIGINAL_COMMAND"')
    word = 'it\'s !a "b" \\ $(c) ; é\n* #'
    with connect(sshd.host()) as machine:
        script = Script("x", f"printf %s {Command.of(word).shell()}; echo no >&2; exit 3")
        result = machine.run(script)
        assert (result.status, result.out, result.err) == (3, word.encode(), b"no\n")
        with machine.stream(Command.of("printf", "%s", word)) as stream:
            assert stream.read() == word.encode()
        machine.put(word.encode(), "~/it's !a file")
        into = io.BytesIO()
        machine.get("~/it's !a file", into)
        assert into.getvalue() == word.encode()


def test_noisy_login_files_do_not_matter(sshd: Server) -> None:
    noise = "echo '*** Welcome ***'; echo 'warning: locale' >&2; printf 'no line end'; "
    restart(sshd, f'ForceCommand {noise} exec sh -c "$SSH_ORIGINAL_COMMAND"')
    with connect(sshd.host()) as machine:
        result = machine.run(Script("x", "echo 0, A100; echo why >&2; exit 1"))
        assert (result.status, result.out, result.complaint) == (1, b"0, A100\n", "why")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo This account is currently not available.; exit 1", "This account is currently not available."),
        ("echo Only rsync here >&2; exit 0", "Only rsync here"),
        ("internal-sftp", "the connection went before the host said anything|it said: "),
    ],
)
def test_an_account_that_runs_no_commands_is_told_in_its_own_words(
    sshd: Server, command: str, said: str
) -> None:
    restart(sshd, f"ForceCommand {command}")
    with connect(sshd.host()) as machine, pytest.raises(NotPermitted, match=said) as caught:
        machine.run(Script("ps", "echo hi"), deadline=10)
    assert caught.value.exit_code == 77
    assert "not nologin, no forced command" in str(caught.value)
    assert "\n" not in str(caught.value)
