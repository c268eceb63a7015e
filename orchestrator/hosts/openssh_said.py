"""What `ssh -v` tells while it opens a connection, and the error that it amounts to.

The texts are those of OpenSSH, which translates none of them. A line that begins with `debug1:` is talk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.errors import HostError, OrchError, Unreachable
from orchestrator.hosts.beyond import ADD_KEY, ADD_RSA_KEY, LoginRefused, account, by_hand, how_to_answer
from orchestrator.hosts.known_hosts import ShownKey
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.ssh_config import Route

_DEBUG = "debug1: "
_KEY = re.compile(r"(?P<path>.*?) (?P<kind>\S+) (?P<print>SHA256:\S+)(?P<rest>.*)")


@dataclass(frozen=True)
class Offered:
    """A key that was offered: a file's path or an agent's comment, its fingerprint, who signs."""

    path: str
    fingerprint: str
    agent: bool
    certificate: bool
    rsa: bool

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
        by_key = 'using "publickey"' in (self.after("Authenticated to ") or "")
        return found[-1] if found and by_key else None

    @property
    def accepted_in_vain(self) -> list[Offered]:
        """Keys that the host would have taken, and that could not sign."""
        if self.has("Authenticated to ", "with partial success"):
            return []
        return self._keys("Server accepts key: ")

    def _keys(self, start: str) -> list[Offered]:
        found = [_KEY.fullmatch(x.removeprefix(start)) for x in self._debug if x.startswith(start)]
        return [
            Offered(
                m["path"], m["print"], " agent" in m["rest"], m["kind"].endswith("-CERT"), "RSA" in m["kind"]
            )
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
    closed = (
        "kex_exchange_identification",
        "ssh_exchange_identification",
        "Connection closed",
        "Connection reset",
    )
    return not said.greeted and said.has(*closed)


def is_full_on_the_way(said: Said) -> bool:
    """Whether a ProxyCommand that is an ssh itself (`ssh -W`) was dropped by its bastion.

    For what goes through a program, ssh says `UNKNOWN port` instead of an address.
    """
    dropped = [x for x in said.plain if x.startswith(("Connection closed by ", "Connection reset by "))]
    return not said.greeted and any("UNKNOWN" not in x for x in dropped)


def is_host_key(said: Said) -> bool:
    """Whether the host's key was refused."""
    return said.has("Host key verification failed")


def is_login(said: Said) -> bool:
    """Whether the host was the right one, and refused the login: not where the line went before it said no.

    What can continue is told before any key is shown, too; and a host may hang up after several keys.
    """
    if said.has("Permission denied (", "Too many authentication failures"):
        return True
    went = said.has("Connection closed by ", "Connection reset by ") and len(said.offered) < 2
    return said.has("Authentications that can continue") and not went


_SSHS_OWN = ("kex_exchange", "ssh_exchange", "banner exchange", "Connection closed")
"""How lines of ssh itself about a ProxyCommand that has ended begin: which one comes hangs on the moment."""


def explain(said: Said, host: str, route: Route, limit: Limit, *, proxied: bool) -> OrchError:
    """Return the error for a connection that did not come about, where it is no matter of keys."""
    if limit.over:
        return _too_late(said, host, route.port, limit, proxied)
    if name := said.after("Could not resolve hostname "):
        family = {"inet": "n IPv4", "inet6": "n IPv6"}.get(route.family)
        of_kind = f" with a{family} address (AddressFamily {route.family})" if family else ""
        return Unreachable(f"no such host name{of_kind}: {name.rpartition(': ')[0]}", where=host)
    if met := said.after("Unable to negotiate with "):
        return HostError(
            f"its sshd ({said.version}) and ssh have no algorithm in common: {met.partition(': ')[2]}",
            where=host,
            hint="See KexAlgorithms, HostKeyAlgorithms, Ciphers and MACs in ssh_config(5)",
        )
    if not said.greeted and proxied:
        words = [x for x in said.plain if not x.startswith(_SSHS_OWN)]
        return Unreachable(f"its ProxyCommand ended: {words[-1] if words else 'it said nothing'}", where=host)
    if refused := said.after(f"port {route.port}: "):
        bound = next((x for x in said.plain if x.startswith("bind ")), None)
        why = f"bindaddress {bound[5:]}" if bound else refused
        return Unreachable(f"{why.lower()} (port {route.port})", where=host)
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


def explain_login(said: Said, host: str, user: str, also: Sequence[str] = ()) -> LoginRefused:
    """Return the error for a login that was refused; `also` says what else could not be used."""
    left = said.accepted_in_vain
    tried = [key.label for key in said.offered if key not in left]
    unusable = [f"{key.path} {_why_not(said, key)}" for key in left]
    names = "; ".join([", ".join(tried) or "none", *unusable, *also])
    why, hint = _why_refused(said, host, len(said.offered))
    if tried and not why:
        hint = ADD_RSA_KEY if all(key.rsa for key in said.offered) else ADD_KEY
    message = (
        f"login refused for {account(user, host)}" + (f": {why}" if why else "") + f" (tried keys: {names})"
    )
    return LoginRefused(message, where=host, hint=hint)


def _why_refused(said: Said, host: str, tries: int) -> tuple[str | None, str | None]:
    """Return what the host said of it beyond a plain no, and what to do."""
    methods = (said.after("Authentications that can continue: ") or "").split(",")
    hint = how_to_answer(host, methods)
    if said.has("with partial success"):
        return f"the key is right, but it also wants {' or '.join(methods)}", hint
    if said.has("Too many authentication failures"):
        return (
            f"the host hung up after {tries} keys (MaxAuthTries); name the right one with "
            "ansible_ssh_private_key_file, or IdentityFile and IdentitiesOnly yes"
        ), None
    if said.has("pin required", "need pin entry"):
        return "its key's card wants a PIN", by_hand(host)
    if any(methods) and "publickey" not in methods:
        return f"it takes no keys, only {', '.join(methods)}", hint
    return None, None if tries else hint


def _why_not(said: Said, key: Offered) -> str:
    """Return why a key that the host would have taken was not used."""
    if key.path.endswith(".pub"):
        return "is a public key, and no agent has the private one"
    if said.has(f"for '{key.path}' are too open"):
        return "may be read by others (chmod 600)"
    if why := said.after(f'Load key "{key.path}": '):
        return f"can't be used ({why})"
    return "needs a passphrase and no agent has it"
