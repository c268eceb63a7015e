"""What an account's login files, shell and key may do before or instead of a command: the real ones."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.errors import HostError, NotPermitted
from orchestrator.hosts.base import Terminal
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from tests.ssh.server import Server
from tests.ssh.test_accounts import restart

BASH = 'ForceCommand exec bash -c "$SSH_ORIGINAL_COMMAND"'

GUARD = "case $- in *i*) ;; *) return;; esac\n"


def tool(sshd: Server, name: str, text: str) -> None:
    path = sshd.home / "tools" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "text",
    [
        "echo '*** Welcome to the lab ***'; echo 'quota exceeded' >&2; printf 'no line end'",
        "printf '\\033[H\\033[2J'; stty erase x; mesg n; tput clear",
        "no-such-program --init; PROMPT_COMMAND=; set -u; shopt -s nullglob; false",
        "echo(){ builtin echo mine; }; alias printf=false; PS4=; IFS=x; umask 777; cd /",
    ],
)
def test_a_noisy_bashrc_does_not_matter(sshd: Server, text: str) -> None:
    restart(sshd, BASH)
    (sshd.home / ".bashrc").write_text(text + "\n")
    with connect(sshd.host()) as machine:
        result = machine.run(Script("x", "echo 0, A100; echo why >&2; exit 1"))
        assert (result.status, result.out, result.complaint) == (1, b"0, A100\n", "why")
        assert machine.run(Script("x", "set -- a x b; echo $*")).out == b"a x b\n"
        with machine.stream(Command.of("cat")) as stream:
            stream.write(b"\x00data")
            assert stream.read(timeout=60) == b"\x00data"
        machine.put(b"\xff\n", "~/file")
        into = io.BytesIO()
        machine.get("~/file", into)
        assert into.getvalue() == b"\xff\n"


def test_noise_without_end_before_a_stream(sshd: Server) -> None:
    restart(sshd, BASH)
    (sshd.home / ".bashrc").write_text("head -c 300000 /dev/zero; echo orch-; printf orch-\n")
    with connect(sshd.host()) as machine:
        with machine.stream(Command.of("echo", "hi")) as stream:
            assert b"".join(iter(stream.read, b"")) == b"hi\n"
            assert stream.status() == 0
        with machine.stream(Command.of("tty"), terminal=Terminal()) as stream:
            assert b"".join(iter(stream.read, b"")).startswith(b"/dev/")


def test_an_early_returning_bashrc_and_remote_path(sshd: Server) -> None:
    """What .bashrc would add to PATH further down is not there; the setting puts it there."""
    restart(sshd, BASH)
    tool(sshd, "docker", "echo found")
    (sshd.home / ".bashrc").write_text(f"{GUARD}export PATH={sshd.home}/tools:$PATH\n")
    with connect(sshd.host()) as machine:
        assert machine.run(Script("x", "docker || exit 9")).status in (0, 9)
        assert machine.run(Script("x", "command -v docker")).text != f"{sshd.home}/tools/docker\n"
    with connect(sshd.host(remote_path=("~/tools",))) as machine:
        assert machine.run(Script("x", "docker")).out == b"found\n"


@pytest.mark.parametrize("text", ["exit", '[ -z "$PS1" ] && exit 3', "exec false"])
def test_a_bashrc_that_ends_the_shell_is_told(sshd: Server, text: str) -> None:
    restart(sshd, BASH)
    (sshd.home / ".bashrc").write_text(text + "\n")
    with connect(sshd.host()) as machine, pytest.raises(NotPermitted) as caught:
        machine.run(Script("ps", "echo hi"))
    assert "the account runs no commands: its shell ended with status " in str(caught.value)
    assert "no `exit` in its login files" in str(caught.value)


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("/usr/sbin/nologin", "it said: This account is currently not available."),
        ("/bin/false", "its shell ended with status 1 and said nothing"),
        ("/bin/true", "its shell ended with status 0 and said nothing"),
        ("/bin/cat", "the account runs no commands; it said: "),
    ],
)
def test_shells_that_are_none(sshd: Server, shell: str, said: str) -> None:
    restart(sshd, f"ForceCommand {shell}")
    with connect(sshd.host()) as machine:
        with pytest.raises(NotPermitted) as caught:
            machine.run(Script("ps", "echo hi"), deadline=20)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
        if shell != "/bin/cat":  # which waits for more to copy
            with pytest.raises(NotPermitted) as caught, machine.stream(Command.of("cat")) as stream:
                stream.read()
            assert said in str(caught.value)
            with pytest.raises(NotPermitted, match="runs no commands"):
                machine.put(b"x", "~/x")


def test_a_key_with_a_command_of_its_own(sshd: Server) -> None:
    sshd.authorized.write_text('command="echo backups only" ' + sshd.authorized.read_text())
    with connect(sshd.host()) as machine, pytest.raises(NotPermitted, match="it said: backups only"):
        machine.run(Script("ps", "echo hi"))


def test_a_key_that_is_restricted(sshd: Server) -> None:
    """No terminal and no forward, but commands."""
    sshd.authorized.write_text("restrict " + sshd.authorized.read_text())
    with connect(sshd.host()) as machine:
        assert machine.run(Script("x", "echo hi")).out == b"hi\n"
        with pytest.raises(HostError, match="forbids forwarding"):
            machine.tunnel(sshd.port)
        said = r"gpu01: stream: the host gives no terminal \(PermitTTY in sshd_config, no-pty"
        with pytest.raises(HostError, match=said):
            with machine.stream(Command.of("true"), terminal=Terminal()) as stream:
                stream.read(timeout=60)
        assert machine.run(Script("x", "echo on")).out == b"on\n"


def test_a_host_in_another_language(sshd: Server) -> None:
    """What orch asks is answered in English; what a person runs is in the account's own language."""
    restart(
        sshd, f"SetEnv HOME={sshd.home} PATH=/usr/bin:/bin LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8 LANGUAGE=de"
    )
    tool(sshd, "df", '[ "$LC_ALL" = C ] && echo Filesystem || echo Dateisystem')
    with connect(sshd.host(remote_path=("~/tools",))) as machine:
        assert machine.run(Script("x", "df")).out == b"Filesystem\n"
        with machine.stream(Command.of("df")) as stream:
            assert stream.read() == b"Dateisystem\n"
        with pytest.raises(HostError, match="can't be read: no such file"):
            machine.get("/nope", io.BytesIO())


