"""The base image: Debian with TensorFlow 2.9.3, in a ready folder of Docker's that hosts start from.

No registry is needed. It is built once for each recipe and kept in ``images/DIGEST`` (about 1.4 GB).
"""

import fcntl
import hashlib
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import disk
from .client import ca_bundle, way_out
from .host import Host
from .power import NAMESPACES
from .shell import run

TAG = "tensorflow/tensorflow:2.9.3"
DEBOOTSTRAP = ["--variant=minbase", "--include=python3,python3-pip,ca-certificates", "bullseye"]
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ["tensorflow-cpu==2.9.3", "numpy<1.24", "protobuf<3.20"]
CHANGES = ["ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "ENV LANG=C.UTF-8"]
CHANGES += ['CMD ["/bin/bash"]']
# In a mount namespace of its own, so that nothing stays mounted whatever happens.
INSTALL = """\
set -e
mount --make-rprivate /
mount -t proc proc "$1/proc"
mkdir -p "$1/run/build"
mount -t tmpfs tmpfs "$1/run/build"
cp "$2" "$1/run/build/ca.crt"
root=$1 index=$3
shift 3
set -- python3 -m pip install -q --no-cache-dir "$@"
set -- PATH=/usr/bin:/bin LC_ALL=C PIP_CERT=/run/build/ca.crt ${index:+"PIP_INDEX_URL=$index"} "$@"
chroot "$root" env -i "$@"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin
"""


def digest() -> str:
    """Names the recipe: another recipe is another image."""
    recipe = repr((TAG, DEBOOTSTRAP, PACKAGES, CHANGES, INSTALL))
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


def ensure(base: Path) -> Path:
    """The folder to give to ``disk.fill_docker``; built now if this machine does not have it yet."""
    ready = base / "images" / digest()
    ready.parent.mkdir(parents=True, exist_ok=True)
    with _alone(base / "images/lock"):
        if not ready.exists():
            print(f"fleet: building {TAG} in {ready} (once, about 3 minutes)", file=sys.stderr, flush=True)
            _build(ready)
    return ready


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(ready: Path) -> None:
    work = ready.with_name("building")
    builder = Host("builder", work / "builder", "orch-image-builder", work, "/orch-image-builder")
    builder.destroy()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        disk.make(builder.folder, builder.name, builder.cgroup, {})
        rootfs = work / "rootfs"
        run("debootstrap", *DEBOOTSTRAP, rootfs, MIRROR, timeout=1200)
        given = [rootfs, ca_bundle(), way_out().get("pip_index", ""), *PACKAGES]
        run("unshare", "--mount", "sh", "-c", INSTALL, "sh", *given, timeout=1200)
        _import(builder)
        (builder.folder / "docker").rename(ready)
    finally:
        builder.destroy()
        shutil.rmtree(work, ignore_errors=True)


def _import(builder: Host) -> None:
    """Have a host of its own, with no network, turn the tree into an image in its Docker folder."""
    if not (NAMESPACES / builder.namespace).exists():
        run("ip", "netns", "add", builder.namespace)
    builder.power_on()
    builder.start_docker()
    changes = shlex.join([word for change in CHANGES for word in ("--change", change)])
    builder.run(f"tar -C /srv/shared/rootfs -c . | docker import {changes} - {TAG}", timeout=1200)
    builder.stop_docker()
