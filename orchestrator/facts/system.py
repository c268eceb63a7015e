"""What a machine and the account on it are: system, room, tools, ports."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.facts.disk import Disk, disks
from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section

_YES = frozenset({"1", "yes", "y", "true", "t", "on"})  # systemd's parse_boolean
_X86 = frozenset({"x86_64", "amd64", "i686"})


@dataclass(frozen=True)
class Python:
    """A Python of the host. `venv`: it has what a venv with pip needs (ensurepip, ssl)."""

    path: str
    version: tuple[int, ...]
    venv: bool = True


@dataclass(frozen=True)
class SystemReport:
    """A host and its account. None: not known. The question takes `root`, `engine` and
    `activate` as values."""

    hostname: str = ""
    arch: str = ""
    system: str = ""  # uname -s: Linux
    kernel: str = ""
    os_name: str = ""
    os_id: str = ""
    os_version: str = ""
    glibc: str | None = None  # None on musl
    boot_id: str | None = None
    uid: int = -1
    gid: int = -1
    user: str = ""
    groups: tuple[str, ...] = ()
    home: str = ""
    shell: str = ""
    cpus: int | None = None
    avx: bool | None = None  # None where the question makes no sense
    memory_mb: int | None = None
    memory_available_mb: int | None = None
    root: str = ""  # the setting `root`, absolute
    disks: tuple[Disk, ...] = ()
    python: str | None = None  # of `python3`
    pythons: tuple[Python, ...] = ()  # newest first; asked for engine venv only
    tools: frozenset[str] = frozenset()
    uv: str | None = None  # path: its installer puts it where a command by ssh does not look
    ports: frozenset[int] = frozenset()  # TCP ports that someone listens on, at any address
    addresses: tuple[tuple[str, str], ...] = ()  # interface and address; () where `ip` is missing
    infiniband: bool = False  # it has devices of InfiniBand (or RoCE)
    kill_user_processes: bool | None = None
    linger: bool | None = None
    selinux: str | None = None
    time: float | None = None  # the host's clock, epoch seconds

    def disk(self, path: str) -> Disk | None:
        """Return the disk of a path that was asked for."""
        return next((d for d in self.disks if d.path == path), None)

    @property
    def root_disk(self) -> Disk | None:
        """The disk of `root`."""
        return self.disk(self.root)


def parse(section: Section) -> SystemReport:
    """Read the answer of `facts/system.sh.j2`."""
    lines = Lines(section.text)
    arch = lines.text("arch")
    flags = lines.text("cpu-flags").split()
    return SystemReport(
        hostname=lines.text("hostname"),
        arch=arch,
        system=lines.text("system"),
        kernel=lines.text("kernel"),
        os_name=lines.text("os-name"),
        os_id=lines.text("os-id"),
        os_version=lines.text("os-version"),
        glibc=lines.text("glibc").rpartition(" ")[2] or None,
        boot_id=lines.text("boot-id") or None,
        uid=_or(lines.number("uid"), -1),
        gid=_or(lines.number("gid"), -1),
        user=lines.text("user"),
        groups=tuple(lines.text("groups").split()),
        home=lines.text("home"),
        shell=lines.text("shell"),
        cpus=lines.number("cpus"),
        avx="avx" in flags if flags and arch in _X86 else None,
        memory_mb=_mb(lines.number("memory")),
        memory_available_mb=_mb(lines.number("memory-available")),
        root=lines.text("root"),
        disks=disks(lines),
        python=lines.text("python") or None,
        pythons=_pythons(lines),
        tools=frozenset(lines.texts("tool")),
        uv=lines.text("uv") or None,
        ports=frozenset(int(port, 16) for port in lines.texts("port") if port),
        addresses=tuple((name, address) for name, address, *_ in lines.all("address", 2)),
        infiniband=bool(lines.texts("infiniband")),
        kill_user_processes=_boolean(lines.text("kill-user-processes")),
        linger=_boolean(lines.text("linger")),
        selinux=lines.text("selinux") or None,
        time=_seconds(lines.text("time")),
    )


SYSTEM: Fact[SystemReport] = Fact("system", "facts/system.sh.j2", parse)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _mb(kilobytes: int | None) -> int | None:
    return None if kilobytes is None else kilobytes // 1024


def _boolean(text: str) -> bool | None:
    return text.strip().lower() in _YES if text.strip() else None


def _seconds(text: str) -> float | None:
    """Read `date +%s.%N`; busybox leaves `%N` empty or as it is."""
    whole, _, part = text.partition(".")
    if not whole.isdecimal():
        return None
    return float(f"{whole}.{part}") if part.isdecimal() else float(whole)


def _pythons(lines: Lines) -> tuple[Python, ...]:
    """Return each Python once, however many names lead to it, newest first."""
    found: dict[str, Python] = {}
    for path, real, version, venv, *_ in lines.all("python-found", 4):
        parts = version.split(".")
        if all(p.isdecimal() for p in parts):
            found.setdefault(real, Python(path, tuple(map(int, parts)), venv == "yes"))
    return tuple(sorted(found.values(), key=lambda p: p.version, reverse=True))
