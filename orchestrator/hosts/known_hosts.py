"""known_hosts files, read and written here: paramiko's loader dies on @markers.

Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import secrets
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import ConfigError

AUTHORITY, REVOKED = "@cert-authority", "@revoked"
_KRL = b"SSHKRL\n\0"  # PROTOCOL.krl


@dataclass(frozen=True)
class PublicKey:
    """A host's public key: its type (ssh-ed25519, ...) and its blob."""

    kind: str
    blob: bytes

    @classmethod
    def parse(cls, line: str) -> PublicKey:
        """Read `ssh-ed25519 AAAA... [comment]`. Raises ValueError when it is none."""
        kind, text = line.split()[:2]
        blob = base64.b64decode(text, validate=True)
        # a blob begins with its type, so that a mangled line can't pass for a key
        if blob[4 : 4 + int.from_bytes(blob[:4], "big")] != kind.encode():
            raise ValueError(f"no key of type {kind}")
        return cls(kind, blob)

    @property
    def text(self) -> str:
        """The key as it stands in files: type and base64."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """SHA256:..., as ssh and ssh-keygen show it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    @property
    def name(self) -> str:
        """The type as people call it: ed25519, ecdsa, rsa."""
        return _name(self.kind)


@dataclass(frozen=True)
class ShownKey:
    """A host's public key of which only the type and the fingerprint are known."""

    kind: str
    fingerprint: str

    @property
    def name(self) -> str:
        """The type as people call it."""
        return _name(self.kind)


def _name(kind: str) -> str:
    plain = kind.partition("-cert-v01@")[0]
    return plain.removeprefix("sk-").removeprefix("ssh-").partition("-")[0].partition("@")[0]


@dataclass(frozen=True)
class Entry:
    """One line of a known_hosts file."""

    marker: str
    patterns: tuple[str, ...]
    key: PublicKey
    where: str
    """file:line"""

    def matches(self, name: str) -> bool:
        """Whether the line is about `name` (`host`, or `[host]:port`)."""
        found = False
        for pattern in self.patterns:
            negated = pattern.startswith("!")
            if _is(name, pattern.removeprefix("!")):
                if negated:
                    return False
                found = True
        return found


def _is(name: str, pattern: str) -> bool:
    if pattern.startswith("|1|"):
        try:
            salt, digest = (base64.b64decode(p, validate=True) for p in pattern[3:].split("|"))
        except (ValueError, binascii.Error):
            return False
        return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
    # only * and ? are wildcards: the brackets of [host]:port stand for themselves
    return fnmatch.fnmatchcase(name.lower(), pattern.lower().replace("[", "[[]"))


def parse(text: str, path: str) -> list[Entry]:
    """Read the lines of a file; comments, and lines that are no entry, are passed over as ssh does."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", AUTHORITY, REVOKED):
            continue
        try:
            key = PublicKey.parse(f"{words[1]} {words[2]}")
        except (ValueError, binascii.Error):
            continue
        entries.append(Entry(marker, tuple(words[0].split(",")), key, f"{path}:{number}"))
    return entries


def is_revoked(path: str, key: PublicKey) -> bool:
    """Whether a file of RevokedHostKeys, a list of keys or a KRL, has a key.

    Raises ConfigError when it can't be read: then ssh trusts no key either.
    """
    try:
        data = Path(path).read_bytes()
        if data.startswith(_KRL):
            return _in_krl(path, key)
    except OSError as error:
        raise ConfigError(f"RevokedHostKeys: {error.strerror}", where=path) from error
    lines = data.decode("utf-8", "replace").splitlines()
    return any(line.split()[:2] == key.text.split() for line in lines)


def _in_krl(path: str, key: PublicKey) -> bool:
    """Ask ssh-keygen: the form is OpenSSH's own."""
    with tempfile.NamedTemporaryFile("w", suffix=".pub") as file:
        file.write(key.text + "\n")
        file.flush()
        words = ["ssh-keygen", "-Q", "-f", path, file.name]
        done = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode and b"REVOKED" not in done.stdout:
        said = done.stderr.decode("utf-8", "replace").strip() or "can't be read"
        raise ConfigError(f"RevokedHostKeys: {said.splitlines()[-1]}", where=path)
    return done.returncode != 0


def host_name(address: str, port: int) -> str:
    """Return the name of a host in known_hosts: with the port only where it is not 22."""
    return address.lower() if port == 22 else f"[{address.lower()}]:{port}"


def add(path: str, name: str, key: PublicKey, *, hashed: bool = False) -> None:
    """Append one line by a single write, so that nobody reads half of it. Raises ConfigError."""
    line = f"{hash_name(name) if hashed else name} {key.text}\n"
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "ab+", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
            if file.seekable() and file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else "\n" + line
            file.write(line.encode())
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}", where=path) from error


def make_folder(paths: Sequence[str]) -> None:
    """Make the folder of the file that new keys go to. Raises ConfigError."""
    for path in paths[:1]:
        try:
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"can't be written: {error.strerror}", where=path) from error


def hash_name(name: str) -> str:
    """Return a name as HashKnownHosts writes it: `|1|salt|hmac-sha1`."""
    salt = secrets.token_bytes(20)
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
