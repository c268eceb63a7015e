"""What a person needs to use the fleet: key, known_hosts, ssh_config, and a hosts.ini for each account."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .disk import ACCOUNTS
from .host import Host
from .shell import run

BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


class Client:
    """The files under ``folder``; ``inventory(account)`` is the hosts.ini that logs in as that account."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        self.ssh_config = folder / "ssh_config"

    @property
    def public_key(self) -> str:
        return self.key.with_suffix(".pub").read_text()

    def inventory(self, account: str = "root") -> Path:
        """The hosts.ini for an account: root, ana (in the docker group) or bob (not in it)."""
        return self.folder / account / "hosts.ini"

    def make_key(self) -> None:
        """Make the key pair that may log in everywhere."""
        self.folder.mkdir(parents=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "orch-fleet", "-f", self.key)

    def write(self, hosts: Sequence[Host]) -> None:
        """Write everything that tells of these hosts."""
        self.known_hosts.write_text("".join(_known(host) for host in hosts))
        lines = [f"Host {host.name}\n    HostName {host.address}\n" for host in hosts]
        options = [f"IdentityFile {self.key}", "IdentitiesOnly yes", f"UserKnownHostsFile {self.known_hosts}"]
        addresses = " ".join(["*", *(host.address for host in hosts)])
        lines += [f"Host {addresses}\n", *(f"    {option}\n" for option in options)]
        self.ssh_config.write_text("".join(lines))
        for account in ("root", *ACCOUNTS):
            self.inventory(account).parent.mkdir()
            self.inventory(account).write_text(self._inventory(hosts, account))

    def _inventory(self, hosts: Sequence[Host], account: str) -> str:
        lines = ["[gpu]", *(f"{host.name} ansible_host={host.address}" for host in hosts), "", "[all:vars]"]
        lines += [f"ansible_user={account}", f"ansible_ssh_private_key_file={self.key}"]
        lines += [f"ansible_ssh_common_args='-o UserKnownHostsFile={self.known_hosts}'"]
        lines += [f"{name} = {value}" for name, value in way_out().items()]
        return "\n".join(lines) + "\n"


def _known(host: Host) -> str:
    kind, key = (host.disk / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
    return f"{host.address} {kind} {key}\n{host.name} {kind} {key}\n"


def way_out() -> dict[str, str]:
    """The settings by which builds on the fleet reach package registries from where this machine stands."""
    found = {
        name: os.environ.get(name) or os.environ.get(name.upper()) for name in ("http_proxy", "https_proxy")
    }
    found["no_proxy"] = (
        (os.environ.get("no_proxy") or os.environ.get("NO_PROXY")) if any(found.values()) else None
    )
    found["ca_bundle"] = str(ca_bundle())
    found["pip_index"] = os.environ.get("PIP_INDEX_URL") or _pip("global.index-url")
    return {name: value for name, value in found.items() if value}


def ca_bundle() -> Path:
    """The certificates this machine trusts."""
    named = [os.environ.get(name) for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")]
    candidates = [Path(name) for name in [*named, _pip("global.cert")] if name]
    return next((path for path in candidates if path.is_file()), BUNDLE)


def _pip(option: str) -> str:
    argv = [sys.executable, "-m", "pip", "config", "get", option]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
