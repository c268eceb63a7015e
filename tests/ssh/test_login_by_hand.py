"""orch login on real servers that ask for a one-time password."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from orchestrator.errors import NotPermitted
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script
from orchestrator.hosts.connect import connect
from orchestrator.hosts.openssh import OpenSshMachine
from orchestrator.hosts.ssh import SshMachine
from orchestrator.inventory import Host
from tests.ssh.otp import Passwords, asking, needs_oath
from tests.ssh.server import Server, program, serving
from tests.ssh.test_login import ME

pytestmark = pytest.mark.transport("auto", reason="it is what finds the login")


class Person:
    """Somebody at a terminal, with ~/.ssh/config and hosts.ini."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def orch(self, *words: str) -> pexpect.spawn:
        """Begin `orch WORDS` on a terminal."""
        command = [sys.executable, "-m", "orchestrator", *words]
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "ORCH_INVENTORY": ""}
        return pexpect.spawn(
            command[0], command[1:], cwd=self._folder, env=environ, timeout=60, encoding="utf-8"
        )  # type: ignore[arg-type]

    def says(self, *words: str, status: int = 0) -> str:
        """Return all that `orch WORDS` says."""
        terminal = self.orch(*words)
        said = terminal.read()
        terminal.close()
        assert terminal.exitstatus == status, said
        return str(said).replace("\r\n", "\n")

    def logs_in(self, host: str, *passwords: str) -> str:
        """Log in with these passwords."""
        terminal = self.orch("login", host)
        for password in passwords:
            terminal.expect("One-time password.*: ")
            terminal.sendline(password)
        said = terminal.read()
        terminal.close()
        assert terminal.exitstatus == 0, said
        return str(said)


@pytest.fixture
def person(sshd: Server, tmp_path: Path) -> Iterator[Person]:
    """Somebody who leaves no login behind."""
    person = Person(tmp_path)
    yield person
    person.says("login", "--end", "gpu", "bastion")


@pytest.fixture
def passwords(sshd: Server) -> Iterator[Passwords]:
    """What opens gpu01, besides its key."""
    needs_oath()
    configure(sshd, gpu=sshd)
    with asking(sshd, ME) as passwords:
        yield passwords


def configure(sshd: Server, **servers: Server) -> None:
    text = ""
    for name, server in servers.items():
        jump = " ProxyJump bastion\n" if name != "bastion" and "bastion" in servers else ""
        text += f"Host {name}\n HostName 127.0.0.1\n Port {server.port}\n IdentityFile {server.login}\n{jump}"
    (sshd.client / ".ssh" / "config").write_text(f"{text}Host *\n UserKnownHostsFile {sshd.known_hosts}\n")


def test_a_host_that_asks_for_a_password_says_what_to_do(sshd: Server, passwords: Passwords) -> None:
    with pytest.raises(NotPermitted) as caught:
        connect(Host("gpu01", "gpu"))
    assert str(caught.value) == (
        f"gpu01: login refused for {ME}@gpu01: the key is right, but it also wants keyboard-interactive "
        f"(tried keys: {sshd.login}). Log in once by hand, and orch goes on with that: orch login gpu01"
    )


def test_a_login_serves_every_later_call(sshd: Server, passwords: Passwords, person: Person) -> None:
    said = person.logs_in("gpu", passwords.next())
    assert "gpu: logged in, until 8 h after the last use" in said
    for _ in range(2):
        with connect(Host("gpu01", "gpu")) as machine:
            assert isinstance(machine, OpenSshMachine)
            assert machine.run(Script("x", "echo hi")).out == b"hi\n"
    assert sshd.count("Accepted keyboard-interactive") == 1
    assert person.says("login", "--check", "gpu") == "gpu: logged in by orch login\n"
    assert "gpu: logged in, already" in person.logs_in("gpu")
    assert person.says("login", "--end", "gpu") == "1 login ended\n"
    assert "orch: gpu: not logged in. orch login gpu" in person.says("login", "--check", "gpu", status=77)
    with pytest.raises(NotPermitted, match="orch login gpu01"):
        connect(Host("gpu01", "gpu"))


