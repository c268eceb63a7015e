"""What a host's disk holds before its first boot: its own /etc, empty homes, the base image for Docker."""

import json
import os
import shutil
import stat
from pathlib import Path

from .network import world_mtu
from .shell import run

HERE = Path(__file__).parent
ACCOUNTS = {"ana": 1500, "bob": 1501}
# Folders that start empty: what the machine has there is not to be seen on a host.
OWN = ["root", "home", "tmp", "var/tmp", "var/log", "usr/local/bin", "var/lib/docker", "srv", "mnt"]
OWN += ["var/spool/cron/crontabs"]

RUNTIMES = "usr/local/lib/orch-fleet"

# Podman's images can't lie on an overlay, which a host's homes are on.
STORAGE_CONF = """\
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/podman/root"
rootless_storage_path = "/var/lib/podman/$USER"
"""
CONTAINERS_CONF = f"""\
[engine]
runtime = "crun"
[engine.runtimes]
crun = ["/{RUNTIMES}/crun"]
"""

SSHD_CONFIG = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
LogLevel VERBOSE
UsePAM yes
UseDNS no
PrintMotd no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
"""


def make(folder: Path, name: str, cgroup: str, names: dict[str, str]) -> None:
    """Lay out the disk of the host ``name``; ``names`` are the addresses of all hosts."""
    for part in ("disk", "work", "root", "docker"):
        (folder / part).mkdir(parents=True)
    disk = folder / "disk"
    disk.chmod(0o755)
    for path in OWN:
        _hide(disk, path)
    (disk / "srv/shared").mkdir()
    _write_etc(disk / "etc", name, cgroup, names)
    for runtime in ("runc", "crun"):
        _write_runtime(disk / RUNTIMES / runtime)


def _hide(disk: Path, path: str) -> None:
    """An empty folder in place of the machine's, with its owner and mode."""
    (disk / path).mkdir(parents=True)
    os.setxattr(disk / path, "trusted.overlay.opaque", b"y")
    there = Path("/", path)
    if there.exists():
        was = there.stat()
        os.chown(disk / path, was.st_uid, was.st_gid)
        (disk / path).chmod(stat.S_IMODE(was.st_mode))


def _write_etc(etc: Path, name: str, cgroup: str, names: dict[str, str]) -> None:
    (etc / "ssh").mkdir(parents=True)
    (etc / "docker").mkdir()
    (etc / "containers").mkdir()
    (etc / "containers/storage.conf").write_text(STORAGE_CONF)
    (etc / "containers/containers.conf").write_text(CONTAINERS_CONF)
    key = etc / "ssh/ssh_host_ed25519_key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key)
    (etc / "ssh/sshd_config").write_text(SSHD_CONFIG)
    (etc / "hostname").write_text(name + "\n")
    lines = ["127.0.0.1 localhost", *(f"{address} {host}" for host, address in names.items())]
    (etc / "hosts").write_text("\n".join(lines) + "\n")
    (etc / "resolv.conf").write_text(_resolvers())
    daemon = {"storage-driver": "overlay2", "mtu": world_mtu(), "cgroup-parent": cgroup}
    daemon |= {"exec-opts": ["native.cgroupdriver=cgroupfs"]}
    (etc / "docker/daemon.json").write_text(json.dumps(daemon, indent=2) + "\n")


def _resolvers() -> str:
    """The machine's name servers; those behind a local stub, which a host can't reach, where there is one."""
    text = Path("/etc/resolv.conf").read_text()
    behind = Path("/run/systemd/resolve/resolv.conf")
    return behind.read_text() if "nameserver 127." in text and behind.exists() else text


def _write_runtime(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "runc.sh", path)
    path.chmod(0o755)


def fill_docker(template: Path, target: Path) -> None:
    """Give a host the images of ``template``; layers are never written to, so hard links will do."""
    for child in template.iterdir():
        run("cp", "-al" if child.name == "overlay2" else "-a", child, target)
