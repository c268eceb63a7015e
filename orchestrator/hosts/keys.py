"""Login by key: which keys are tried, in ssh's order, and one clear line when none of them opens the door.

Never a password, never a question: what works in a terminal without typing works in cron.
"""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.auth_strategy import AuthStrategy

from orchestrator.errors import ConfigError, NotPermitted, Unreachable
from orchestrator.hosts.known_hosts import PublicKey
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.ssh_config import Route

_AGENT_SECONDS = 3.0  # a stale socket accepts and never answers (fabric issue 2306)
_PUBLIC = (b"ssh-", b"ecdsa-", b"sk-")
_SIGNS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")


@dataclass(frozen=True)
class Identities:
    """What may be tried to log in."""

    named: str | None = None
    """The inventory's key file: then this one only."""
    named_at: str | None = None
    """Where the inventory names it: file:line."""
    files: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    only: bool = False
    """IdentitiesOnly: of the agent's keys only those of `files`."""
    agent: str | None = None
    loaded: tuple[Any, ...] = ()
    """Private keys in memory (paramiko PKey) that are tried before all others."""

    @classmethod
    def of(cls, route: Route, named: str | None, named_at: str | None) -> Identities:
        """Return a host's identities: the inventory's key, else what ~/.ssh/config and the agent have."""
        return cls(
            named, named_at, route.identity_files, route.certificate_files, route.identities_only, route.agent
        )


class BadKey(Exception):
    """A key file that can't be used; the text says why. `locked`: only its passphrase is missing."""

    def __init__(self, why: str, *, locked: bool = False) -> None:
        super().__init__(why)
        self.locked = locked


def load_key(path: str) -> Any:
    """Load a private key, with the certificate next to it. Raises BadKey."""
    data = _read(path)
    if data.startswith(_PUBLIC) or b"BEGIN PUBLIC KEY" in data[:200]:
        raise BadKey("is a public key")
    if data.startswith(b"PuTTY-User-Key-File"):
        raise BadKey("is a PuTTY key: convert it with puttygen KEY -O private-openssh -o NEW")
    public = public_part(data)
    if public and public.kind not in _SIGNS:
        raise BadKey(f"is a {public.kind} key, which needs the ssh program's own login")
    try:
        return paramiko.PKey.from_path(path)
    except (paramiko.PasswordRequiredException, TypeError) as error:
        raise BadKey("needs a passphrase", locked=True) from error
    except Exception as error:  # each key format fails with an error of its own
        raise BadKey("is no private key, or of a kind that can't be read") from error


def _read(path: str) -> bytes:
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