def test_a_wrong_password_leaves_nothing(sshd: Server, passwords: Passwords, person: Person) -> None:
    terminal = person.orch("login", "gpu")
    for _ in range(3):
        terminal.expect("One-time password.*: ")
        terminal.sendline("000000")
    said = terminal.read()
    terminal.close()
    assert terminal.exitstatus == 77
    assert "Permission denied" in said
    assert "orch: gpu: ssh could not log in to gpu; it said why" in said


def test_a_bastion_is_asked_once_for_all_hosts_behind_it(
    sshd: Server, passwords: Passwords, person: Person, tmp_path: Path
) -> None:
    """The host behind it is reached by Fabric, through ssh's master."""
    with serving(tmp_path / "inner") as inner:
        inner.trust(path=sshd.known_hosts)
        configure(sshd, bastion=sshd, gpu=inner)
        with pytest.raises(
            NotPermitted, match=r"gpu01: through bastion: login refused .* orch login bastion"
        ):
            connect(Host("gpu01", "gpu"))
        person.logs_in("bastion", passwords.next())
        for _ in range(2):
            with connect(Host("gpu01", "gpu")) as machine:
                assert isinstance(machine, SshMachine)
                assert where(machine) == inner.home
        assert person.says("exec", "--on-host", "gpu", "--", "echo", "from behind") == "from behind\n"
        checked = person.says("login", "--check", "gpu")
        assert checked == "gpu: logged in to bastion, on its way, by orch login\n"
        person.logs_in("gpu")
        with connect(Host("gpu01", "gpu")) as machine:
            assert isinstance(machine, OpenSshMachine)
            assert where(machine) == inner.home
        assert (sshd.count("Accepted keyboard"), inner.count("Accepted publickey")) == (1, 4)
        assert person.says("login", "--end", "bastion", "gpu") == "2 logins ended\n"


@pytest.fixture
def card(sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The library of a smart card (PKCS#11) with a key that gpu01 takes; its PIN is 1234."""
    library = "/usr/lib/softhsm/libsofthsm2.so"
    if not (Path(library).exists() and program("pkcs11-tool")):
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing("no softhsm2 or opensc: smart cards are not tested here")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm.conf").write_text(f"directories.tokendir = {tmp_path}/tokens\nlog.level = ERROR\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm.conf"))
    pins = ["--pin", "1234", "--so-pin", "1234"]
    made(["softhsm2-util", "--init-token", "--free", "--label", "lab", *pins])
    new_key = ["--keypairgen", "--key-type", "EC:prime256v1", "--id", "01", "--label", "key"]
    made(["pkcs11-tool", "--module", library, "--login", "--pin", "1234", *new_key])
    sshd.authorized.write_text(made(["ssh-keygen", "-D", library]))
    return library


def made(words: list[str]) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_a_key_on_a_smart_card_with_a_pin(sshd: Server, person: Person, card: str) -> None:
    (sshd.client / ".ssh" / "config").write_text(
        f"PKCS11Provider {card}\nHost gpu\n HostName 127.0.0.1\n Port {sshd.port}\n"
    )
    with pytest.raises(NotPermitted, match=r"its key's card wants a PIN .*: orch login gpu01"):
        connect(Host("gpu01", "gpu"))
    terminal = person.orch("login", "gpu")
    terminal.expect("Enter PIN for 'lab': ")
    terminal.sendline("1234")
    assert "gpu: logged in" in terminal.read()
    with connect(Host("gpu01", "gpu")) as machine:
        assert isinstance(machine, OpenSshMachine)
        assert where(machine) == sshd.home
    assert sshd.count("Accepted publickey") == 1


def where(machine: Machine) -> Path:
    return Path(machine.run(Script("x", "echo $HOME")).text.strip())
