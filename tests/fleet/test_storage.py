"""Homes that hosts share, and disks that lack something: it works, or plan and doctor say what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.index import TENSORFLOW, wheel

from .lab import Fleet, Host
from .orch import Orch
from .package_index import PORT, offer, package_index

NAME = "orch-ana-mnist"
PLACE = "/home/ana/.orch/ana/mnist"
LOOPBACK = f"http://127.0.0.1:{PORT}"
NO_LOCKS = "#!/bin/sh\necho 'flock: No locks available' >&2\nexit 71\n"


@pytest.fixture(autouse=True)
def clean(gpu01: Host, gpu02: Host) -> Iterator[None]:
    for host in (gpu01, gpu02):
        host.wipe()
    yield
    for host in (gpu01, gpu02):
        host.wipe()


def rows(orch: Orch, *words: str) -> dict[str, tuple[str, str]]:
    """Host and state of each run by its name."""
    found: dict[str, Any] = json.loads(orch("ps", "--json", *words).stdout)
    return {r["name"]: (r["host"], r["state"]) for r in found["rows"]}


def test_two_hosts_of_one_home_have_a_container_each(
    orch: Orch, fleet: Fleet, gpu01: Host, gpu02: Host
) -> None:
    with fleet.shared_home("ana"):
        made = orch("deploy", "--yes", "gpu01,gpu02").stdout
        assert made.count("ready in") == 2
        assert gpu01.containers() == gpu02.containers() == [NAME]
        assert orch("deploy", "gpu01,gpu02").stdout.startswith("gpu01,gpu02   unchanged")
        assert gpu01.run(f"ls {PLACE}/hosts").stdout.split() == ["gpu01", "gpu02"]

        for host in ("gpu01", "gpu02"):
            orch("train", "-d", "--hosts", host, "--name", f"on-{host}", "--", "sleep", "3600")
        lives = {"on-gpu01": ("gpu01", "running"), "on-gpu02": ("gpu02", "running")}
        assert rows(orch) == lives, "each is told once, by its own host"
        for host in ("gpu01", "gpu02"):
            inside = orch("exec", host, "--", "sh", "-c", "hostname; readlink ~/.ssh/environment").stdout
            assert inside.split() == [host, "/run/orch/shell-environment"]

        orch("stop", "on-gpu02")
        assert rows(orch)["on-gpu01"] == ("gpu01", "running")
        orch("down", "--yes", "gpu02")
        assert gpu01.containers() == [NAME]
        assert orch("deploy", "gpu01").stdout.startswith("gpu01   unchanged")
        assert "nothing is deployed here" in orch("train", "--hosts", "gpu02", "--", "true", code=1).stderr
        orch("train", "-d", "--hosts", "gpu01", "--", "true")


def test_two_hosts_of_one_home_share_an_installation(
    orch: Orch, fleet: Fleet, gpu01: Host, gpu02: Host
) -> None:
    """A small wheel stands for TensorFlow; it comes from each host's own loopback, which pip trusts."""
    orch = orch.having(ORCH_ENGINE="venv", ORCH_TENSORFLOW="2.21.0", ORCH_PIP_INDEX=f"{LOOPBACK}/one")
    with fleet.shared_home("ana"), package_index(gpu01), package_index(gpu02):
        for host in (gpu01, gpu02):
            found = wheel("tensorflow-cpu", "2.21.0", "tensorflow", TENSORFLOW)
            offer(host, "one", "tensorflow-cpu", {"2.21.0": found})
            offer(host, "one", "tensorboard", {"2.21.0": wheel("tensorboard", "2.21.0")})
        made = orch("deploy", "--yes", "gpu01,gpu02").stdout
        assert len(re.findall(r"ready in \d+ s   Python 3\.\S+   TensorFlow 2\.21\.0", made)) == 2
        (whole,) = gpu01.run(f"ls -d {PLACE}/venv/*/whole").stdout.split()
        assert orch("deploy", "gpu01,gpu02").stdout.startswith("gpu01,gpu02   unchanged")

        prefix = ("python3", "-c", "import sys; print(sys.prefix)")
        where = str(Path(whole).parent)
        assert orch("exec", "gpu01,gpu02", "--", *prefix).stdout.split(": ")[1].startswith(where)
        orch("train", "--wait", "--hosts", "gpu02", "--name", "one", "--", *prefix)
        assert orch("tail", "one").stdout.startswith(where)
        orch("down", "--yes", "gpu02")
        orch("train", "--wait", "--hosts", "gpu01", "--", "python3", "-c", "import tensorflow")
        orch("down", "--yes", "gpu01")
        assert gpu01.run(f"ls {PLACE}/venv", check=False).returncode, "nobody uses it now"


