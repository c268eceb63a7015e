"""Opening one SSH connection: socket, host key, login; all of it within the host's deadline."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paramiko
from fabric import Config, Connection

from orchestrator.errors import OrchError, Unreachable
from orchestrator.hosts.again import Dropped, while_dropped
from orchestrator.hosts.algorithms import Allowed, NoneLeft, keep_to
from orchestrator.hosts.beyond import NeedsProgram, NothingInCommon
from orchestrator.hosts.dial import ProxySocket
from orchestrator.hosts.keys import Login
from orchestrator.hosts.known_hosts import PublicKey
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.transport import Transport
from orchestrator.hosts.trust import Trust

# What `ssh -W %h:%p bastion` says as a ProxyCommand where the bastion drops it: there may be room later.
_FULL = re.compile(r"(kex|ssh)_exchange_identification|Connection (closed|reset) by ")
_LEAST = 0.1  # seconds that paramiko is given at least: 0 means no limit to it

# Without a handler Python prints paramiko's tracebacks on stderr; what they say is in our own errors.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Door:
    """Where an SSH server is: names for messages, and how a socket to it is got."""

    host: str
    address: str
    port: int
    dial: Callable[[Limit], Any]
    algorithms: Allowed = ()


class _Policy(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Hands every host key to our own Trust (paramiko knows none); a person's thinking is not counted."""

    def __init__(self, trust: Trust, limit: Limit) -> None:
        self._trust, self._limit = trust, limit

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        with self._limit.paused():
            self._trust.check(PublicKey(key.get_name(), key.asbytes()))


def open_connection(door: Door, trust: Trust, login: Login, limit: Limit) -> Connection:
    """Open and log in. Raises Unreachable, NotPermitted, ConfigError or HostError."""
    try:
        return while_dropped(lambda: _open_once(door, trust, login, limit), door.host, door.port, limit)
    except BaseException:
        login.close()
        raise


def _open_once(door: Door, trust: Trust, login: Login, limit: Limit) -> Connection:
    sock = door.dial(limit)
    transports: list[Transport] = []

    def make(sock: Any, **options: Any) -> Transport:
        transport = Transport(sock, **options)
        transports.append(transport)
        keep_to(transport, door.algorithms)
        transport.prefer(trust.kinds())
        transport.handshake_timeout = max(limit.left, _LEAST)
        return transport

    left = max(limit.left, _LEAST)
    connection = Connection(
        door.address,
        user=login.user,
        port=door.port,
        config=Config(ssh_config=paramiko.SSHConfig(), lazy=True),  # one each: a connection changes it
        gateway=False,
        connect_kwargs={
            "sock": sock,
            "transport_factory": make,
            "auth_strategy": login,
            "timeout": left,
            "banner_timeout": left,
        },
    )
    connection.client.set_missing_host_key_policy(_Policy(trust, limit))
    try:
        connection.open()
    except BaseException as error:
        for transport in transports:
            transport.close()
        sock.close()
        version = transports[0].remote_version if transports else None
        raise _told(error, door, limit, sock, version) from error
    transports[0].watch()
    return connection


def _told(error: BaseException, door: Door, limit: Limit, sock: Any, version: str | None) -> BaseException:
    """Return the error to raise for what went wrong; `version` is what the server said it is."""
    if isinstance(error, NoneLeft):
        return NeedsProgram(
            f"ssh_config asks for {error}, which only the ssh program can do", where=door.host
        )
    if isinstance(error, OrchError) or not isinstance(error, (paramiko.SSHException, EOFError, OSError)):
        return error
    proxied = isinstance(sock, ProxySocket)
    if limit.over:
        way = "its ProxyCommand runs" if proxied else f"port {door.port} takes the connection"
        return Unreachable(f"no SSH answer within {limit.seconds:g} s ({way})", where=door.host)
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return NothingInCommon(
            f"its sshd ({version}) and orch have no algorithm in common: {error}",
            where=door.host,
            hint="An OpenSSH before 7.2 is too old; else see KexAlgorithms, Ciphers and MACs there",
        )
    if "protocol version" in str(error) or "Incompatible version" in str(error):
        return Unreachable(f"port {door.port} does not speak SSH: {error}", where=door.host)
    if version:
        return Unreachable(f"the connection went while it was opened ({error})", where=door.host)
    if not proxied:
        return Dropped(str(error))
    ended = f"its ProxyCommand ended: {sock.complaint}"
    return Dropped(ended) if _FULL.search(sock.complaint) else Unreachable(ended, where=door.host)
