"""What Fabric can't do and the ssh program may: errors after which it is worth another try."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.errors import ConfigError, HostError, NotPermitted

ADD_KEY = "Put the public key into ~/.ssh/authorized_keys there"
ADD_RSA_KEY = f"{ADD_KEY}; if it is there, its sshd may not take this type of key: use an ed25519 key"
"""For RSA keys: a server before OpenSSH 7.2 takes them with SHA-1 alone, which nobody tells us."""


class NeedsProgram(ConfigError):
    """ssh_config asks for what only the ssh program does."""


def by_hand(host: str) -> str:
    """Return what to do where only a person has the answer."""
    return f"Log in once by hand, and orch goes on with that: orch login {host}"


def how_to_answer(host: str, methods: Iterable[str]) -> str | None:
    """Return what to do where the host wants one of these besides, or instead of, a key."""
    if {"keyboard-interactive", "password"} & set(methods):
        return by_hand(host)
    return "Get a Kerberos ticket: kinit" if "gssapi-with-mic" in methods else None


def account(user: str, host: str) -> str:
    """Return `ana@gpu01`, also where the host is called `ana@gpu01` (a jump may be)."""
    return f"{user}@{host.rpartition('@')[2]}"


class NothingInCommon(HostError):
    """The host's sshd knows only algorithms that Fabric doesn't; ssh_config may allow them to the program."""


class LoginRefused(NotPermitted):
    """None of the keys that could be tried opens the door; a Kerberos ticket may."""
