"""What `orch demo` runs on: a host that is this machine, reached by a private sshd where there is one.

Nothing is touched outside the demo's folder, but for the empty folder
/run/sshd that an sshd of root asks for, which is removed again.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PRIVSEP = Path("/run/sshd")
"""The folder that OpenSSH's sshd wants to exist when root starts it (sshd(8))."""

LOCAL = "ansible_connection=local"

IMAGE = "tensorflow/tensorflow:2.9.3"


@dataclass(frozen=True)
class Choice:
    """What the demo found to use, and why not something better (empty: it is the best)."""

    what: str
    why: str = ""


def run(*command: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a local program for at most `seconds`; a missing or hanging one has status 127 or 124."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(command, 127, "", f"{error.filename}: not found")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer within {seconds:g} s")


def choose_engine() -> Choice:
    """Choose docker where it works and the image is there or can be had, else a venv."""
    info = run("docker", "info", seconds=20)
    if info.returncode:
        return Choice("venv", "docker is not usable here: " + _first(info.stderr or info.stdout))
    if run("docker", "image", "inspect", IMAGE).returncode == 0:
        return Choice("docker")
    pulled = run("docker", "pull", IMAGE, seconds=900)
    if pulled.returncode == 0:
        return Choice("docker")
    return Choice("venv", f"{IMAGE} can't be pulled: {_first(pulled.stderr)}")


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no answer")


def sshd_program() -> str | None:
    """Return the path of sshd; it lives in sbin, which an ordinary PATH lacks."""
    if os.environ.get("PATH", "") and not shutil.which("ssh-keygen"):
        return None
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")


@contextlib.contextmanager
def private_sshd(folder: Path) -> Iterator[str | None]:
    """Run an sshd of our own on a loopback port; yields the words that reach it in hosts.ini, or None.

    None: there is no sshd here, or it does not let this account in.
    """
    program = sshd_program()
    if not program:
        yield None
        return
    made = _make_privsep()
    port = _free_port()
    _write_config(folder, port)
    process = subprocess.Popen(
        [program, "-D", "-f", str(folder / "sshd_config"), "-E", str(folder / "sshd.log")],
        stdin=subprocess.DEVNULL,
    )
    try:
        yield _words(folder, port) if _lets_in(folder, port, process) else None
    finally:
        process.terminate()
        process.wait(timeout=20)
        if made:
            with contextlib.suppress(OSError):
                PRIVSEP.rmdir()


def _make_privsep() -> bool:
    if os.geteuid() != 0 or PRIVSEP.exists():
        return False
    with contextlib.suppress(OSError):
        PRIVSEP.mkdir(mode=0o755)
        return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _write_config(folder: Path, port: int) -> None:
    for name in ("host_key", "client_key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    (folder / "authorized_keys").write_text((folder / "client_key.pub").read_text())
    key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
        f"PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"AllowUsers {getpass.getuser()}\nPermitRootLogin prohibit-password\n"
    )


def _options(folder: Path) -> str:
    return f"-o UserKnownHostsFile={folder}/known_hosts -o GlobalKnownHostsFile=/dev/null -o ControlPath=none"


def _words(folder: Path, port: int) -> str:
    return (
        f"ansible_host=127.0.0.1 ansible_port={port} ansible_user={getpass.getuser()} "
        f"ansible_ssh_private_key_file={folder}/client_key ansible_ssh_common_args='{_options(folder)}'"
    )


def _lets_in(folder: Path, port: int, process: subprocess.Popen[bytes]) -> bool:
    """Whether the sshd answers and lets this account in, tried with the ssh program for at most 10 s."""
    line = ["ssh", "-F", "none", "-i", str(folder / "client_key"), "-p", str(port), "-o", "BatchMode=yes"]
    until = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < until:
        login = run(*line, *_options(folder).split(), f"{getpass.getuser()}@127.0.0.1", "true", seconds=10)
        if login.returncode == 0:
            return True
        if "refused" not in login.stderr:
            return False
        time.sleep(0.05)
    return False


def inventory(reached: str | None, engine: str, root: Path) -> str:
    """Return the demo's hosts.ini."""
    return (
        f"# one host: this machine\n"
        f"here {reached or LOCAL}\n\n"
        f"[all:vars]\nproject = demo\nengine = {engine}\nroot = {root}\n"
        f"env = KERAS_HOME={root}/keras\n"
    )


def second_name(reached: str | None) -> str:
    """Return what to add to the demo's hosts.ini: the same machine under another name."""
    return f"\n[two]\nthere {reached or LOCAL}\n"
