"""Host keys against a real sshd: unknown, changed, one of several, revoked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import NotPermitted
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.known_hosts import PublicKey
from orchestrator.inventory import Host
from tests.ssh.server import KEYS, Server, keygen


def works(host: Host) -> None:
    with connect(host) as machine:
        assert machine.run(Script("x", "echo hi")).out == b"hi\n"


def shown(sshd: Server, kind: str = "ed25519") -> str:
    return PublicKey.parse((sshd.folder / f"host_{kind}.pub").read_text()).fingerprint


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd: Server) -> None:
    sshd.known_hosts.unlink()
    with pytest.raises(NotPermitted) as caught:
        connect(sshd.host())
    assert caught.value.exit_code == 77
    assert str(caught.value).startswith(f"gpu01: its host key is unknown (ed25519 {shown(sshd)}). Compare it")
    assert f"ssh -p {sshd.port} " in str(caught.value)
    assert not sshd.known_hosts.exists()
    assert sshd.count("Accepted publickey") == 0


def test_a_person_may_trust_it_once_and_for_all(sshd: Server) -> None:
    sshd.known_hosts.unlink()
    asked: list[str] = []

    def yes(question: str) -> bool:
        asked.append(question)
        return True

    host = sshd.host()
    connect(host, prompt=yes).close()
    assert shown(sshd) in asked[0]
    works(host)
    assert len(asked) == 1


def test_accept_new_takes_it_and_then_holds_on_to_it(sshd: Server, tmp_path: Path) -> None:
    sshd.known_hosts.unlink()
    host = sshd.host(host_key_policy="accept-new")
    works(host)
    sshd.stop()
    sshd.start(host_keys=[keygen(tmp_path / "other")])
    with pytest.raises(NotPermitted, match="CHANGED"):
        connect(host)


@pytest.mark.parametrize("kind", KEYS)
def test_any_one_of_its_keys_is_enough(sshd: Server, kind: str) -> None:
    """The server is asked for the type that is known, else it would show another and look changed."""
    sshd.known_hosts.unlink()
    sshd.trust(kind)
    works(sshd.host(host_key_policy="strict"))


def test_a_changed_host_key_is_refused_and_says_how_to_mend_it(sshd: Server, tmp_path: Path) -> None:
    sshd.stop()
    other = keygen(tmp_path / "other")
    sshd.start(host_keys=[other])
    sshd.known_hosts.write_text("# lab\n" + sshd.known_hosts.read_text())
    with pytest.raises(NotPermitted) as caught:
        connect(sshd.host(), prompt=lambda _: True)
    new = PublicKey.parse(other.with_suffix(".pub").read_text()).fingerprint
    assert caught.value.exit_code == 77
    assert str(caught.value) == (
        f"gpu01: its host key has CHANGED: {sshd.known_hosts}:2 has ed25519 {shown(sshd)}, the host shows "
        f"ed25519 {new}. It was set up anew, or someone is in between. When its administrator confirms the "
        f"new key: ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {sshd.known_hosts}"
    )
    assert sshd.count("Accepted publickey") == 0


def test_a_revoked_host_key_is_refused(sshd: Server) -> None:
    with sshd.known_hosts.open("a") as file:
        file.write("@revoked * " + (sshd.folder / "host_ed25519.pub").read_text())
    with pytest.raises(NotPermitted, match="revoked"):
        connect(sshd.host())


def test_what_ssh_config_says_of_host_keys_holds(sshd: Server, tmp_path: Path) -> None:
    sshd.known_hosts.rename(tmp_path / "elsewhere")
    (sshd.client / ".ssh" / "config").write_text(f"UserKnownHostsFile {tmp_path}/elsewhere\n")
    works(sshd.host())
    (sshd.client / ".ssh" / "config").write_text("HostKeyAlias the-gpu\nStrictHostKeyChecking accept-new\n")
    works(sshd.host())
    assert sshd.known_hosts.read_text().startswith("the-gpu ssh-ed25519 ")


def test_the_arguments_of_the_inventory_reach_ssh(sshd: Server, tmp_path: Path) -> None:
    sshd.known_hosts.rename(tmp_path / "elsewhere")
    works(replace(sshd.host(), common_args=("-o", f"UserKnownHostsFile={tmp_path}/elsewhere")))
