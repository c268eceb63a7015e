"""The keys with which the ssh program logged in: for the container, and for the hop into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from orchestrator.hosts.limit import Limit
from orchestrator.hosts.openssh_said import Offered
from orchestrator.hosts.ssh_config import Route

_AGENT_SECONDS = 3.0


class Identity:
    """A host's keys. `accepted` is the one that logged in; None: it is not known which, or it was none."""

    def __init__(self, route: Route, accepted: Offered | None, *, known: bool) -> None:
        """`known`: whether it is known how the login went; else all keys that ssh would try may have."""
        self._route, self._accepted, self._known = route, accepted, known
        self._agents: list[Any] = []
        self._private: Any = None

    def private_key(self) -> Any:
        """Return the key (paramiko PKey) of a file or an agent that logged in, or None."""
        from orchestrator.hosts.key_files import BadKey, load_key

        if self._private is None and self._accepted:
            if self._accepted.agent:
                self._private = next((k for k in self._of_agent() if self._is_it(k)), None)
            else:
                try:
                    self._private = load_key(self._accepted.path)
                except BadKey:  # on a smart card, or with a passphrase that was asked for
                    return None
        return self._private

    def public_lines(self) -> tuple[str, ...]:
        """Return the public keys as authorized_keys lines."""
        found = dict.fromkeys(self._lines())
        return tuple(found)

    def _lines(self) -> Iterator[str]:
        from orchestrator.hosts.key_files import authorized_line, public_of

        if self._known:
            public = self._accepted and public_of(self._accepted.path)
            if public and self._accepted and public.fingerprint == self._accepted.fingerprint:
                yield public.text
            elif key := self.private_key():
                yield authorized_line(key)
            return
        for path in self._route.identity_files:
            if public := public_of(path):
                yield public.text
        if not self._route.identities_only:
            yield from (authorized_line(key) for key in self._of_agent())

    def _is_it(self, key: Any) -> bool:
        from orchestrator.hosts.known_hosts import PublicKey

        return bool(
            self._accepted
            and PublicKey(key.get_name(), key.asbytes()).fingerprint == self._accepted.fingerprint
        )

    def _of_agent(self) -> list[Any]:
        from orchestrator.hosts.key_files import BadKey, ask_agent

        if not self._route.agent or not os.path.exists(self._route.agent):
            return []
        try:
            agent = ask_agent(self._route.agent, Limit(_AGENT_SECONDS))
        except BadKey:
            return []
        self._agents.append(agent)
        return list(agent.get_keys())

    def close(self) -> None:
        """Leave the agent; its keys sign no more."""
        while self._agents:
            self._agents.pop()._close()
