"""Whether a host's key is trusted: pinned, known, new, changed or revoked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.errors import NotPermitted
from orchestrator.hosts import known_hosts, known_hosts_files
from orchestrator.hosts.known_hosts import AUTHORITY, REVOKED, Entry, PublicKey, ShownKey
from orchestrator.hosts.ssh_config import Route

Prompt = Callable[[str], bool]
"""Asks a person a yes-or-no question on the terminal."""

_ONE_AT_A_TIME = threading.Lock()  # hosts are reached in parallel; a person answers one question at a time


class Trust(Protocol):
    """What decides about a host key."""

    def kinds(self) -> list[str]:
        """Return the key types to ask the server for first: those that we know."""

    def check(self, key: PublicKey) -> None:
        """Return when the key is trusted. Raises NotPermitted when it is not."""


@dataclass(frozen=True)
class Pinned:
    """Exactly these keys (authorized_keys lines), whatever any file says: a container's sshd."""

    host: str
    keys: tuple[str, ...]

    def _parsed(self) -> list[PublicKey]:
        return [key for line in self.keys if (key := _key_of(line))]

    def kinds(self) -> list[str]:
        """Return the types of the pinned keys."""
        return [k.kind for k in self._parsed()]

    def check(self, key: PublicKey) -> None:
        """Accept a pinned key only."""
        if key not in self._parsed():
            raise NotPermitted(
                f"the host key of its container is not the one that orch made ({key.name} {key.fingerprint})",
                where=self.host,
                hint="Something else answers on the container's port; see it with: docker ps",
            )


def _key_of(line: str) -> PublicKey | None:
    try:
        return PublicKey.parse(line)
    except ValueError:  # a host's file may hold anything; it pins nothing
        return None


class KnownHosts:
    """The user's known_hosts files and a policy for keys that are not in them."""

    def __init__(
        self, host: str, route: Route, policy: str, prompt: Prompt | None, *, certificates: bool = False
    ) -> None:
        """`certificates`: whoever opens the connection has checked the host's certificate already."""
        self._certificates = certificates
        self._host, self._route, self._policy, self._prompt = host, route, policy, prompt
        self._name = (route.key_alias or "").lower() or known_hosts.host_name(route.address, route.port)

    def _known(self) -> list[Entry]:
        return [e for e in _about(self._route, self._name) if not e.marker]

    def kinds(self) -> list[str]:
        """Return the types of the keys that are known, so that the server shows one of them."""
        return [e.key.kind for e in self._known() or self._without_port()]

    def _without_port(self) -> list[Entry]:
        """Return what is known of the host at any port: ssh takes such a key too, but only the same one."""
        if self._route.key_alias or self._route.port == 22:
            return []
        name = known_hosts.host_name(self._route.address, 22)
        return [e for e in _about(self._route, name) if not e.marker]

    def check(self, key: PublicKey) -> None:
        """Accept a known key; refuse a changed or revoked one; ask, accept or refuse a new one."""
        if self.learns(key):
            self.remember(key)

    def learns(self, key: PublicKey | ShownKey) -> bool:
        """Return whether it is a new key that is to be trusted from now on; raise as `check`."""
        if revoked := self._revoked(key):
            raise NotPermitted(
                f"its host key is revoked ({revoked})", where=self._host, hint="Ask its administrator"
            )
        known = self._known()
        if _among(known, key):
            return False
        if known:
            raise self._changed(key, known)
        if _among(self._without_port(), key):
            return False
        self._new(key)
        return True

    def _revoked(self, key: PublicKey | ShownKey) -> str | None:
        """Return where the key is revoked: file:line of known_hosts, or the file of RevokedHostKeys."""
        for entry in _about(self._route, self._name):
            if entry.marker == REVOKED and entry.key.fingerprint == key.fingerprint:
                return entry.where
        file = self._route.revoked
        if file and isinstance(key, PublicKey) and known_hosts.is_revoked(file, key):
            return file
        return None

    def _changed(self, key: PublicKey | ShownKey, known: Sequence[Entry]) -> NotPermitted:
        old = next((e for e in known if e.key.kind == key.kind), known[0])
        path = old.where.rpartition(":")[0]
        return NotPermitted(
            f"its host key has CHANGED: {old.where} has {old.key.name} {old.key.fingerprint}, "
            f"the host shows {key.name} {key.fingerprint}. It was set up anew, or someone is in between",
            where=self._host,
            hint=f"When its administrator confirms the new key: ssh-keygen -R '{self._name}' -f {path}",
        )

    def _new(self, key: PublicKey | ShownKey) -> None:
        """Return when a new key is to be trusted. Raises NotPermitted."""
        authorities = [e for e in _about(self._route, self._name) if e.marker == AUTHORITY]
        if authorities:
            where, shown = authorities[0].where, f"{key.name} {key.fingerprint}"
            said = f"{where} trusts it by a certificate, and it shows none that fits ({shown})"
            if not self._certificates:
                said = f"{where} trusts it by a certificate, which transport = fabric can't check"
            raise NotPermitted(said, where=self._host, hint=f"Or add its own key ({shown}) to known_hosts")
        if self._policy == "accept-new" or (self._policy == "ask" and self._asked(key)):
            return
        raise NotPermitted(
            f"its host key is unknown ({key.name} {key.fingerprint})",
            where=self._host,
            hint=f"Compare it and log in once with: {self._ssh_line()}, or set host_key_policy = accept-new",
        )

    def _asked(self, key: PublicKey | ShownKey) -> bool:
        if self._prompt is None:
            return False
        with _ONE_AT_A_TIME:
            return self._prompt(
                f"{self._host}: unknown host key ({self._name}, {key.name})\n  {key.fingerprint}\n"
                "Trust it from now on?"
            )

    def remember(self, key: PublicKey) -> None:
        """Add a key to the user's known_hosts."""
        if self._route.user_known_hosts:
            known_hosts.add(self._route.user_known_hosts[0], self._name, key, hashed=self._route.hash_names)

    def _ssh_line(self) -> str:
        port = f" -p {self._route.port}" if self._route.port != 22 else ""
        return f"ssh{port} {self._route.user}@{self._route.name}"


def _among(entries: Sequence[Entry], key: PublicKey | ShownKey) -> bool:
    return any(e.key.fingerprint == key.fingerprint for e in entries)


def _about(route: Route, name: str) -> list[Entry]:
    return known_hosts_files.about((*route.user_known_hosts, *route.global_known_hosts), name)


def by_certificate(route: Route) -> bool:
    """Whether known_hosts trusts a host by a certificate, and knows no key of it."""
    name = (route.key_alias or "").lower() or known_hosts.host_name(route.address, route.port)
    found = _about(route, name)
    return any(e.marker == AUTHORITY for e in found) and not any(not e.marker for e in found)


def policy_of(setting: str, is_set: bool, route: Route) -> str:
    """Return ask, accept-new or strict: the inventory's word, else StrictHostKeyChecking of ~/.ssh/config.

    `no` there means accept-new here: a changed key is never accepted.
    """
    if is_set:
        return setting
    return {"yes": "strict", "no": "accept-new"}.get(route.strict, route.strict)
