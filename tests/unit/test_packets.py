"""Packets off a socket, whatever pieces they come in, and what a channel keeps of them."""

from __future__ import annotations

import itertools
import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from paramiko.buffered_pipe import PipeTimeout
from paramiko.packet import NeedRekeyException
from paramiko.ssh_exception import SSHException

from orchestrator.hosts import packets
from orchestrator.hosts.packets import Packets
from orchestrator.hosts.pieces import Pieces

DATA, OTHER = 94, 98  # SSH_MSG_CHANNEL_DATA, _REQUEST
KEY, NONCE = bytes(range(16)), b"salt" + b"\xff" * 7 + b"\xfe"


def message(kind: int, channel: int, data: bytes) -> bytes:
    return struct.pack(">BII", kind, channel, len(data)) + data


def encrypted(messages: list[bytes], key: bytes = KEY) -> bytes:
    """What a peer sends; the count in the nonce is about to begin anew."""
    sent, count = b"", int.from_bytes(NONCE[4:], "big")
    for number, payload in enumerate(messages):
        padding = 4 + -(len(payload) + 5) % 16
        length = struct.pack(">I", len(payload) + padding + 1)
        nonce = NONCE[:4] + ((count + number) % (1 << 64)).to_bytes(8, "big")
        sent += length + AESGCM(key).encrypt(nonce, bytes([padding]) + payload + b"\0" * padding, length)
    return sent


class Line:
    """A socket on which bytes come in pieces, with moments between them in which nothing does."""

    def __init__(self, data: bytes, sizes: Iterator[int]) -> None:
        self.data, self.sizes = data, sizes

    def recv(self, most: int) -> bytes:
        size = next(self.sizes)
        if size == 0 and self.data:
            raise TimeoutError
        piece, self.data = self.data[: min(size, most)], self.data[min(size, most) :]
        return piece


class IntoLine(Line):
    """The same with what real sockets have."""

    def recv_into(self, room: memoryview) -> int:
        piece = self.recv(len(room))
        room[: len(piece)] = piece
        return len(piece)


def reading(line: Line, key: bytes = KEY) -> Packets:
    made = Packets(line)
    made.set_inbound_cipher(AESGCM(key), 16, None, 16, None, aead=True, iv_in=NONCE)
    return made


messages = st.lists(
    st.tuples(st.sampled_from([DATA, OTHER]), st.integers(0, 2), st.binary(max_size=200)), max_size=12
)


@settings(max_examples=200, deadline=None)
@given(messages, st.lists(st.integers(0, 300), min_size=1).filter(any), st.sampled_from([Line, IntoLine]))
def test_every_message_comes_once_in_order(
    sent: list[tuple[int, int, bytes]], sizes: list[int], kind: type[Line]
) -> None:
    """Data of channel 0 is placed, that of others comes as messages, as does all else."""
    came: list[tuple[int, int, bytes]] = []

    def place(channel: int, data: memoryview) -> bool:
        if channel == 0:
            came.append((DATA, channel, bytes(data)))
        return channel == 0

    reader = reading(kind(encrypted([message(*each) for each in sent]), itertools.cycle(sizes)))
    reader.place = place
    for _ in range(sum(1 for number, channel, _ in sent if (number, channel) != (DATA, 0))):
        what, said = reader.read_message()
        came.append((what, said.get_int(), said.get_binary()))
        assert said.seqno == len(came) - 1
    with pytest.raises(EOFError):
        reader.read_message()
    assert came == sent


def test_a_packet_that_was_tampered_with_is_no_message() -> None:
    sent = bytearray(encrypted([message(OTHER, 1, b"fine"), message(OTHER, 1, b"not so")]))
    sent[-20] ^= 1
    reader = reading(IntoLine(bytes(sent), itertools.repeat(1000)))
    assert reader.read_message()[0] == OTHER
    with pytest.raises(SSHException, match="Mismatched MAC"):
        reader.read_message()


def test_a_length_that_no_packet_has_is_refused() -> None:
    reader = reading(IntoLine(b"\x7f" * 1000, itertools.repeat(1000)))
    with pytest.raises(SSHException, match="a packet of 2139062159 bytes"):
        reader.read_message()


def test_a_new_key_holds_for_what_is_in_the_buffer_already() -> None:
    """Whoever sends goes on under the new key at once."""
    new = KEY[::-1]
    sent = encrypted([message(OTHER, 1, b"old")]) + encrypted([message(OTHER, 2, b"new")], new)
    reader = reading(IntoLine(sent, itertools.repeat(1000)))
    assert reader.read_message()[1].get_int() == 1
    reader.set_inbound_cipher(AESGCM(new), 16, None, 16, None, aead=True, iv_in=NONCE)
    assert reader.read_message()[1].get_int() == 2


def test_a_new_key_is_asked_for_among_data_and_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads must be told, though there is no message; a peer that doesn't agree is left."""
    monkeypatch.setattr(Packets, "REKEY_BYTES", 100)
    monkeypatch.setattr(Packets, "REKEY_BYTES_OVERFLOW_MAX", 100)
    line = IntoLine(encrypted([message(DATA, 0, b"x" * 40)] * 3), iter([168, 0, 1000]))
    reader = reading(line)
    reader.place = lambda channel, data: True
    for _ in range(2):  # after the data, and while nothing comes
        with pytest.raises(NeedRekeyException):
            reader.read_message()
    with pytest.raises(SSHException, match="ignoring rekey"):
        reader.read_message()


pieces = st.lists(st.integers(0, 9000) | st.sampled_from([1 << 12, 1 << 16, (1 << 16) + 1]), max_size=30)


@settings(max_examples=100, deadline=None)
@given(pieces, st.lists(st.integers(1, 1 << 17), min_size=1))
def test_pieces_are_taken_as_they_came(sizes: list[int], takes: list[int]) -> None:
    kept, came, taken = Pieces(), b"", b""
    for size, most in zip(sizes, itertools.cycle(takes), strict=False):
        data = bytes([size % 251]) * size
        kept.feed(memoryview(data))
        came += data
        if size % 2:
            taken += kept.read(most, 0.0)
        assert len(kept) == len(came) - len(taken)
        assert kept.read_ready() == (len(kept) > 0)
    assert taken + kept.empty() == came
    kept.close()
    assert kept.read(10) == b""


def test_nothing_there_is_no_end() -> None:
    with pytest.raises(PipeTimeout):
        Pieces().read(10, 0.01)


def test_single_bytes_take_no_more_room_than_many() -> None:
    """A host may send each byte alone while nobody reads: two megabytes are let come."""
    kept = Pieces()
    tracemalloc.start()
    for _ in range(200_000):
        kept.feed(b"x")
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert len(kept) == 200_000


def test_a_read_takes_no_more_than_the_buffer_holds() -> None:
    data = bytes(1 << 20)
    reader = reading(IntoLine(encrypted([message(DATA, 0, data[: 1 << 15])] * 32), itertools.repeat(1 << 30)))
    placed: list[memoryview] = []
    reader.place = lambda channel, piece: bool(placed.append(piece) or True)
    with pytest.raises(EOFError):
        reader.read_message()
    assert b"".join(placed) == data
    assert len(reader._buffer) == packets._ROOM
