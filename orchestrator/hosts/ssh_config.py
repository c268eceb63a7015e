"""What ~/.ssh/config says of a host, asked of the ssh program itself (`ssh -G`).

So Include, Match, canonical names and everything that a newer ssh learns are read exactly as ssh reads them.
`ssh -G` leaves `~` and tokens (%h, %d, ...) in some values; they are expanded here. Without the program,
paramiko.SSHConfig reads the file (it knows no Include).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import ConfigError, HostError
from orchestrator.hosts.algorithms import Allowed, allowed
from orchestrator.hosts.ssh_tokens import Tokens, home, home_moved, local_user

_ASK_SECONDS = 10.0  # `Match exec` may run a program of the user's
_ONLY_SSH = ("KnownHostsCommand", "BindInterface")
_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_KINDS = ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss", "dsa")
"""~/.ssh/id_KIND are the files that ssh tries where no IdentityFile names one."""


@dataclass(frozen=True)
class Route:
    """How ssh would reach a host. Paths are absolute, tokens expanded."""

    name: str
    """The name that was asked for."""
    address: str
    port: int
    user: str
    key_alias: str | None = None
    """HostKeyAlias: the name under which the host's key is known."""
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent: str | None = None
    """The agent's socket; None: there is none."""
    jump: str | None = None
    """ProxyJump: `[user@]host[:port]`, several joined by commas, the last one next to the host."""
    command: str | None = None
    """ProxyCommand, for /bin/sh."""
    user_known_hosts: tuple[str, ...] = ()
    global_known_hosts: tuple[str, ...] = ()
    strict: str = "ask"
    """StrictHostKeyChecking: ask, accept-new, yes, no."""
    hash_names: bool = False
    """HashKnownHosts: a name is added as a hash."""
    revoked: str | None = None
    """RevokedHostKeys: a file of keys, or a KRL."""
    family: str = "any"
    """AddressFamily: any, inet, inet6."""
    bind: str | None = None
    """BindAddress: the address of this machine that is used."""
    connect_timeout: float | None = None
    """ConnectTimeout in seconds."""
    algorithms: Allowed = ()
    only_ssh: str | None = None
    """What it asks for that none but the ssh program does: `KnownHostsCommand`."""
    control_path: str | None = None
    """ControlPath: the socket of a master that the user may have."""
    gssapi: bool = False
    """GSSAPIAuthentication: log in by a Kerberos ticket."""
    key_provider: str | None = None
    """PKCS11Provider: the library of a smart card."""

    @property
    def named_keys(self) -> tuple[str, ...]:
        """The key files that ssh_config names; empty where it leaves that to ssh."""
        folder = os.path.join(home(), ".ssh")
        unnamed = {os.path.join(folder, f"id_{kind}") for kind in _KINDS}
        return () if set(self.identity_files) <= unnamed else self.identity_files

    @property
    def named_known_hosts(self) -> tuple[str, ...]:
        """The user's files of known hosts that ssh_config names; empty where it names none."""
        unnamed = {os.path.join(home(), ".ssh", name) for name in ("known_hosts", "known_hosts2")}
        return () if set(self.user_known_hosts) <= unnamed else self.user_known_hosts


def resolve(
    name: str, *, user: str | None = None, port: int | None = None, args: Sequence[str] = ()
) -> Route:
    """Ask how `name` is reached. `user` and `port` are the inventory's and win; `args` are ssh's options.

    Raises ConfigError when ssh says that its configuration, or one of `args`, is wrong.
    """
    program = shutil.which("ssh")
    values = parse(_ask_ssh(program, name, user, port, args)) if program else _read_without_ssh(name)
    return route(name, values, user=user, port=port)


def is_named(name: str) -> bool:
    """Tell whether the user's ssh_config gives this name an address of its own."""
    return resolve(name).address != name


