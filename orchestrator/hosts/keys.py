"""Login by key: which keys are tried, in ssh's order, and one clear line when none of them opens the door.

Never a password, never a question: what works in a terminal without typing works in cron.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.auth_strategy import AuthStrategy

from orchestrator.errors import ConfigError, NotPermitted, Unreachable
from orchestrator.hosts.beyond import ADD_KEY, ADD_RSA_KEY, LoginRefused, NeedsProgram, account, how_to_answer
from orchestrator.hosts.key_files import (
    SIGNS,
    BadKey,
    ask_agent,
    blob_of,
    certify,
    forms,
    is_public,
    load_key,
    public_part,
    read_key,
)
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.ssh_config import Route


@dataclass(frozen=True)
class Identities:
    """What may be tried to log in."""

    named: str | None = None
    """The inventory's key file: then this one only."""
    named_at: str | None = None
    """Where the inventory names it: file:line."""
    files: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    sha1: bool = False
    """PubkeyAcceptedAlgorithms has ssh-rsa: RSA keys may sign with SHA-1."""
    only: bool = False
    """IdentitiesOnly: of the agent's keys only those of `files`."""
    agent: str | None = None
    loaded: tuple[Any, ...] = ()
    """Private keys in memory (paramiko PKey) that are tried before all others."""

    @classmethod
    def of(cls, route: Route, named: str | None, named_at: str | None) -> Identities:
        """Return a host's identities: the inventory's key, else what ~/.ssh/config and the agent have."""
        return cls(
            named,
            named_at,
            route.identity_files,
            route.certificate_files,
            "ssh-rsa" in dict(route.algorithms).get("PubkeyAcceptedAlgorithms", ()),
            route.identities_only,
            route.agent,
        )


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
    rsa_alone: bool = True
    """Whether no other keys than RSA ones were tried."""
    _agents: list[AgentSSH] = field(default_factory=list)

    def close(self) -> None:
        """Leave the agent; its keys sign no more."""
        while self._agents:
            self._agents.pop()._close()

    def authenticate(self, transport: Any) -> None:
        """Log in. Raises NotPermitted saying what was tried, ConfigError for a bad key of the inventory."""
        for label, key in self._candidates():
            if _takes_sha1_only(transport, key):
                self._needs_sha1(label)
                continue
            self.tried.append(label)
            self.rsa_alone = self.rsa_alone and "rsa" in key.get_name()
            transport.auth_timeout = max(self.limit.left, 0.1)
            try:
                more = transport.auth_publickey(self.user, key)
            except paramiko.BadAuthenticationType as error:
                raise self._wants(
                    error.allowed_types, f"it takes no keys, only {', '.join(error.allowed_types)}"
                ) from error
            except (paramiko.SSHException, EOFError, OSError) as error:
                if "Unable to agree on a pubkey algorithm" in str(
                    error
                ):  # told only now; the connection is gone
                    self._needs_sha1(self.tried.pop())
                    raise self._refused() from error
                self._go_on(transport, error)
                continue
            if more:
                raise self._wants(more, f"the key is right, but it also wants {' or '.join(more)}")
            self.key = key
            return
        raise self._refused() if self.tried or self.unusable else self._without_keys(transport)

    def _without_keys(self, transport: Any) -> LoginRefused:
        """Return the error where there is no key to try: what the host would take instead is worth asking."""
        try:
            transport.auth_none(self.user)
        except paramiko.BadAuthenticationType as error:
            if "publickey" not in error.allowed_types:
                only = ", ".join(error.allowed_types)
                return self._wants(error.allowed_types, f"it takes no keys, only {only}")
            refused = self._refused()
            refused.hint = how_to_answer(self.host, error.allowed_types) or refused.hint
            return refused
        except (paramiko.SSHException, EOFError, OSError):
            return self._refused()
        return self._refused()

    def _go_on(self, transport: Any, error: Exception) -> None:
        """Return where the next key may be tried after `error`; raise where the server has gone."""
        if self.limit.over:
            raise Unreachable(
                f"no answer to the login within {self.limit.seconds:g} s", where=self.host
            ) from error
        if not transport.is_active():
            if len(self.tried) < 2:
                if isinstance(error, (EOFError, OSError)) or "saw EOF" in str(error):  # nobody said no
                    raise Unreachable("the connection went during the login", where=self.host) from error
                raise self._refused() from error
            raise self._refused(
                f"the host hung up after {len(self.tried)} keys (MaxAuthTries); name the right one with "
                "ansible_ssh_private_key_file, or IdentityFile and IdentitiesOnly yes"
            ) from error

    def _wants(self, methods: Sequence[str], why: str) -> LoginRefused:
        """Return the error for a host that wants something else, or more, than a key."""
        error = self._refused(why)
        error.hint = None if self.inside else how_to_answer(self.host, methods)
        return error

    def _needs_sha1(self, label: str) -> None:
        """Pass over an RSA key; the ssh program may use it where ssh_config says so."""
        self.unusable.append(f"{label} is an RSA key, which its sshd takes with SHA-1 only")
        if self.identities.sha1:
            raise NeedsProgram(f"{self.unusable[-1]}, as only the ssh program can do", where=self.host)

    def _refused(self, why: str | None = None) -> LoginRefused:
        tried = ", ".join(self.tried) or "none"
        rest = "".join(f"; {u}" for u in self.unusable)
        login = f"{account(self.user, self.host)}{self.inside}"
        message = f"login refused for {login}" + (f": {why}" if why else "") + f" (tried keys: {tried}{rest})"
        return LoginRefused(message, where=self.host, hint=None if why else self._hint())

    def _hint(self) -> str | None:
        if self.tried:
            return ADD_RSA_KEY if self.rsa_alone else ADD_KEY
        if any("SHA-1" in u for u in self.unusable):
            return "Use an ed25519 key, or set PubkeyAcceptedAlgorithms +ssh-rsa for it in ~/.ssh/config"
        return None

    def _candidates(self) -> Iterator[tuple[str, Any]]:
        for key in self.identities.loaded:
            yield "the key of the host", key
        if self.identities.named:
            yield from forms(*self._named(self.identities.named))
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
        public = public_part(read_key(path))
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
        return [k for k in agent.get_keys() if k.get_name().partition("-cert-v01@")[0] in SIGNS]

    def _found(self) -> Iterator[tuple[str, Any]]:
        """Yield as ssh does: the agent's copies of the files, the agent's other keys, the files."""
        files = [f for f in self.identities.files if os.path.exists(f)]
        blobs = {blob: f for f in files if (blob := blob_of(f))}
        held = self._of_agent()
        mine = [k for k in held if k.blob in blobs]
        others = [] if self.identities.only else [k for k in held if k.blob not in blobs]
        for key in (*mine, *others):
            yield f"{blobs.get(key.blob) or key.comment or key.get_name()} (agent)", key
        in_agent = {blobs[k.blob] for k in mine}
        for path in files:
            if path not in in_agent and not is_public(path):
                yield from self._from_file(path)

    def _from_file(self, path: str) -> Iterator[tuple[str, Any]]:
        try:
            key = load_key(path)
        except BadKey as error:
            self.unusable.append(f"{path} {error}" + (" and no agent has it" if error.locked else ""))
            return
        for certificate in self.identities.certificates:
            certify(key, certificate)
        yield from forms(path, key)


def _takes_sha1_only(transport: Any, key: Any) -> bool:
    """Whether the server has said that it takes no signature by this RSA key that paramiko can make."""
    told = transport.server_extensions.get("server-sig-algs", b"").decode("ascii", "replace").split(",")
    return "rsa" in key.get_name() and told != [""] and not set(told) & set(transport.preferred_pubkeys)


def identities_for(paths: Sequence[str], loaded: Sequence[Any]) -> Identities:
    """Return identities of explicit key files and of keys in memory, without agent and defaults."""
    return Identities(files=tuple(paths), loaded=tuple(loaded), only=True)
