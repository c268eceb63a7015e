"""Copying one file over a stream: the same for every machine."""

from __future__ import annotations

import io
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from orchestrator.errors import HostError, LostConnection
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script, on_host

_PIECE = 1 << 18


def put(machine: Machine, data: bytes | BinaryIO, path: str, mode: int) -> None:
    """Write a file whole or not at all. Raises HostError with the host's own words."""
    with _measurable(data) as source:
        start = source.tell()
        size = source.seek(0, io.SEEK_END) - start
        source.seek(start)
        with machine.stream(_put_script(path, size, mode)) as stream:
            lost = _send(stream, source, size)
            _finish(machine, stream, f"{path} can't be written")
            if lost:
                raise lost


@contextmanager
def _measurable(data: bytes | BinaryIO) -> Iterator[BinaryIO]:
    """Give a file whose size can be told before it is sent: a pipe is copied first."""
    if isinstance(data, bytes):
        yield io.BytesIO(data)
    elif data.seekable():
        yield data
    else:
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(data, copy, _PIECE)
            copy.seek(0)
            yield copy


def _put_script(path: str, size: int, mode: int) -> Script:
    """Take stdin into a part file; only one of the right size gets the name, so a cut leaves nothing."""
    target = on_host(path).text
    part = f"{target}.{secrets.token_hex(4)}.part"
    return Script(
        "put",
        f"umask 077; LC_ALL=C; export LC_ALL; [ ! -d {target} ] || {{ echo 'is a folder' >&2; exit 1; }}; "
        f"cat > {part} && [ $(($(wc -c < {part}))) -eq {size} ] && chmod {mode:o} {part} "
        f"&& mv -f {part} {target} || {{ rm -f {part}; exit 1; }}",
    )


def _send(stream: Stream, source: BinaryIO, size: int) -> LostConnection | None:
    """Send `size` bytes; an error is returned: the command may have ended by itself and say why."""
    try:
        while size > 0 and (piece := source.read(min(_PIECE, size))):
            stream.write(piece)
            size -= len(piece)
        stream.close_stdin()
    except LostConnection as error:
        return error
    return None


def get(machine: Machine, path: str, into: BinaryIO) -> None:
    """Copy a host's file into `into`. Raises HostError when it can't be read whole."""
    target = on_host(path).text
    with machine.stream(Script("get", f"LC_ALL=C; export LC_ALL; exec cat < {target}")) as stream:
        stream.close_stdin()
        while piece := stream.read():
            into.write(piece)
        _finish(machine, stream, f"{path} can't be read")


def _finish(machine: Machine, stream: Stream, failure: str) -> None:
    while stream.read():  # to the end, so that the status and stderr are there
        pass
    status = stream.status()
    if status is None:
        raise LostConnection(f"{failure}: the connection went", where=machine.host.name)
    if status:
        said = stream.read_error().decode("utf-8", "replace").strip().splitlines()
        raise HostError(
            f"{failure}: {_tail(said[-1]) if said else 'the copy is not whole'}", where=machine.host.name
        )


def _tail(line: str) -> str:
    """Return the end of a complaint: of `/bin/sh: 1: cannot create x: Permission denied` the reason."""
    return line.rpartition(": ")[2].lower() if ": " in line else line
