"""Packets off the socket, many at a time: paramiko's Packetizer for whoever receives much."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidTag
from paramiko.common import MSG_CHANNEL_DATA
from paramiko.message import Message
from paramiko.packet import NeedRekeyException, Packetizer
from paramiko.ssh_exception import SSHException

_ROOM = 1 << 18  # bytes taken off the socket at once, and the longest packet (OpenSSH's PACKET_MAX_SIZE)
_LENGTH, _TAG = 4, 16  # bytes before and behind what AES-GCM encrypts (RFC 5647)
_COUNTER = 8  # last bytes of a nonce, which count the packets


class Packets(Packetizer):  # type: ignore[misc]
    """Takes what is there into one buffer, and decrypts packets out of it.

    paramiko's own asks the system three times for each packet, copies it six times and hands it on alone.
    It still does all that is seldom: the handshake, and ciphers that need a second pass for integrity.
    `place` is offered a channel's number and the data for it; False: it is a message like any other.
    """

    place: Callable[[int, memoryview], bool] | None = None

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self._sock, self._into = sock, getattr(sock, "recv_into", None)
        self._buffer: memoryview = memoryview(b"")
        self._at = self._end = 0  # what of the buffer is still to be read
        self._cipher: Any = None
        self._salt, self._count = b"", 0  # of the nonce
        self._number = self._taken = 0
        self._inflate: Callable[[bytes], bytes] | None = None

    def set_inbound_cipher(self, block_engine: Any, *args: Any, **options: Any) -> None:
        """Take up a cipher. From the first one on reads are buffered: before it nothing is read ahead."""
        super().set_inbound_cipher(block_engine, *args, **options)
        if not self._buffer:
            self._buffer = memoryview(bytearray(_ROOM))
        self._cipher, self._taken = None, 0
        if options.get("aead"):
            self._cipher, nonce = block_engine, options["iv_in"]
            self._salt, self._count = nonce[:-_COUNTER], int.from_bytes(nonce[-_COUNTER:], "big")

    def set_inbound_compressor(self, compressor: Any) -> None:
        """Take up a compression."""
        super().set_inbound_compressor(compressor)
        self._inflate = compressor

    def reset_seqno_in(self) -> None:
        """Number messages from 0 again."""
        super().reset_seqno_in()
        self._number = 0

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Return the next `n` bytes. Raises EOFError."""
        if not self._buffer:
            return bytes(super().read_all(n, check_rekey))
        return bytes(self._next(n, check_rekey))

    def read_message(self) -> Any:
        """Return the kind of the next message that is not placed at once, and the message."""
        if not self._cipher:
            return super().read_message()
        while True:
            payload = self._payload()
            number = self._number
            self._number = number + 1 & 0xFFFFFFFF
            if payload[0] != MSG_CHANNEL_DATA or not self._placed(payload):
                message = Message(bytes(payload[1:]))
                message.seqno = number
                return payload[0], message
            if self.need_rekey():
                raise NeedRekeyException

    def _placed(self, payload: memoryview) -> bool:
        """Hand on the data of a channel: its number and the data's length, four bytes each, then the data."""
        size = int.from_bytes(payload[5:9], "big")
        return bool(self.place and self.place(int.from_bytes(payload[1:5], "big"), payload[9 : 9 + size]))

    def _payload(self) -> memoryview:
        """Decrypt the next packet: the length of its padding, its payload, the padding."""
        length = bytes(self._next(_LENGTH, check_rekey=True))
        size = int.from_bytes(length, "big")
        nonce = self._salt + self._count.to_bytes(_COUNTER, "big")
        try:
            packet = self._cipher.decrypt(nonce, self._next(size + _TAG), length)
        except InvalidTag:
            raise SSHException("Mismatched MAC") from None
        self._count = self._count + 1 & 0xFFFFFFFFFFFFFFFF
        self._tell(_LENGTH + size + _TAG)
        payload = memoryview(packet)[1 : size - packet[0]]
        return memoryview(self._inflate(bytes(payload))) if self._inflate else payload

    def _tell(self, size: int) -> None:
        """Count bytes under one key: after so many another one is asked for, and the peer must agree."""
        self._taken += size
        if self._taken >= self.REKEY_BYTES:
            self._trigger_rekey()
        if self._taken >= self.REKEY_BYTES + self.REKEY_BYTES_OVERFLOW_MAX:
            raise SSHException("Remote transport is ignoring rekey requests")

    def _next(self, count: int, check_rekey: bool = False) -> memoryview:
        """Return the next bytes, which stay where they are until the next call."""
        if count > _ROOM:
            raise SSHException(f"a packet of {count} bytes")
        while (left := self._end - self._at) < count:
            if self._at:
                self._buffer[:left] = self._buffer[self._at : self._end]
                self._at, self._end = 0, left
            self._receive(check_rekey)
        self._at += count
        return self._buffer[self._at - count : self._at]

    def _receive(self, check_rekey: bool) -> bool:
        """Take off the socket what is there; False, ten times a second, while nothing comes."""
        if self.handshake_timed_out():
            raise EOFError
        try:
            came = self._take(self._buffer[self._end :])
        except OSError as error:
            if self.closed:
                raise EOFError from error
            if not isinstance(error, TimeoutError) and error.errno != errno.EAGAIN:
                raise
            if check_rekey and self.need_rekey():
                raise NeedRekeyException from None
            self._check_keepalive()
            return False
        if not came:
            raise EOFError
        self._end += came
        return True

    def _take(self, room: memoryview) -> int:
        if self._into:
            return int(self._into(room))
        came = self._sock.recv(len(room))  # a channel, or a forward, as the way to this host
        room[: len(came)] = came
        return len(came)