def test_a_root_that_cant_be_is_said_before_anything_is_changed(orch: Orch, gpu01: Host) -> None:
    gpu01.run("mkdir /srv/roots && cd /srv/roots && touch file && ln -s nowhere link && mkdir denied ro && "
              "chmod 755 . denied && mount -t tmpfs -o ro tmpfs ro")  # fmt: skip
    before = gpu01.run("find /srv/roots").stdout
    try:
        for root, why in (
            ("file", "/srv/roots/file is a file"),
            ("file/orch", "/srv/roots/file is a file"),
            ("link/orch", "/srv/roots/link is a link to what is not there"),
            ("denied/orch", "ana may not write in /srv/roots/denied"),
            ("ro/orch", "the disk of /srv/roots/ro is read-only"),
        ):
            there = orch.having(ORCH_ROOT=f"/srv/roots/{root}")
            hint = "Set `root` to another folder (ORCH_ROOT)."
            planned = there("deploy", "--dry-run", "gpu01", code=78).stderr
            assert planned == f"orch: gpu01: root /srv/roots/{root} can't be used: {why}. {hint}\n"
            doctor = " ".join(there("doctor", "gpu01", code=1).stdout.split())
            assert f"can't be used: {why}" in doctor
        assert gpu01.run("find /srv/roots").stdout == before
    finally:
        gpu01.run("umount /srv/roots/ro; rm -rf /srv/roots")


def test_a_disk_that_keeps_the_daemon_out_is_said_before_anything_is_built(orch: Orch, gpu01: Host) -> None:
    with gpu01.private_disk("/srv/private", "ana"):
        there = orch.having(ORCH_ROOT="/srv/private/orch")
        why = "only ana may look into its disk (fuse, without allow_other), and Docker runs as root"
        assert why in there("deploy", "--yes", "gpu01", code=78).stderr
        assert why in " ".join(there("doctor", "gpu01", code=1).stdout.split())
        assert gpu01.run("ls /srv/private.back").stdout == ""


def test_a_small_noexec_disk_behind_a_link(orch: Orch, gpu01: Host) -> None:
    with gpu01.small_disk("/srv/small", "24m"):
        gpu01.run("mount -o remount,noexec /srv/small && ln -s /srv/small /srv/link")
        there = orch.having(ORCH_ROOT="/srv/link/orch")
        (orch.cwd / "x.sh").write_text("#!/bin/sh\necho it ran\n")
        (orch.cwd / "x.sh").chmod(0o755)
        try:
            planned = there("deploy", "--yes", "gpu01").stderr
            assert "note                root is mounted noexec: " in planned
            assert "25 MB free in /srv/link/orch: that is little" in planned
            doctor = " ".join(there("doctor", "gpu01", code=1).stdout.split())
            assert "root is mounted noexec: " in doctor
            assert "MB free in /srv/link/orch: 0.2 GB are needed" in doctor
            assert (
                there("train", "--wait", "--hosts", "gpu01", "--", "sh", "x.sh").stdout.count("it ran") == 1
            )
            denied = there("train", "--wait", "--hosts", "gpu01", "--", "./x.sh", code=126)
            assert "cannot run './x.sh': Permission denied" in denied.stdout + denied.stderr
            venv = there.having(ORCH_ENGINE="venv")
            refused = venv("deploy", "--dry-run", "gpu01", code=78).stderr
            assert "root is mounted noexec: compiled packages in a venv there can't be loaded" in refused
            there("down", "--yes", "gpu01")
        finally:
            gpu01.run("docker ps -aq | xargs -r docker rm -f; rm -f /srv/link")


def test_a_disk_without_file_locks(orch: Orch, gpu01: Host) -> None:
    """A stand-in for `flock`, on the host and in the container: no such file system can be mounted here."""
    gpu01.run("cat > /usr/local/bin/flock && chmod 755 /usr/local/bin/flock", input=NO_LOCKS)
    try:
        orch = orch.having(ORCH_VOLUMES="/usr/local/bin/flock:/usr/local/bin/flock:ro")
        gpu01.run("touch /home/ana/.profile")
        assert "no file locks on the disk of root" in orch("deploy", "--yes", "gpu01").stderr
        assert "no file locks on the disk of root" in " ".join(orch("doctor", "gpu01").stdout.split())
        orch("train", "-d", "--hosts", "gpu01", "--name", "long", "--", "sleep", "3600")
        assert rows(orch) == {"long": ("gpu01", "running")}
        changed = orch.having(ORCH_SHM_SIZE="1g")
        assert "  container  beside " in changed("deploy", "--dry-run", "gpu01").stdout
        orch("stop", "long")
        assert rows(orch) == {"long": ("gpu01", "stopped")}
        changed("deploy", "--yes", "gpu01")
        assert gpu01.containers(all=True) == [NAME]
        assert gpu01.run(f"ls -d {PLACE}/hosts/gpu01/.turn.d", check=False).returncode
    finally:
        gpu01.run("rm /usr/local/bin/flock")
