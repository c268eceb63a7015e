"""Logging in by a Kerberos ticket, which the ssh program does and Fabric does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import NotPermitted
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.openssh import OpenSshMachine
from orchestrator.inventory import Host
from tests.ssh.kerberos import Realm, needs_kerberos
from tests.ssh.server import Server
from tests.ssh.test_login import ME


@pytest.mark.transport("auto", "openssh", reason="Fabric can't")
def test_a_ticket_opens_a_host(
    sshd: Server, tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_kerberos()
    realm = Realm(tmp_path / "realm")
    for name, value in realm.environ.items():
        monkeypatch.setenv(name, value)
    (sshd.client / ".ssh" / "config").write_text(
        f"Host gpu\n HostName localhost\n Port {sshd.port}\n HostKeyAlias [127.0.0.1]:{sshd.port}\n"
        f" GSSAPIAuthentication yes\n UserKnownHostsFile {sshd.known_hosts}\n"
    )
    with realm.running(ME):
        realm.admits_to(sshd)
        with pytest.raises(NotPermitted) as caught:
            connect(Host("gpu01", "gpu"))
        assert str(caught.value) == (
            f"gpu01: login refused for {ME}@gpu01: it takes no keys, only gssapi-with-mic "
            "(tried keys: none). Get a Kerberos ticket: kinit"
        )
        realm.get_ticket(ME)
        with connect(Host("gpu01", "gpu")) as machine:
            assert isinstance(machine, OpenSshMachine)
            assert machine.run(Script("x", "echo $HOME")).text == f"{sshd.home}\n"
            assert machine.client_keys == ()
            assert machine.private_key is None
    assert sshd.count("Accepted gssapi-with-mic") == 1