def _ask_ssh(program: str, name: str, user: str | None, port: int | None, args: Sequence[str]) -> str:
    words = [program, "-G", *own_config(args), *args]
    words += ["-l", user] if user else []
    words += ["-p", str(port)] if port else []
    try:
        done = subprocess.run(
            [*words, "--", name],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise HostError(
            f"ssh -G gave no answer within {_ASK_SECONDS:g} s", where=name, hint="Is there a 'Match exec'?"
        ) from error
    if done.returncode:
        raise ConfigError(f"ssh: {_reason(done.stderr)}", where=name)
    return done.stdout.decode("utf-8", "replace")


def _reason(stderr: bytes) -> str:
    lines = [x.strip() for x in stderr.decode("utf-8", "replace").splitlines()]
    told = [x for x in lines if x and not x.startswith("Pseudo-terminal")]
    terminating = len(told) > 1 and "terminating" in told[-1]  # the line before it names file and line
    return told[-2 if terminating else -1] if told else "its configuration can't be read"


def own_config(args: Sequence[str]) -> list[str]:
    """Return -F where $HOME is not the account's: ssh itself reads ~/.ssh/config of the account."""
    if any(a.startswith("-F") for a in args) or not home_moved():
        return []
    own = Path(home(), ".ssh", "config")
    return ["-F", str(own) if own.is_file() else "none"]


def _read_without_ssh(name: str) -> dict[str, list[str]]:
    from paramiko import SSHConfig
    from paramiko.ssh_exception import ConfigParseError

    path = Path(home(), ".ssh", "config")
    try:
        found = SSHConfig.from_path(str(path)).lookup(name) if path.is_file() else {}
    except ConfigParseError as error:
        raise ConfigError(str(error), where=str(path)) from error
    return {k: v if isinstance(v, list) else [v] for k, v in found.items() if v is not None}


def parse(text: str) -> dict[str, list[str]]:
    """Read the lines of `ssh -G`: keyword, blank, value; a keyword may come several times."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, _, value = line.strip().partition(" ")
        if keyword:
            values.setdefault(keyword.lower(), []).append(value.strip())
    return values


def route(
    name: str, values: Mapping[str, Sequence[str]], *, user: str | None = None, port: int | None = None
) -> Route:
    """Make a Route of parsed values, tokens and `~` expanded."""

    def one(keyword: str) -> str | None:
        found = values.get(keyword, ())
        return found[0] if found and found[0] and found[0].lower() != "none" else None

    login, at, host = name.rpartition("@")
    address = (one("hostname") or host).strip("[]")
    final_user = user or one("user") or (login if at else None) or local_user()
    final_port = port or int(one("port") or 22)
    tokens = Tokens(name, address, final_port, final_user, one("hostkeyalias"))

    def paths(keyword: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        found = values.get(keyword) or default
        return tuple(tokens.path(v) for v in found if v and v.lower() != "none")

    return Route(
        name=name,
        address=address,
        port=final_port,
        user=final_user,
        key_alias=one("hostkeyalias"),
        identity_files=paths("identityfile", _DEFAULT_KEYS),
        certificate_files=paths("certificatefile"),
        identities_only=one("identitiesonly") == "yes",
        agent=_agent(values.get("identityagent", ["SSH_AUTH_SOCK"])[0], tokens),
        jump=one("proxyjump"),
        command=tokens.expand(one("proxycommand") or "") or None,
        user_known_hosts=_files(values.get("userknownhostsfile"), ("~/.ssh/known_hosts",), tokens),
        global_known_hosts=_files(values.get("globalknownhostsfile"), ("/etc/ssh/ssh_known_hosts",), tokens),
        strict=_strict(one("stricthostkeychecking")),
        hash_names=one("hashknownhosts") == "yes",
        revoked=next(iter(paths("revokedhostkeys")), None),
        family=one("addressfamily") or "any",
        bind=one("bindaddress"),
        connect_timeout=float(one("connecttimeout") or 0) or None,
        algorithms=allowed(values),
        only_ssh=next((keyword for keyword in _ONLY_SSH if one(keyword.lower())), None),
        control_path=tokens.path(one("controlpath") or "") or None,
        gssapi=one("gssapiauthentication") == "yes",
        key_provider=one("pkcs11provider"),
    )


def _strict(value: str | None) -> str:
    return {"true": "yes", "false": "no", "off": "no"}.get(value or "ask", value or "ask")


def _agent(value: str, tokens: Tokens) -> str | None:
    """Return the agent's socket of an IdentityAgent value: none, SSH_AUTH_SOCK, $VARIABLE or a path."""
    if value.lower() == "none":
        return None
    if value == "SSH_AUTH_SOCK" or re.fullmatch(r"\$\w+", value):
        return os.environ.get(value.lstrip("$")) or None
    return tokens.path(value)


def _files(found: Sequence[str] | None, default: Sequence[str], tokens: Tokens) -> tuple[str, ...]:
    """Part a line of several paths; ssh prints blanks unquoted, so a whole line that exists is one path."""
    if not found:
        return tuple(tokens.path(p) for p in default)
    whole = tokens.path(found[0])
    pieces = [found[0]] if os.path.exists(whole) else found[0].split()
    return tuple(tokens.path(p) for p in pieces if p.lower() != "none")
