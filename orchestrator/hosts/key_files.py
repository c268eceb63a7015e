"""Key files and agents: loading a private key, or saying in a few words why it can't be used."""

from __future__ import annotations

import base64
import copy
import functools
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key
from paramiko.agent import AgentSSH

from orchestrator.hosts.known_hosts import PublicKey
from orchestrator.hosts.limit import Limit

_AGENT_SECONDS = 3.0  # a stale socket accepts and never answers (fabric issue 2306)
_PUBLIC = (b"ssh-", b"ecdsa-", b"sk-")

SIGNS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
"""Types of keys that paramiko can sign with."""


class BadKey(Exception):
    """A key file that can't be used; the text says why. `locked`: only its passphrase is missing."""

    def __init__(self, why: str, *, locked: bool = False) -> None:
        super().__init__(why)
        self.locked = locked


def load_key(path: str) -> Any:
    """Load a private key, with the certificate next to it. Raises BadKey."""
    data = read_key(path)
    if data.startswith(_PUBLIC) or b"BEGIN PUBLIC KEY" in data[:200]:
        raise BadKey("is a public key")
    if data.startswith(b"PuTTY-User-Key-File"):
        raise BadKey("is a PuTTY key: convert it with puttygen KEY -O private-openssh -o NEW")
    if b"PRIVATE KEY-----" in data[:100] and (why := too_open(path)):
        raise BadKey(why)
    public = public_part(data)
    if public and public.kind not in SIGNS:
        raise BadKey(f"is a {public.kind} key, which needs the ssh program's own login")
    try:
        return copy.copy(_private(path, data, _certificate_of(path)))
    except (paramiko.PasswordRequiredException, TypeError) as error:
        raise BadKey("needs a passphrase", locked=True) from error
    except Exception as error:  # each key format fails with an error of its own
        raise BadKey("is no private key, or of a kind that can't be read") from error


def _certificate_of(path: str) -> bytes | None:
    try:
        return Path(f"{path}-cert.pub").read_bytes()
    except FileNotFoundError:
        return None


@functools.lru_cache(maxsize=32)
def _private(path: str, data: bytes, certificate: bytes | None) -> Any:
    """Make a key of a file's bytes: once for all hosts."""
    rsa = _rsa(data)
    if rsa is None:
        return paramiko.PKey.from_path(path)
    key = paramiko.RSAKey(key=rsa)
    if certificate is not None:
        key.load_certificate(f"{path}-cert.pub")
    return key


def _rsa(data: bytes) -> RSAPrivateKey | None:
    """Return an RSA key; None where it is another, or locked.

    Its owner's own file is trusted: to prove that its numbers are primes takes half a second (4096 bits),
    and paramiko does it twice. ssh doesn't either.
    """
    load = load_ssh_private_key if b"BEGIN OPENSSH" in data[:100] else load_pem_private_key
    try:
        key = load(data, None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, RSAPrivateKey) else None


def too_open(path: str) -> str | None:
    """Say why ssh would not use a private key of ours that others may read; None where it would."""
    found = os.stat(path)
    if found.st_uid != os.getuid() or not found.st_mode & 0o077:  # ssh asks no more of another's file
        return None
    return (
        f"may be read by others (mode {stat.S_IMODE(found.st_mode):04o}), so ssh refuses it: chmod 600 {path}"
    )


def read_key(path: str) -> bytes:
    """Return a key file's bytes. Raises BadKey."""
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except FileNotFoundError as error:
        raise BadKey("does not exist") from error
    except OSError as error:
        raise BadKey(f"can't be read ({error.strerror})") from error


def public_part(data: bytes) -> PublicKey | None:
    """Return the public part of a private key in OpenSSH's format: it is in clear even in a locked file."""
    begin, end = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----END OPENSSH PRIVATE KEY-----"
    try:
        packed = base64.b64decode(data.partition(begin)[2].partition(end)[0])
        if not packed.startswith(b"openssh-key-v1\0"):
            return None
        message = paramiko.Message(packed[15:])
        for _ in range(3):  # cipher, kdf, kdf options
            message.get_string()
        message.get_int()
        blob = message.get_string()
        return PublicKey(paramiko.Message(blob).get_text(), blob)
    except (ValueError, IndexError, UnicodeDecodeError):
        return None


def ask_agent(path: str, limit: Limit) -> AgentSSH:
    """Return an agent that has told its keys; the caller closes it. Raises BadKey when it is silent."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(min(_AGENT_SECONDS, max(limit.left, 0.1)))
    agent = AgentSSH()
    try:
        sock.connect(path)
        agent._connect(sock)
    except Exception as error:  # an agent may die or babble at any byte
        sock.close()
        raise BadKey("gives no answer") from error
    sock.settimeout(max(limit.left, 0.1))  # signing may wait for its person
    return agent


def forms(path: str, key: Any) -> Iterator[tuple[str, Any]]:
    """Yield a key with its certificate and then without, as ssh does: the certificate may have expired."""
    if key.public_blob:
        yield f"{path} (certificate)", key
        key.public_blob = None
    yield path, key


def certify(key: Any, certificate: str) -> None:
    """Give a key the user certificate that belongs to it."""
    try:
        key.load_certificate(certificate)
    except (ValueError, OSError, paramiko.SSHException):  # another key's, or no certificate at all
        return


def is_public(path: str) -> bool:
    """Whether a file is a public key: IdentityFile may name one, and the agent has the private part."""
    try:
        return read_key(path).startswith(_PUBLIC)
    except BadKey:
        return False


def blob_of(path: str) -> bytes | None:
    """Return the public blob of a key file; see `public_of`."""
    public = public_of(path)
    return public.blob if public else None


def public_of(path: str) -> PublicKey | None:
    """Return the public part of a key file: its own, else that of FILE.pub; FILE may be a public key."""
    try:
        public = public_part(read_key(path))
        text = path if is_public(path) else path + ".pub"
        return public or PublicKey.parse(read_key(text).decode())
    except (BadKey, ValueError):
        return None


def authorized_line(key: Any) -> str:
    """Return the authorized_keys line of a private key."""
    inner = getattr(key, "inner_key", None) or key
    return f"{inner.get_name()} {inner.get_base64()}"
