"""Programs of the machine, run with their output kept; a failure says which and why."""

import shutil
import subprocess
import time
from collections.abc import Callable

PROGRAMS = {
    "dockerd": "docker.io",
    "sshd": "openssh-server",
    "iptables": "iptables",
    "debootstrap": "debootstrap",
    "rsync": "rsync",
    "cron": "cron",
    "bindfs": "bindfs",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "podman": "podman",
    "newuidmap": "uidmap",
    "slirp4netns": "slirp4netns",
    "crun": "crun",
    "catatonit": "catatonit",
    "rootlesskit": "rootlesskit",
    "sudo": "sudo",
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Done = subprocess.CompletedProcess


class LabError(Exception):
    """The fleet could not do what was asked; the text is for a person."""


def missing_packages() -> list[str]:
    """The Debian packages that the fleet needs and this machine lacks."""
    return sorted({package for program, package in PROGRAMS.items() if not shutil.which(program, path=PATH)})


def run(*argv: object, check: bool = True, input: str | None = None, timeout: float = 300) -> Done[str]:
    """Run a program of the machine and keep what it says; LabError if it fails and ``check`` is set."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words,
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no output")[-2000:]
        raise LabError(f"{' '.join(words)}: status {done.returncode}: {said}")
    return done


def wait_until(what: str, ready: Callable[[], object], within: float = 120) -> None:
    """Poll ``ready`` until it is true; LabError with ``what`` after ``within`` seconds."""
    end = time.monotonic() + within
    while not ready():
        if time.monotonic() > end:
            raise LabError(f"{what}: not within {within:.0f} s")
        time.sleep(0.05)
