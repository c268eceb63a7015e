"""The ssh program as a transport: when it is chosen, the user's own masters, and what becomes of orch's."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection, NotPermitted
from orchestrator.hosts import openssh_stream
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.openssh import OpenSshMachine
from orchestrator.hosts.ssh import SshMachine
from orchestrator.inventory import Host
from tests.ssh.oracle import both_arrive, configure
from tests.ssh.peers import ends, frozen
from tests.ssh.server import Server, keygen
from tests.ssh.test_login import public
from tests.until import until

only = pytest.mark.transport
AUTO = only("auto", reason="it is what chooses")
PROGRAM = only("openssh", reason="it is about the ssh program")


@contextmanager
def master_of_the_user(sshd: Server, path: Path) -> Iterator[int]:
    """`ssh -M` as the user has it, with ControlPath in ~/.ssh/config; yields its pid."""
    configure(sshd, f"ControlPath {path}")
    words = ["ssh", "-F", sshd.client / ".ssh" / "config", "-NM", "gpu"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as process:
        until(path.exists, "the master")
        try:
            yield process.pid
        finally:
            process.terminate()


def kind_of(host: Host) -> type[Machine]:
    with connect(host) as machine:
        assert machine.run(Script("x", "echo hi")).out == b"hi\n"
        return type(machine)


GPU = Host("gpu01", "gpu")


@AUTO
def test_fabric_is_the_ordinary_way(sshd: Server) -> None:
    assert kind_of(sshd.host()) is SshMachine
    configure(sshd, "ControlMaster auto\nControlPath ~/.ssh/nobody-listens-%C\nControlPersist 10m")
    assert kind_of(GPU) is SshMachine


@AUTO
def test_the_ordinary_way_starts_nothing_but_ssh_minus_g(
    sshd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    popen = subprocess.Popen.__init__

    def told(self: object, words: list[str], *rest: object, **options: object) -> None:
        started.append(words)
        popen(self, words, *rest, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", told)
    assert kind_of(sshd.host()) is SshMachine
    assert [words[1] for words in started] == ["-G"]


@AUTO
def test_a_live_master_of_the_users_is_used_and_stays(sshd: Server, tmp_path: Path) -> None:
    with master_of_the_user(sshd, tmp_path / "cm") as pid:
        for _ in range(2):
            with connect(GPU) as machine:
                assert isinstance(machine, OpenSshMachine)
                assert machine.run(Script("x", "echo hi")).out == b"hi\n"
                assert public(sshd.login) in machine.client_keys
                assert machine.private_key is None  # who knows how the user has logged in
        assert sshd.count("Accepted publickey") == 1
        os.kill(pid, 0)
        assert kind_of(replace(GPU, settings=replace(GPU.settings, transport="fabric"))) is SshMachine


@AUTO
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_master_that_is_dead_or_stands_still_is_passed_over(
    sshd: Server, tmp_path: Path, how: signal.Signals
) -> None:
    with master_of_the_user(sshd, tmp_path / "cm") as pid:
        os.kill(pid, how)
        assert (tmp_path / "cm").exists()
        began = time.monotonic()
        assert kind_of(GPU) is SshMachine
        assert time.monotonic() - began < 60
        os.kill(pid, signal.SIGKILL)


@AUTO
def test_something_else_listens_at_the_control_path(sshd: Server, tmp_path: Path) -> None:
    configure(sshd, f"ControlPath {tmp_path}/cm")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(f"{tmp_path}/cm")
        sock.listen(8)

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with sock.accept()[0] as peer:
                        peer.sendall(b"220 mail.example.org ESMTP\r\n")

        threading.Thread(target=answer, daemon=True).start()
        assert kind_of(GPU) is SshMachine
        sock.shutdown(socket.SHUT_RDWR)


@only("auto", "openssh", reason="Fabric can't")
def test_a_command_that_knows_host_keys_and_a_cipher_of_its_own(sshd: Server, tmp_path: Path) -> None:
    command = tmp_path / "keys"
    command.write_text(f"#!/bin/sh\ncat {sshd.known_hosts}\n")
    command.chmod(0o755)
    both_arrive(sshd, f"KnownHostsCommand {command}\nUserKnownHostsFile none")
    both_arrive(sshd, "Ciphers chacha20-poly1305@openssh.com")


@PROGRAM
def test_status_255_is_the_commands_and_no_lost_connection(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        assert machine.run(Script("x", "exit 255")).status == 255
        with machine.stream(Command.of("sh", "-c", "exit 255")) as stream:
            assert stream.read() == b""
            assert stream.status() == 255


def process_of(machine: Machine) -> int:
    assert isinstance(machine, OpenSshMachine)
    assert machine._master
    return machine._master._process.pid


@PROGRAM
def test_a_program_that_stands_still_holds_nobody_up(sshd: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssh_stream, "_QUIET", 0.2)
    began = time.monotonic()
    with connect(sshd.host()) as machine:
        pid = process_of(machine)
        with machine.stream(Command.of("cat")) as stream, frozen(pid):
            with pytest.raises(HostError, match="gpu01: ps: no answer within 1 s"):
                machine.run(Script("ps", "echo hi"), deadline=1)
            with pytest.raises(LostConnection, match="the ssh program stands still"):
                stream.read()
            with pytest.raises(LostConnection, match="the ssh program stands still"):
                stream.write(b"x" * 10_000_000)
        os.kill(pid, signal.SIGSTOP)
    ends(pid)  # by the close of the machine, although it stands still
    assert time.monotonic() - began < 60


@PROGRAM
def test_nothing_is_left_behind(sshd: Server) -> None:
    with connect(sshd.host()) as machine:
        assert isinstance(machine, OpenSshMachine)
        pid, path = process_of(machine), machine.path
        assert os.stat(path).st_mode & 0o077 == 0
        machine.run(Script("x", "true"))
    ends(pid)
    assert not os.path.exists(path)


@PROGRAM
def test_the_program_ends_with_orch_however_orch_ends(sshd: Server, tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from orchestrator.hosts.connect import connect\n"
        "from orchestrator.inventory import Host, Settings\n"
        f"host = Host('gpu01', '127.0.0.1', port={sshd.port}, key={str(sshd.login)!r}, "
        "settings=Settings(transport='openssh'))\n"
        "master = connect(host)._master\n"
        "print(master._process.pid, master.path, flush=True)\n"
        "time.sleep(600)\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environ) as orch:
        assert orch.stdout
        pid, path = orch.stdout.readline().decode().split()
        assert os.path.exists(path)
        orch.kill()
    ends(int(pid))
    until(lambda: not os.path.exists(path), "the end of its socket")


@PROGRAM
def test_a_host_that_shows_another_key_after_the_question(sshd: Server, tmp_path: Path) -> None:
    """Whoever stands in between may let the first connection through."""
    sshd.known_hosts.unlink()
    other = keygen(tmp_path / "other")

    def yes(question: str) -> bool:
        sshd.stop()
        sshd.start(host_keys=[other])
        return True

    with pytest.raises(NotPermitted, match="gpu01: it shows one host key now, and another then"):
        connect(sshd.host(), prompt=yes)
    assert not sshd.known_hosts.exists()


@only("auto", "openssh", reason="Fabric can't")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "hi"),
        (("-V", "20200101:20210101"), "its host certificate is refused: expired"),
        (("-n", "other.example.org"), "its host certificate is refused: name is not a listed principal"),
        (("-V", "20990101:21000101"), "its host certificate is refused: not yet valid"),
    ],
    ids=["good", "expired", "of another host", "of the future"],
)
def test_certificates_of_hosts(sshd: Server, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    authority = keygen(tmp_path / "authority")
    host_key = sshd.folder / "host_ed25519"
    named = options if "-n" in options else ("-n", "127.0.0.1", *options)
    sign = ["ssh-keygen", "-q", "-s", authority, "-I", "gpu01", "-h", *named, f"{host_key}.pub"]
    subprocess.run(sign, check=True)
    sshd.stop()
    sshd.start(f"HostCertificate {host_key}-cert.pub")
    text = authority.with_suffix(".pub").read_text()
    sshd.known_hosts.write_text(f"@cert-authority 127.0.0.1,[127.0.0.1]:* {text}")
    if said == "hi":
        assert kind_of(sshd.host()) is OpenSshMachine
        return
    with pytest.raises(NotPermitted, match=f"gpu01: {said}"):
        connect(sshd.host())
    assert sshd.count("Accepted publickey") == 0
