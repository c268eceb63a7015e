"""Entries of the schedule under Debian's real cron daemon, in mount and pid namespaces of their own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.container.engine import Environment
from orchestrator.container.identity import slug
from tests.unit.here import MACHINE, record
from tests.until import until

NEEDED = ("cron", "crontab", "unshare", "nsenter", "flock")
ORCH = str(Path(sys.executable).with_name("orch"))
FOREIGN = "# somebody's\nMAILTO=root\n0 0 31 2 *\ttrue   # never\n"

# The spool, /run and /usr/sbin/sendmail are the namespace's own; nothing of the machine's cron is touched.
BOOT = """\
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/spool/cron
mkdir -m 1730 /var/spool/cron/crontabs
chgrp crontab /var/spool/cron/crontabs
mount -t tmpfs tmpfs /etc/cron.d
mount --bind /dev/null /etc/crontab
mkdir -p "$1/over"
mount -t tmpfs tmpfs "$1/over"
mkdir "$1/over/up" "$1/over/work"
printf '#!/bin/sh\\ncat >>%s/mail\\n' "$1" >"$1/over/up/sendmail"
chmod 755 "$1/over/up/sendmail"
mount -t overlay overlay -o "lowerdir=/usr/sbin,upperdir=$1/over/up,workdir=$1/over/work" /usr/sbin
: >"$1/booted"
exec cron -f
"""

# What the entry runs: it shows where and with what it runs, then waits to be let go.
WAITS = """\
pwd; env | sort >"$1/env"; ls /proc/self/fd >"$1/fds"; echo "100% done"
while [ ! -e "$1/go" ]; do sleep 0.05; done; echo over
"""


@dataclass(frozen=True)
class Cron:
    """A running cron daemon; `run` calls a program beside it."""

    folder: Path
    pid: int

    def run(self, *words: str, cwd: Path, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        environ = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            **env,
        }
        done = subprocess.run(
            ["nsenter", "-t", str(self.pid), "-m", "-p", f"--wd={cwd}", *words],
            env=environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Cron]:
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    missing = [name for name in NEEDED if not shutil.which(name, path=path)]
    reason = f"not installed: {', '.join(missing)}" if missing else "not root" if os.getuid() else ""
    if reason:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"not tested with a real cron: {reason}")
    boot = tmp_path / "boot.sh"
    boot.write_text(BOOT)
    with subprocess.Popen(
        [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            str(boot),
            str(tmp_path),
        ]
    ) as outer:
        until(lambda: (tmp_path / "booted").exists() or outer.poll() is not None, "cron starts")
        assert outer.poll() is None
        # cron reads its tables when it starts and then those of a later second only
        until(lambda: time.time() > (tmp_path / "booted").stat().st_mtime + 2.5, "a later second")
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        yield Cron(tmp_path, int(children[0]))
        outer.kill()


def project(folder: Path, inventory: str) -> Path:
    folder.mkdir()
    (folder / "hosts.ini").write_text(inventory)
    (folder / "train.sh").write_text(WAITS)
    return folder


def deployed(root: Path, folder: Path) -> None:
    """Leave what a deploy by venv leaves: the real one would install TensorFlow."""
    place = root / "ana" / slug(folder.name)
    place.mkdir(parents=True)
    (place / "enter").write_text('cd "$1" && shift && exec "$@"\n')
    (place / "whole").touch()
    environment = Environment(
        engine="venv", user="root", uid=0, gid=0, home="/root", dir=str(place), place=str(place),
        machine=MACHINE, workspace=str(place), env="e", python="3", person="ana", project=folder.name,
        folder=f"{socket.gethostname()}:{folder}", spec="s", command=("sh", str(place / "enter")),
        whole=str(place / "whole"),
    )  # fmt: skip
    record(environment)


def test_entries_fire_alone_and_silently_and_a_failure_is_one_line_of_mail(cron: Cron) -> None:
    root = cron.folder / "root"
    inventory = f"here ansible_connection=local engine=venv root={root} person=ana\n"
    good, bad = project(cron.folder / "good one", inventory), project(cron.folder / "bad", inventory)
    deployed(root, good)
    table = cron.folder / "table"
    table.write_text(FOREIGN)
    cron.run("crontab", str(table), cwd=cron.folder)
    words = ("--cron", "* * * * *", "--", "sh", "train.sh", str(cron.folder), "100%")
    cron.run(ORCH, "schedule", "add", "good", *words, cwd=good)
    cron.run(ORCH, "schedule", "add", "bad", *words, cwd=bad)
    (bad / "hosts.ini").write_text("here ansible_conection=local\n")

    state = cron.folder / "state/orch/schedule"
    until(lambda: (cron.folder / "env").exists() or (state / "good.json").exists(), "cron fires", 150)
    assert not (state / "good.json").exists(), (state / "good.log").read_text()
    until((cron.folder / "mail").exists, "cron mails")
    busy = cron.run(ORCH, "schedule", "run", "good", cwd=Path("/"), code=75)
    assert busy.stderr == "orch: good: the last one still runs; not started again\n"
    cron.run(ORCH, "schedule", "remove", "good", "bad", cwd=Path("/"))
    assert cron.run("crontab", "-l", cwd=Path("/")).stdout == FOREIGN
    (cron.folder / "go").touch()

    until((state / "good.json").exists, "the run ends")
    assert json.loads((state / "good.json").read_text())["status"] == 0
    log = (state / "good.log").read_text()
    assert "100% done\n" in log
    assert "over\n" in log
    said = (cron.folder / "env").read_text()
    assert "PATH=/usr/bin:/bin\n" in said
    assert "SSH_AUTH_SOCK" not in said
    mail = (cron.folder / "mail").read_text()
    assert mail.count("Subject:") == 1
    body = mail.partition("\n\n")[2].strip()
    assert body.startswith("orch: bad: status 78 after ")
    assert "hosts.ini:1: unknown key 'ansible_conection'" in body
    assert body.count("\n") == 0
