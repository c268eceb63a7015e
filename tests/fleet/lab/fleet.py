"""The fleet: hosts brought up together, and taken away without a trace."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import disk, image, network
from .client import Client
from .host import Host
from .power import NAMESPACES, remove_cgroup
from .shell import LabError, missing_packages, run


def base_folder() -> Path:
    """Where fleets and images are kept."""
    return Path(os.environ.get("ORCH_FLEET_DIR") or "~/.cache/orch-fleet").expanduser().resolve()


def default_name() -> str:
    """The fleet that is meant when none is named."""
    return os.environ.get("ORCH_FLEET_NAME") or "fleet"


@contextmanager
def name_of_ours() -> Iterator[str]:
    """A fleet name that no other process uses now; what a killed one left under it is ours to remove."""
    folder = base_folder() / "fleets"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, 100):
        name = f"{default_name()}-test{number}"
        with (folder / f"{name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield name
            return
    raise LabError(f"no free fleet name: see {folder}")


class Fleet:
    """Hosts by name in ``hosts``; ``client`` has the key, the known_hosts and the hosts.ini files."""

    def __init__(self, name: str | None = None, hosts: Sequence[str] = ("gpu01", "gpu02")) -> None:
        self.name = name or default_name()
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", self.name):
            raise LabError(f"fleet name {self.name!r}: use small letters, digits and -")
        self.base = base_folder()
        self.folder = self.base / "fleets" / self.name
        self.shared = self.folder / "shared"
        self.client = Client(self.folder / "client")
        self.hosts = {host: self._host(host) for host in hosts}

    def __getitem__(self, host: str) -> Host:
        return self.hosts[host]

    def _host(self, name: str) -> Host:
        folder = self.folder / "hosts" / name
        return Host(name, folder, f"orch-{self.name}-{name}", self.shared, f"/orch-{self.name}/{name}")

    # Up and down

    def up(self) -> None:
        """Bring the fleet up, afresh; what an earlier fleet of this name left is removed first."""
        if reason := why_not():
            raise LabError(reason)
        template = image.ensure(self.base)
        self.down()
        try:
            self._make(template)
            for host in self.hosts.values():
                host.power_on()
                host.launch_docker()
                host.add_accounts(self.client.public_key)
            for host in self.hosts.values():
                host.start_services()
        except BaseException:
            self.down(keep_logs=True)
            raise
        (self.folder / "up").write_text(" ".join(self.hosts))

    def _make(self, template: Path) -> None:
        self.shared.mkdir(parents=True)
        self.shared.chmod(0o1777)
        self.client.make_key()
        net = network.claim(self.base, self.name)
        net.create()
        addresses = {name: net.address(index) for index, name in enumerate(self.hosts)}
        for index, host in enumerate(self.hosts.values()):
            disk.make(host.folder, host.name, host.cgroup, addresses)
            disk.fill_docker(template, host.folder / "docker")
            run("ip", "netns", "add", host.namespace)
            net.attach(index, host.namespace)
            host.plug(net, index)
        self.client.write(list(self.hosts.values()))

    def attach(self) -> "Fleet":
        """Use the fleet of this name that somebody has brought up."""
        if not (self.folder / "up").exists():
            raise LabError(f"fleet {self.name} is not up")
        names = (self.folder / "up").read_text().split()
        self.hosts = {name: self._host(name) for name in names}
        for net in network.claimed(self.base, self.name):
            for index, host in enumerate(self.hosts.values()):
                host.plug(net, index)
        return self

    def is_up(self) -> bool:
        """Whether it was brought up and all its hosts have power."""
        return (self.folder / "up").exists() and all(host.is_on() for host in self.attach().hosts.values())

    def down(self, *, keep_logs: bool = False) -> None:
        """Remove all of the fleet, also what a killed one of the same name left behind."""
        for host in self._all_hosts():
            host.destroy(keep_logs=keep_logs)
        for net in network.claimed(self.base, self.name):
            net.remove()
        remove_cgroup(f"/orch-{self.name}")
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _all_hosts(self) -> list[Host]:
        """The hosts of this object and those that are left of an earlier fleet with other hosts."""
        left = {path.name for path in (self.folder / "hosts").glob("*")}
        return [*self.hosts.values(), *(self._host(name) for name in sorted(left - set(self.hosts)))]

    # Between hosts

    @contextmanager
    def shared_home(self, account: str) -> Iterator[None]:
        """One home for ``account`` on all hosts, as over NFS, for the length of a ``with``."""
        home = "/root" if account == "root" else f"/home/{account}"
        first, *_ = self.hosts.values()
        first.run(f"rm -rf /srv/shared/{account} && cp -a {home} /srv/shared/{account}")
        for host in self.hosts.values():
            host.run(f"mount --bind /srv/shared/{account} {home}")
        try:
            yield
        finally:
            for host in self.hosts.values():
                host.run(f"umount -l {home}")


def why_not() -> str | None:
    """The reason why no fleet can be up on this machine; None if one can."""
    if os.geteuid() != 0:
        return "the fleet needs root"
    if not NAMESPACES.parent.exists():
        return "the fleet needs Linux"
    if missing := missing_packages():
        return f"the fleet needs Debian packages: {' '.join(missing)}"
    return None
