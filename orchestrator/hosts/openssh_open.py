"""Opening one connection by the ssh program: its options, the host key, the error when it does not open."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orchestrator.errors import ConfigError, NotPermitted, OrchError
from orchestrator.hosts import known_hosts, known_hosts_files, openssh_sockets
from orchestrator.hosts.again import Dropped, while_dropped
from orchestrator.hosts.known_hosts import ShownKey
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.openssh_master import Master
from orchestrator.hosts.openssh_said import (
    Said,
    explain,
    explain_login,
    is_dropped,
    is_full_on_the_way,
    is_host_key,
    is_login,
)
from orchestrator.hosts.ssh_config import Route
from orchestrator.hosts.ssh_tokens import home_moved
from orchestrator.hosts.trust import KnownHosts

_AGENT_SECONDS = 3.0  # a stale socket accepts and never answers
_WHICH_KEYS = b"\0\0\0\1\x0b"  # SSH_AGENTC_REQUEST_IDENTITIES
_STRICT = {
    "accept-new": "accept-new"
}  # whatever else the policy: an unknown key is no matter for ssh, but for us


def _is_fine() -> None:
    """The way through no jump."""


@dataclass(frozen=True)
class Wanted:
    """What is to be opened. `named` is the inventory's key file, `proxy` a ProxyCommand of ours."""

    host: str
    route: Route
    args: tuple[str, ...]
    policy: str
    named: str | None = None
    named_at: str | None = None
    proxy: str | None = None
    way: Callable[[], None] = _is_fine
    """Raises what is wrong with the way through the jump, if anything is."""

    @property
    def proxied(self) -> bool:
        """Whether a program stands between us and the host's port."""
        return bool(self.proxy or self.route.command)

    def silent_agent(self) -> tuple[str, ...]:
        """Return what is to be said of an agent that gives no answer: ssh would wait for it without end."""
        agent = self.route.agent
        if agent and os.path.exists(agent) and not _answers(agent):
            return (f"the agent at {agent} gives no answer",)
        return ()

    def options(self) -> list[str]:
        """Return ssh's options for it (the host key's apart)."""
        found = [f"ProxyCommand={self.proxy}"] if self.proxy else []
        found += ["IdentityAgent=none"] if self.silent_agent() else []
        found += _homes(self.route) if home_moved() else []
        if self.named:
            found += ["IdentitiesOnly=yes", f"IdentityFile={_quoted([self.named])}"]
        elif home_moved():
            found += [f"IdentityFile={_quoted([f])}" for f in self.route.identity_files if os.path.exists(f)]
        return found


@functools.lru_cache(maxsize=64)
def _answers(agent: str) -> bool:
    """Whether an agent tells its keys. Asked once: many hosts, and many tries, have the same one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(_AGENT_SECONDS)
        try:
            sock.connect(agent)
            sock.sendall(_WHICH_KEYS)
            return bool(sock.recv(1))
        except OSError:
            return False


def _homes(route: Route) -> list[str]:
    """Return options for what ssh would look for in the account's home, where $HOME is another."""
    found = [f"CertificateFile={_quoted([f])}" for f in route.certificate_files]
    return [*found, f"UserKnownHostsFile={_quoted(route.user_known_hosts) or 'none'}"]


def _quoted(paths: Iterable[str]) -> str:
    return " ".join('"' + p.replace("%", "%%") + '"' for p in paths)


def open_master(wanted: Wanted, trust: KnownHosts, limit: Limit) -> Master:
    """Open a connection. Raises Unreachable, NotPermitted, ConfigError or HostError."""
    if wanted.policy == "accept-new":  # ssh makes no folder for it
        known_hosts.make_folder(wanted.route.user_known_hosts)
    strict = f"StrictHostKeyChecking={_STRICT.get(wanted.policy, 'yes')}"

    def opened() -> Master:
        return _open(wanted, [strict], trust, limit)

    return while_dropped(opened, wanted.host, wanted.route.port, limit)


