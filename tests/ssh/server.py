"""A real OpenSSH sshd on a free loopback port, as the current user, with an account home of its own."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.inventory import Host, Settings

KEYS = ("ed25519", "ecdsa", "rsa")


def program(name: str) -> str | None:
    """Return the path of a program, in the sbin folders too."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def keygen(path: Path, kind: str = "ed25519", *, passphrase: str = "") -> Path:
    """Make a key pair and return the private key's path."""
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", f"test-{path.name}", "-f", str(path)]
    words += ["-b", "2048"] if kind == "rsa" else []  # quicker than the usual 3072
    subprocess.run(words, check=True)
    return path


@functools.cache
def _made(kind: str) -> tuple[bytes, str]:
    """Make one host key of each type in a test run: an RSA key takes a second."""
    with tempfile.TemporaryDirectory() as folder:
        path = keygen(Path(folder, kind), kind)
        return path.read_bytes(), path.with_suffix(".pub").read_text()


def _copied(kind: str, folder: Path) -> Path:
    private, public = _made(kind)
    path = folder / f"host_{kind}"
    path.touch(mode=0o600)
    path.write_bytes(private)
    path.with_suffix(".pub").write_text(public)
    return path


def free_port() -> int:
    """Return a TCP port that nobody listens on, and that the kernel gives to nobody for a connection."""
    while True:
        port = random.SystemRandom().randrange(15_000, 30_000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


class Server:
    """One sshd. `login` is the key that it lets in, `client` a home for ssh's files of the caller."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.home, self.client = folder / "home", folder / "client"
        for place in (self.home / ".ssh", self.client / ".ssh"):
            place.mkdir(parents=True, mode=0o700)
        self.login = keygen(folder / "login")
        self.authorized = folder / "authorized_keys"
        self.authorized.write_text((folder / "login.pub").read_text())
        self.log = folder / "sshd.log"
        self.host_keys = [_copied(kind, folder) for kind in KEYS]
        self.program = program("sshd")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *extra: str, host_keys: list[Path] | None = None, within: tuple[str, ...] = ()) -> None:
        """Start with further lines of sshd_config (they come first, and the first one counts).

        `within` are words of a program that starts it.
        """
        lines = [
            *extra,
            f"Port {self.port}",
            *([] if any(line.startswith("ListenAddress") for line in extra) else ["ListenAddress 127.0.0.1"]),
            *(f"HostKey {key}" for key in host_keys or self.host_keys),
            f"AuthorizedKeysFile {self.authorized}",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PidFile none",
            "LogLevel VERBOSE",
            f"SetEnv HOME={self.home} PATH=/usr/local/bin:/usr/bin:/bin",
        ]
        config = self.folder / "sshd_config"
        config.write_text("\n".join(lines) + "\n")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        assert self.program
        before = self.count("Server listening") if self.log.exists() else 0
        self.process = subprocess.Popen([*within, self.program, "-D", "-f", str(config), "-E", str(self.log)])
        self._wait(before)

    def _wait(self, before: int) -> None:
        """Wait until it listens by its own word: another program may answer at its port."""
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process and self.process.poll() is None:
            if self.log.exists() and self.count("Server listening") > before:
                return
            time.sleep(0.01)
        raise AssertionError(self.log.read_text())

    def stop(self) -> None:
        """Stop the listener."""
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def trust(self, kind: str = "ed25519", *, path: Path | None = None) -> None:
        """Put one of the host keys into the caller's known_hosts."""
        key = (self.folder / f"host_{kind}.pub").read_text().split()
        with (path or self.known_hosts).open("a") as file:
            file.write(f"[127.0.0.1]:{self.port} {key[0]} {key[1]}\n")

    @property
    def known_hosts(self) -> Path:
        """The caller's known_hosts."""
        return self.client / ".ssh" / "known_hosts"

    def host(self, *, key: Path | None = None, **settings: object) -> Host:
        """Return the server as a host of the inventory."""
        sources = {name: f"hosts.ini:{i}" for i, name in enumerate(settings, 2)}
        return Host(
            "gpu01",
            "127.0.0.1",
            port=self.port,
            key=str(key or self.login),
            settings=Settings(**settings),  # type: ignore[arg-type]
            sources=sources | {"ansible_ssh_private_key_file": "hosts.ini:1"},
        )

    def count(self, text: str) -> int:
        """Return how often sshd's log has `text`."""
        return self.log.read_text().count(text)


@contextmanager
def serving(folder: Path, *extra: str, host_keys: list[Path] | None = None) -> Iterator[Server]:
    """Start a server that already knows its caller, and stop it afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(folder)
    server.start(*extra, host_keys=host_keys)
    try:
        yield server
    finally:
        server.stop()