@dataclass
class Login(AuthStrategy):  # type: ignore[misc]  # paramiko has no types
    """Tries keys one after the other on a transport; afterwards `key` is the one that logged in."""

    host: str
    user: str
    identities: Identities
    limit: Limit
    inside: str = ""
    """Where on the host the login is, for messages: " (its container)"."""
    key: Any = None
    tried: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    _agents: list[AgentSSH] = field(default_factory=list)

    def close(self) -> None:
        """Leave the agent; its keys sign no more."""
        while self._agents:
            self._agents.pop()._close()

    def authenticate(self, transport: Any) -> None:
        """Log in. Raises NotPermitted saying what was tried, ConfigError for a bad key of the inventory."""
        for label, key in self._candidates():
            self.tried.append(label)
            transport.auth_timeout = max(self.limit.left, 0.1)
            try:
                more = transport.auth_publickey(self.user, key)
            except paramiko.BadAuthenticationType as error:
                raise self._refused(f"it takes no keys, only {', '.join(error.allowed_types)}") from error
            except (paramiko.SSHException, EOFError, OSError) as error:
                self._go_on(transport, error)
                continue
            if more:
                raise self._refused(f"the key is right, but it also wants {' and '.join(more)}")
            self.key = key
            return
        raise self._refused()

    def _go_on(self, transport: Any, error: Exception) -> None:
        """Return where the next key may be tried after `error`; raise where the server has gone."""
        if self.limit.over:
            raise Unreachable(
                f"no answer to the login within {self.limit.seconds:g} s", where=self.host
            ) from error
        if not transport.is_active():
            if len(self.tried) < 2:
                raise self._refused() from error
            raise self._refused(
                f"the host hung up after {len(self.tried)} keys (MaxAuthTries); name the right one with "
                "ansible_ssh_private_key_file, or IdentityFile and IdentitiesOnly yes"
            ) from error

    def _refused(self, why: str | None = None) -> NotPermitted:
        tried = ", ".join(self.tried) or "none"
        rest = "".join(f"; {u}" for u in self.unusable)
        login = f"{self.user}@{self.host}{self.inside}"
        message = f"login refused for {login}" + (f": {why}" if why else "") + f" (tried keys: {tried}{rest})"
        add = "Put the public key into ~/.ssh/authorized_keys there" if self.tried and not why else None
        return NotPermitted(message, where=self.host, hint=add)

    def _candidates(self) -> Iterator[tuple[str, Any]]:
        for key in self.identities.loaded:
            yield "the key of the host", key
        if self.identities.named:
            yield from _forms(*self._named(self.identities.named))
        else:
            yield from self._found()

    def _named(self, path: str) -> tuple[str, Any]:
        try:
            return path, load_key(path)
        except BadKey as error:
            if error.locked:
                return self._unlocked(path)
            at = f" ({self.identities.named_at})" if self.identities.named_at else ""
            raise ConfigError(f"key file {path} {error}{at}", where=self.host) from error

    def _unlocked(self, path: str) -> tuple[str, Any]:
        """Return the agent's copy of a key file that needs a passphrase."""
        public = public_part(_read(path))
        for key in self._of_agent():
            if public and key.blob == public.blob:
                return f"{path} (agent)", key
        raise NotPermitted(
            f"key file {path} needs a passphrase and no agent has it",
            where=self.host,
            hint=f"ssh-add {path}; for cron, use a key without a passphrase",
        )

    def _of_agent(self) -> list[Any]:
        if not self.identities.agent:
            return []
        try:
            agent = ask_agent(self.identities.agent, self.limit)
        except BadKey as error:
            self.unusable.append(f"the agent at {self.identities.agent} {error}")
            return []
        self._agents.append(agent)
        return [k for k in agent.get_keys() if k.get_name().partition("-cert-v01@")[0] in _SIGNS]

    def _found(self) -> Iterator[tuple[str, Any]]:
        """Yield as ssh does: the agent's copies of the files, the agent's other keys, the files."""
        files = [f for f in self.identities.files if os.path.exists(f)]
        blobs = {blob: f for f in files if (blob := _blob_of(f))}
        held = self._of_agent()
        mine = [k for k in held if k.blob in blobs]
        others = [] if self.identities.only else [k for k in held if k.blob not in blobs]
        for key in (*mine, *others):
            yield f"{blobs.get(key.blob) or key.comment or key.get_name()} (agent)", key
        in_agent = {blobs[k.blob] for k in mine}
        for path in files:
            if path not in in_agent and not _is_public(path):
                yield from self._from_file(path)

    def _from_file(self, path: str) -> Iterator[tuple[str, Any]]:
        try:
            key = load_key(path)
        except BadKey as error:
            self.unusable.append(f"{path} {error}" + (" and no agent has it" if error.locked else ""))
            return
        for certificate in self.identities.certificates:
            _certify(key, certificate)
        yield from _forms(path, key)


def _forms(path: str, key: Any) -> Iterator[tuple[str, Any]]:
    """Yield a key with its certificate and then without, as ssh does: the certificate may have expired."""
    if key.public_blob:
        yield f"{path} (certificate)", key
        key.public_blob = None
    yield path, key


def _certify(key: Any, certificate: str) -> None:
    """Give a key the user certificate that belongs to it."""
    try:
        key.load_certificate(certificate)
    except (ValueError, OSError, paramiko.SSHException):  # another key's, or no certificate at all
        return


def _is_public(path: str) -> bool:
    """Whether a file is a public key: IdentityFile may name one, and the agent has the private part."""
    try:
        return _read(path).startswith(_PUBLIC)
    except BadKey:
        return False


def _blob_of(path: str) -> bytes | None:
    """Return the public blob of a key file: its own, else that of FILE.pub; FILE may be a public key."""
    try:
        public = public_part(_read(path))
        text = path if _is_public(path) else path + ".pub"
        return public.blob if public else PublicKey.parse(_read(text).decode()).blob
    except (BadKey, ValueError):
        return None


def authorized_line(key: Any) -> str:
    """Return the authorized_keys line of a private key."""
    inner = getattr(key, "inner_key", None) or key
    return f"{inner.get_name()} {inner.get_base64()}"


def identities_for(paths: Sequence[str], loaded: Sequence[Any]) -> Identities:
    """Return identities of explicit key files and of keys in memory, without agent and defaults."""
    return Identities(files=tuple(paths), loaded=tuple(loaded), only=True)
