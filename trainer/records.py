"""Where the records lie in TFRecord files. Knowing that, any record can be read alone: a shuffle is then one
over all records, and the workers share them evenly however many files there are. No TensorFlow.

A record is its length (8 bytes, little-endian), a checksum of it (4), the bytes, and a checksum of those (4).
"""

from __future__ import annotations

import struct
from typing import Iterator, List, Sequence, Tuple

import numpy as np

from .errors import BadInput
from .examples import Records, Spots
from .files import Files

HEADER, FOOTER = 12, 4


def are_in(files: Sequence[str]) -> bool:
    """Whether one of these is a TFRecord file: its first length has the right checksum."""
    return any(proven(start(file)) for file in files)


def start(file: str) -> bytes:
    """What a TFRecord file begins with."""
    with open(file, "rb") as stream:
        return stream.read(HEADER)


def proven(header: bytes) -> bool:
    """Whether the checksum of a length is right."""
    if len(header) < HEADER:
        return False
    crc = checksum(header[:8])
    masked = ((crc >> 15) + (crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == struct.unpack("<I", header[8:])[0]


def checksum(data: bytes) -> int:
    """CRC-32C, bit by bit: only ever of eight bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def index(files: Sequence[str]) -> Records:
    """All records of these files; only their lengths are read. Raises BadInput for a file that is cut."""
    numbers: List[int] = []
    spots: List[Tuple[int, int]] = []
    for number, file in enumerate(files):
        found = list(in_file(file))
        spots += found
        numbers += [number] * len(found)
    offsets, lengths = np.array(spots, np.int64).reshape(-1, 2).T
    return Records(Files(tuple(files)), Spots(np.array(numbers, np.int32), offsets, lengths))


def in_file(file: str) -> Iterator[Tuple[int, int]]:
    """First byte and length of each record of a file. Raises BadInput."""
    with open(file, "rb", buffering=0) as stream:
        end, at = stream.seek(0, 2), 0
        while at < end:
            stream.seek(at)
            header = stream.read(HEADER)
            if (at == 0 and not proven(header)) or len(header) < HEADER:
                raise BadInput(f"--data {file}: {'no TFRecord file' if at == 0 else 'is cut off'}")
            (length,) = struct.unpack("<Q", header[:8])
            if at + HEADER + length + FOOTER > end:
                raise BadInput(f"--data {file}: is cut off in the record at byte {at}")
            yield at + HEADER, length
            at += HEADER + length + FOOTER