def can_mount() -> bool:
    return os.getuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0


@pytest.mark.skipif(not can_mount() or not shutil.which("busybox"), reason="needs root, unshare and busybox")
def test_a_host_that_has_nothing_but_busybox(sshd: Server, tmp_path: Path) -> None:
    applets = tmp_path / "applets"
    applets.mkdir()
    busybox = shutil.which("busybox")
    assert busybox
    subprocess.run([busybox, "--install", "-s", applets], check=True)
    sshd.stop()
    shell = os.path.realpath("/bin/sh")
    sshd.start(
        f"SetEnv HOME={sshd.home} PATH={applets}",
        f'ForceCommand {applets}/sh -c "$SSH_ORIGINAL_COMMAND"',
        within=("unshare", "-m", "sh", "-c", f'mount --bind {busybox} {shell} && exec "$@"', "sh"),
    )
    with connect(sshd.host()) as machine:
        said = machine.run(Script("x", "/bin/sh --help 2>&1 | grep -c BusyBox; echo $PATH; cat; exit 3"))
        assert (said.status, said.text) == (3, f"1\n{applets}\n")
        word = 'it\'s !a "b" \\ é'
        machine.put(word.encode(), "~/it's")
        with machine.stream(Command.of("cat", f"{sshd.home}/it's")) as stream:
            assert stream.read() == word.encode()
        with pytest.raises(HostError, match="no answer within 1 s"):
            machine.run(Script("x", "sleep 300", asks=True), deadline=1)
