"""What `ssh -v` tells while it opens a connection, and the error that it amounts to.

The texts are those of OpenSSH, which translates none of them. A line that begins with `debug1:` is talk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.errors import HostError, OrchError, Unreachable
from orchestrator.hosts.beyond import LoginRefused
from orchestrator.hosts.known_hosts import ShownKey
from orchestrator.hosts.limit import Limit

_DEBUG = "debug1: "
_KEY = re.compile(r"(?P<path>.*?) (?P<kind>\S+) (?P<print>SHA256:\S+)(?P<rest>.*)")


@dataclass(frozen=True)
class Offered:
    """A key that was offered: a file's path or an agent's comment, its fingerprint, who signs."""

    path: str
    fingerprint: str
    agent: bool
    certificate: bool

    @property
    def label(self) -> str:
        """The key as messages name it."""
        return self.path + (" (certificate)" if self.certificate else " (agent)" if self.agent else "")


class Said:
    """The log of one `ssh -v`."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.splitlines()]
        self._debug = [line.removeprefix(_DEBUG) for line in lines if line.startswith(_DEBUG)]
        self.plain = [line for line in lines if line and not line.startswith(("debug", "OpenSSH_"))]
        self._all = [line.removeprefix(_DEBUG) for line in lines]

    def has(self, *texts: str) -> bool:
        """Whether one of the texts stands in it."""
        return any(text in line for line in self._all for text in texts)

    def after(self, start: str) -> str | None:
        """Return the rest of the last line that holds `start`."""
        found = [line.partition(start)[2] for line in self._all if start in line]
        return found[-1].strip() if found else None

    @property
    def greeted(self) -> bool:
        """Whether the server has said who it is."""
        return self.has("Remote protocol version")

    @property
    def version(self) -> str:
        """The server's name for itself."""
        return self.after("remote software version ") or "of an unknown version"

    @property
    def offered(self) -> list[Offered]:
        """The keys that were offered, in their order."""
        return self._keys("Offering public key: ")

    @property
    def accepted(self) -> Offered | None:
        """The key that logged in; None where it was no key."""
        found = self._keys("Server accepts key: ")
        return found[-1] if found and 'using "publickey"' in (self.after("Authenticated ") or "") else None

    def _keys(self, start: str) -> list[Offered]:
        found = [_KEY.fullmatch(x.removeprefix(start)) for x in self._debug if x.startswith(start)]
        return [
            Offered(m["path"], m["print"], " agent" in m["rest"], m["kind"].endswith("-CERT"))
            for m in found
            if m
        ]

    @property
    def host_key(self) -> ShownKey | None:
        """The key that the host showed."""
        kind, _, fingerprint = (self.after("Server host key: ") or "").partition(" ")
        return ShownKey(kind, fingerprint) if fingerprint else None

    @property
    def forbids_forwarding(self) -> bool:
        """Whether a forward was refused because none is allowed; the last one tells."""
        return "administratively prohibited" in (self.after(": open failed: ") or "")

    @property
    def last(self) -> str:
        """The last thing that is no talk."""
        told = [x for x in self.plain if "UNKNOWN port" not in x]
        return told[-1] if told else "it said nothing"


def is_dropped(said: Said) -> bool:
    """Whether the server closed the connection before it said who it is: the next try may find room."""
    return (
        not said.greeted
        and said.has("Connection established")
        and said.has(
            "kex_exchange_identification",
            "ssh_exchange_identification",
            "Connection closed by",
            "Connection reset by",
        )
    )


def is_host_key(said: Said) -> bool:
    """Whether the host's key was refused."""
    return said.has("Host key verification failed")


def is_login(said: Said) -> bool:
    """Whether the host was the right one, and refused the login."""
    return said.has(
        "Authentications that can continue", "Permission denied (", "Too many authentication failures"
    )


def explain(said: Said, host: str, port: int, limit: Limit, *, proxied: bool) -> OrchError:
    """Return the error for a connection that did not come about, where it is no matter of keys."""
    if limit.over:
        return _too_late(said, host, port, limit, proxied)
    name = said.after("Could not resolve hostname ")
    if name:
        return Unreachable(f"no such host name: {name.partition(':')[0]}", where=host)
    if met := said.after("Unable to negotiate with "):
        return HostError(
            f"its sshd ({said.version}) and ssh have no algorithm in common: {met.partition(': ')[2]}",
            where=host,
            hint="See KexAlgorithms, HostKeyAlgorithms, Ciphers and MACs in ssh_config(5)",
        )
    if not said.greeted and proxied:
        words = [
            x for x in said.plain if not x.startswith(("kex_exchange", "ssh_exchange", "Connection closed"))
        ]
        return Unreachable(f"its ProxyCommand ended: {words[-1] if words else 'it said nothing'}", where=host)
    if refused := said.after(f"port {port}: "):
        return _not_connected(refused, host, port, limit)
    if said.greeted:
        return Unreachable(f"the connection went while it was opened ({said.last})", where=host)
    return Unreachable(f"ssh: {said.last}", where=host)


def _too_late(said: Said, host: str, port: int, limit: Limit, proxied: bool) -> Unreachable:
    if is_login(said):
        return Unreachable(f"no answer to the login within {limit.seconds:g} s", where=host)
    if not proxied and not said.has("Connection established"):
        return Unreachable(f"connection timed out after {limit.seconds:g} s", where=host)
    way = "its ProxyCommand runs" if proxied else f"port {port} takes the connection"
    return Unreachable(f"no SSH answer within {limit.seconds:g} s ({way})", where=host)


def _not_connected(why: str, host: str, port: int, limit: Limit) -> Unreachable:
    if why == "Connection timed out":
        return Unreachable("connection timed out", where=host)
    return Unreachable(f"{why.lower()} (port {port})", where=host)


def explain_login(said: Said, host: str, user: str) -> LoginRefused:
    """Return the error for a login that was refused."""
    tried = [key.label for key in said.offered]
    methods = said.after("Authentications that can continue: ") or ""
    why = hint = None
    if said.has("with partial success"):
        why = f"the key is right, but it also wants {methods.replace(',', ' or ')}"
    elif methods and "publickey" not in methods.split(","):
        why = f"it takes no keys, only {methods.replace(',', ', ')}"
    elif said.has("Too many authentication failures"):
        why = (
            f"the host hung up after {len(tried)} keys (MaxAuthTries); name the right one with "
            "ansible_ssh_private_key_file, or IdentityFile and IdentitiesOnly yes"
        )
    elif tried:
        hint = "Put the public key into ~/.ssh/authorized_keys there"
    if why and {"keyboard-interactive", "password"} & set(methods.split(",")) and "hung up" not in why:
        hint = f"Log in once by hand, it lasts for hours: orch login {host}"
    unusable = [f"{p} {w}" for p, w in _unusable(said)]
    names = "; ".join([", ".join(tried) or "none", *unusable])
    message = f"login refused for {user}@{host}" + (f": {why}" if why else "") + f" (tried keys: {names})"
    return LoginRefused(message, where=host, hint=hint)


def _unusable(said: Said) -> list[tuple[str, str]]:
    """Return files that ssh could not use, and why."""
    found = []
    for line in said.plain:
        if m := re.fullmatch(r'Load key "(.*)": (.*)', line):
            found.append((m[1], f"can't be used ({m[2]})"))
        elif m := re.search(r"Permissions .* for '(.*)' are too open", line):
            found.append((m[1], "may be read by others (chmod 600)"))
    return found
