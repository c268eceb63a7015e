"""A machine over SSH: one Fabric connection, one exec per question."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import paramiko
from fabric import Connection

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.answer import Answer
from orchestrator.hosts.base import Machine, Result, Stream, Terminal, Tunnel
from orchestrator.hosts.channel import PIECE, ChannelStream, ended, wait
from orchestrator.hosts.command import Command, Script, framed, line_of, on_path
from orchestrator.hosts.key_files import authorized_line
from orchestrator.hosts.keys import Login, identities_for
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.opening import Door, open_connection
from orchestrator.hosts.sessions import OPEN_SECONDS, NoRoom, SessionMachine, Share
from orchestrator.hosts.transport import Through
from orchestrator.hosts.trust import Pinned
from orchestrator.inventory import Host


class SshMachine(SessionMachine):
    """A host over SSH. `behind` is the jump that the connection goes through, `again` opens another one."""

    def __init__(
        self,
        host: Host,
        connection: Connection,
        login: Login,
        behind: Share | None = None,
        again: Callable[[], SessionMachine] | None = None,
    ) -> None:
        super().__init__(host, behind, again)
        self._connection, self._login = connection, login
        self._transport = connection.transport  # a closed connection forgets it

    @property
    def client_keys(self) -> tuple[str, ...]:
        """The public key that logged in, as an authorized_keys line."""
        return (authorized_line(self._login.key),)

    @property
    def alive(self) -> bool:
        """Whether the connection stands, as far as is known here."""
        return bool(self._connection.is_connected)

    @property
    def private_key(self) -> Any:
        """The key that logged in (paramiko PKey), for a hop to the container."""
        return self._login.key

    def _run(self, script: Script, deadline: float) -> Result:
        limit, began = Limit(deadline), time.monotonic()
        frame = framed(on_path(self.host.settings.remote_path, script), watched=script.asks)
        answer = Answer(frame)
        with self._started("exec /bin/sh -s", limit, name=script.name) as channel:
            with contextlib.suppress(
                OSError, EOFError, paramiko.SSHException
            ):  # it may have ended already; what it said comes next
                channel.settimeout(max(limit.left, 0.01))
                channel.sendall(frame.stdin)
                if not script.asks:
                    channel.shutdown_write()
            with self._told(script.name, limit):
                _collect(channel, answer, limit)
            if not answer.whole and not ended(channel):
                raise self._hangs(script.name, limit)
            status = None if answer.whole else ChannelStream(channel, self.host.name).status()
        return answer.result(script.name, self.host.name, time.monotonic() - began, status)

    @contextlib.contextmanager
    def _started(
        self, line: str, limit: Limit, *, name: str, terminal: Terminal | None = None
    ) -> Iterator[Any]:
        """Open a channel, start `line` on it, and close it at the end of the block."""
        channel = self._start(line, limit, name, terminal)
        try:
            yield channel
        finally:
            ChannelStream(channel, self.host.name).close()

    def _start(self, line: str, limit: Limit, name: str, terminal: Terminal | None) -> Any:
        transport = self._transport
        # paramiko waits for the answer to an exec without any limit: closing the transport ends that
        with limit.guard(transport.close), self._told(name, limit):
            channel = transport.open_session(timeout=limit.left)
            if terminal:
                self._give_terminal(channel, terminal, name)
            channel.exec_command(line.encode("utf-8", "surrogateescape"))
            return channel

    def _give_terminal(self, channel: Any, terminal: Terminal, name: str) -> None:
        try:
            channel.get_pty(terminal.kind, terminal.columns, terminal.rows)
        except paramiko.SSHException as error:
            if self._transport.is_active():  # it was a no, and not the end of the connection
                raise HostError(
                    f"{name}: the host gives no terminal (PermitTTY in sshd_config, no-pty for the key)",
                    where=self.host.name,
                ) from error
            raise

    @contextlib.contextmanager
    def _told(self, name: str, limit: Limit) -> Iterator[None]:
        """Turn paramiko's errors into ours."""
        try:
            yield
        except paramiko.ChannelException as error:
            raise NoRoom(name, self.host.name) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            if limit.over:
                raise self._hangs(name, limit) from error
            raise LostConnection(f"{name}: the connection went", where=self.host.name) from error

    def _stream(self, command: Command | Script, terminal: Terminal | None, mark: str) -> Stream:
        line = line_of(command, self.host.settings.remote_path, host=self.host.name, mark=mark)
        name = command.name if isinstance(command, Script) else "stream"
        channel = self._start(line, Limit(OPEN_SECONDS), name, terminal)
        channel.settimeout(None)
        return ChannelStream(channel, self.host.name)

    def _forward(self, address: str, port: int, limit: Limit) -> Tunnel:
        try:
            channel = self._transport.open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=limit.left
            )
        except paramiko.ChannelException as error:
            if error.code == 1:  # administratively prohibited (RFC 4254, 5.1)
                raise HostError(
                    "its sshd forbids forwarding (AllowTcpForwarding)", where=self.host.name
                ) from error
            raise HostError(f"nothing answers at {address}:{port} there", where=self.host.name) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            if limit.over:
                said = f"no answer from {address}:{port} there within {limit.seconds:g} s"
                raise HostError(said, where=self.host.name) from error
            raise LostConnection(f"no way to {address}:{port}", where=self.host.name) from error
        return Through(channel)

    def _close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()
        self._login.close()


def _collect(channel: Any, answer: Answer, limit: Limit) -> None:
    """Feed both streams until the answer is whole, the channel has ended or the time is over."""
    while not answer.whole and not limit.over:
        over = ended(channel)
        if channel.recv_ready():
            answer.feed(channel.recv(PIECE))
        elif channel.recv_stderr_ready():
            answer.feed_error(channel.recv_stderr(PIECE))
        elif over:
            return
        else:
            wait(channel, limit.left)


def hop(
    machine: Machine, port: int, *, user: str, host_keys: Sequence[str], keys: Sequence[str] = ()
) -> Machine:
    """Log in to a second sshd, at 127.0.0.1:port of `machine`: the container's.

    `host_keys` are its public keys (`ssh-ed25519 AAAA...`), no other is accepted. `keys` are key files
    to try; the key that logged in to the machine itself comes first. The machine stays open.
    """
    loaded = [machine.private_key] if machine.private_key else []
    limit = Limit(machine.host.settings.timeout)
    login = Login(machine.host.name, user, identities_for(keys, loaded), limit, " (its container)")
    door = Door(machine.host.name, "127.0.0.1", port, lambda _: machine.tunnel(port))
    connection = open_connection(door, Pinned(machine.host.name, tuple(host_keys)), login, limit)
    return SshMachine(machine.host, connection, login)