def _open(wanted: Wanted, options: Sequence[str], trust: KnownHosts, limit: Limit) -> Master:
    master = _start(wanted, options)
    try:
        if master.is_up(limit):
            return master
        said = master.said()
    except BaseException:
        master.close()
        raise
    master.close()
    if is_host_key(said):
        return _trusted(wanted, said, trust, limit)
    raise _why(said, wanted, limit)


def _start(wanted: Wanted, options: Sequence[str]) -> Master:
    path = openssh_sockets.fresh()
    return Master(wanted.route, path, wanted.args, [*options, *wanted.options()])


def _why(said: Said, wanted: Wanted, limit: Limit) -> Exception:
    if not said.greeted and not limit.over:
        wanted.way()
    if limit.over:
        pass
    elif is_login(said):
        return _bad_key(wanted) or explain_login(said, wanted.host, wanted.route.user, wanted.silent_agent())
    elif is_dropped(said) and (wanted.proxy or not wanted.route.command):
        return Dropped(said.last)
    told = explain(said, wanted.host, wanted.route, limit, proxied=wanted.proxied)
    return Dropped(told.message) if is_full_on_the_way(said) and not limit.over else told


def _bad_key(wanted: Wanted) -> OrchError | None:
    """Return what is wrong with the inventory's key file itself, if anything is."""
    from orchestrator.hosts.key_files import BadKey, load_key, public_part, read_key

    if not wanted.named:
        return None
    try:
        public = public_part(read_key(wanted.named))
        if not (public and public.kind.startswith("sk-")):
            load_key(wanted.named)
    except BadKey as error:
        if error.locked:
            return NotPermitted(
                f"key file {wanted.named} {error} and no agent has it",
                where=wanted.host,
                hint=f"ssh-add {wanted.named}; for cron, use a key without a passphrase",
            )
        at = f" ({wanted.named_at})" if wanted.named_at else ""
        return ConfigError(f"key file {wanted.named} {error}{at}", where=wanted.host)
    return None


def _trusted(wanted: Wanted, said: Said, trust: KnownHosts, limit: Limit) -> Master:
    """Open once more when a person trusts the key that ssh refused; raise what is wrong with it otherwise."""
    if invalid := said.after("Certificate invalid: "):
        raise NotPermitted(f"its host certificate is refused: {invalid}", where=wanted.host)
    if file := said.after(" revoked by file "):
        raise NotPermitted(
            f"its host key is revoked ({file})", where=wanted.host, hint="Ask its administrator"
        )
    if file := said.after(" in revoked keys file "):
        path, _, why = file.partition(": ")
        raise ConfigError(f"RevokedHostKeys: {why}", where=path)
    shown = said.host_key
    if shown is None:
        raise NotPermitted(f"its host key is refused: {said.last}", where=wanted.host)
    with limit.paused():
        asked = trust.learns(shown)
    if not asked:
        raise NotPermitted(f"its host key is refused: {said.last}", where=wanted.host)
    return _with_new_key(wanted, shown, trust, limit)


def _with_new_key(wanted: Wanted, shown: ShownKey, trust: KnownHosts, limit: Limit) -> Master:
    """Open, and add the key to known_hosts if it is the one that the person saw."""
    learned = openssh_sockets.fresh() + ".known"
    options = ["StrictHostKeyChecking=accept-new", f"UserKnownHostsFile={learned}", "HashKnownHosts=no"]
    master = None
    try:
        master = _start(wanted, options)
        up = master.is_up(limit)
        entries = known_hosts_files.entries(learned)
        if up and [e.key.fingerprint for e in entries] == [shown.fingerprint]:
            trust.remember(entries[0].key)
            return master
        said = master.said()
    except BaseException:
        if master:
            master.close()
        raise
    finally:
        if os.path.exists(learned):
            os.unlink(learned)
    master.close()
    if up:
        raise NotPermitted("it shows one host key now, and another then", where=wanted.host)
    raise _why(said, wanted, limit)
