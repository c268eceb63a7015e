"""paramiko's Transport, with an order of host key types, and an ear for peers that fall silent."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import paramiko
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_EXTENDED_DATA,
    cMSG_GLOBAL_REQUEST,
)

from orchestrator.hosts.packets import Packets
from orchestrator.hosts.pieces import Pieces

KEEPALIVE = 15.0
"""Seconds between two keepalives on a quiet connection."""

_MISSED = 3  # unanswered keepalives after which the peer counts as gone, as ServerAliveCountMax
_ROOM_TOLD = 4  # times that the host is told of new room for each windowful of data
_TOO_LATE = (MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA, MSG_CHANNEL_EOF)


class _Listening(Packets):
    """Asks for a sign of life again and again, and counts what was asked since the peer was last heard.

    It is no time that is measured: whoever stood still himself, as a laptop asleep, has not listened.
    And what is written puts nothing off, as with paramiko's own keepalive: that is no sign of the peer's.
    """

    unanswered = 0
    _ask: Callable[[], None] | None = None
    _every = _last = 0.0

    def watch(self, seconds: float, ask: Callable[[], None]) -> None:
        """Begin to call `ask` every so many seconds, from the thread that reads."""
        self._ask, self._every, self._last, self.unanswered = ask, seconds, time.monotonic(), 0

    def _check_keepalive(self) -> None:
        """Called ten times a second while nothing comes."""
        now = time.monotonic()
        if self._ask and now >= self._last + self._every and not self.need_rekey():
            self._last = now
            self._ask()

    def _receive(self, check_rekey: bool) -> bool:
        came = super()._receive(check_rekey)
        if came:
            self.unanswered = 0
        return came


class Transport(paramiko.Transport):  # type: ignore[misc]
    """A transport that closes itself when the peer answers no keepalive.

    paramiko's own keepalive asks for no answer, so that a frozen peer is never noticed. And it may send
    data on a channel that another thread has just closed, for which OpenSSH ends the whole connection
    ("data packet referred to nonexistent channel"): with several hosts behind one jump, all of them.
    And where a channel is closed while new keys are made, its reading thread waits for these in order to
    answer: for itself, since it is the one that takes them.
    """

    # One pass over the data for secrecy and integrity, where paramiko's own first choice takes two (and
    # before 3.5 it has none that takes one).
    _preferred_ciphers = (
        *(
            c
            for c in ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
            if c in paramiko.Transport._cipher_info
        ),
        *(c for c in paramiko.Transport._preferred_ciphers if "gcm" not in c),
    )

    def __init__(self, sock: Any, **options: Any) -> None:
        self._closed_there: set[int] = set()
        self._held: list[Any] = []  # what the reading thread has to say when there are new keys
        super().__init__(sock, packetizer_class=_Listening, **options)
        self.packetizer.place = self._place

    def open_channel(self, kind: str, *args: Any, **options: Any) -> Any:
        """Open a channel, whose number on the server may be that of one that was closed."""
        channel = super().open_channel(kind, *args, **options)
        self._closed_there.discard(channel.remote_chanid)
        if kind == "session":  # nothing comes on it before a command is started
            channel.in_buffer = Pieces()
            channel.in_window_threshold = channel.in_window_size // _ROOM_TOLD
        return channel

    def _place(self, number: int, data: memoryview) -> bool:
        """Put data into its channel. Called in the thread that reads."""
        channel = self._channels.get(number)
        if not channel or not isinstance(channel.in_buffer, Pieces):
            return False
        channel.in_buffer.feed(data)
        return True

    def _send_user_message(self, data: Any) -> None:
        """Send a message when no keys are being made."""
        if threading.current_thread() is self and not self.clear_to_send.is_set():
            self._held.append(data)
        else:
            super()._send_user_message(data)

    def _activate_inbound(self) -> None:
        """Take up the peer's new keys; ours are in use already, and other threads are still kept out."""
        super()._activate_inbound()
        held, self._held = self._held, []
        for data in held:
            self._send_message(data)

    def _send_message(self, data: Any) -> None:
        """Send a message, unless it comes too late for its channel. Called under the lock for sending."""
        raw = data.asbytes()
        kind, channel = raw[0], int.from_bytes(raw[1:5], "big")
        if kind == MSG_CHANNEL_CLOSE:
            self._closed_there.add(channel)
        elif kind in _TOO_LATE and channel in self._closed_there:
            return
        super()._send_message(data)

    def prefer(self, kinds: Sequence[str]) -> None:
        """Ask the server for host keys of these types (as in known_hosts) before all others."""
        wanted = [w for k in kinds for w in (("rsa-sha2-512", "rsa-sha2-256") if k == "ssh-rsa" else (k,))]
        options = self.get_security_options()
        first = [k for k in dict.fromkeys(wanted) if k in options.key_types]
        options.key_types = (*first, *(k for k in options.key_types if k not in first))

    def watch(self, seconds: float = KEEPALIVE) -> None:
        """Begin to send keepalives."""

        def ask() -> None:
            if self.packetizer.unanswered == _MISSED:
                self.packetizer.close()  # the reading thread sees it at once and ends all channels
                return
            self.packetizer.unanswered += 1
            message = paramiko.Message()
            message.add_byte(cMSG_GLOBAL_REQUEST)
            message.add_string("keepalive@openssh.com")
            message.add_boolean(True)  # answered with a failure by whoever lives
            self._send_user_message(message)

        self.packetizer.watch(seconds, ask)


class Through:
    """A channel as a socket. Closing it never raises: the connection that it belongs to may be gone."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        """Close the channel."""
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
            self._channel.close()
