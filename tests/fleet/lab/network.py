"""One bridge a fleet, one network namespace and veth pair a host, and NAT to the world."""

import os
from dataclasses import dataclass
from pathlib import Path

from .shell import LabError, run

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


def world_mtu() -> int:
    """The MTU of the machine's way out; a larger one inside would lose packets on the way."""
    route = run("ip", "-o", "route", "show", "default", check=False).stdout.split()
    if "dev" not in route:
        return 1500
    return int(Path(f"/sys/class/net/{route[route.index('dev') + 1]}/mtu").read_text())


@dataclass(frozen=True)
class Network:
    """The network 10.199.``number``.0/24 of one fleet; the machine itself is .1 and hosts start at .11."""

    base: Path
    fleet: str
    number: int

    @property
    def bridge(self) -> str:
        return f"orchbr{self.number}"

    @property
    def subnet(self) -> str:
        return f"10.199.{self.number}.0/24"

    def address(self, index: int) -> str:
        """The address of the host with this index, counted from 0."""
        return f"10.199.{self.number}.{11 + index}"

    def port(self, index: int) -> str:
        """The machine's end of that host's link."""
        return f"orch{self.number}h{index}"

    def create(self) -> None:
        """Make the bridge and let its hosts reach the world."""
        run("ip", "link", "add", self.bridge, "mtu", world_mtu(), "type", "bridge")
        run("ip", "addr", "add", f"10.199.{self.number}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        for table, rule in self._rules():
            run("iptables", "-w", "-t", table, "-I", *rule)
        if FORWARDING.read_text().strip() == "0":
            (self.base / "forwarding-was-off").touch()
            FORWARDING.write_text("1")

    def _rules(self) -> list[tuple[str, list[str]]]:
        tag = ["-m", "comment", "--comment", f"orch-fleet-{self.number}"]
        out = ["POSTROUTING", "-s", self.subnet, "!", "-d", self.subnet, *tag, "-j", "MASQUERADE"]
        passing = [["FORWARD", way, self.bridge, *tag, "-j", "ACCEPT"] for way in ("-i", "-o")]
        return [("nat", out), *(("filter", rule) for rule in passing)]

    def attach(self, index: int, namespace: str) -> None:
        """Join a namespace to the bridge as the host with this index."""
        mtu = world_mtu()
        inside = ["ip", "-n", namespace]
        peer = ["peer", "name", "eth0", "netns", namespace, "mtu", mtu]
        run("ip", "link", "add", self.port(index), "mtu", mtu, "type", "veth", *peer)
        run("ip", "link", "set", self.port(index), "master", self.bridge, "up")
        run(*inside, "addr", "add", f"{self.address(index)}/24", "dev", "eth0")
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "route", "add", "default", "via", f"10.199.{self.number}.1")

    def link(self, index: int, state: str) -> None:
        """Set a host's link ``up`` or ``down``."""
        run("ip", "link", "set", self.port(index), state)

    def remove(self) -> None:
        """Take away bridge and rules, whatever of them is there; give the number back."""
        for table, rule in self._rules():
            while run("iptables", "-w", "-t", table, "-D", *rule, check=False).returncode == 0:
                pass
        run("ip", "link", "del", self.bridge, check=False)
        (self.base / "subnets" / str(self.number)).unlink(missing_ok=True)
        was_off = self.base / "forwarding-was-off"
        if was_off.exists() and ": orchbr" not in run("ip", "-o", "link").stdout:
            FORWARDING.write_text("0")
            was_off.unlink()


def claim(base: Path, fleet: str) -> Network:
    """Take the first subnet that no other fleet has and no interface of the machine uses."""
    folder = base / "subnets"
    folder.mkdir(parents=True, exist_ok=True)
    taken = run("ip", "-o", "-4", "addr").stdout + run("ip", "-4", "route").stdout
    for number in range(1, 255):
        if f" 10.199.{number}." in taken:
            continue
        try:
            handle = os.open(folder / str(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            continue
        os.write(handle, fleet.encode())
        os.close(handle)
        return Network(base, fleet, number)
    raise LabError(f"no free subnet under 10.199.0.0/16; see {folder}")


def claimed(base: Path, fleet: str) -> list[Network]:
    """The networks that this fleet holds: one, or more after a crash."""
    files = (base / "subnets").glob("*")
    return [Network(base, fleet, int(file.name)) for file in files if file.read_text() == fleet]
