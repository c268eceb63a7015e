"""What a channel has brought and nobody has taken yet."""

from __future__ import annotations

from collections import deque

from paramiko.buffered_pipe import BufferedPipe, PipeTimeout

_SMALL = 1 << 12  # bytes below which a piece is put behind the one before it
_FULL = 1 << 16  # bytes of pieces that were put together, at most


class Pieces(BufferedPipe):  # type: ignore[misc]
    """A BufferedPipe that keeps pieces as they came, where paramiko's own copies each byte three times."""

    _buffer: deque[bytes | bytearray | memoryview]

    def __init__(self) -> None:
        super().__init__()
        self._buffer, self._size = deque(), 0

    def feed(self, data: bytes | memoryview) -> None:
        """Add a piece, which must not change any more."""
        if not data:
            return
        with self._lock:
            if self._event is not None:
                self._event.set()
            last = self._buffer[-1] if self._buffer else b""
            if len(data) >= _SMALL:
                self._buffer.append(data)
            elif isinstance(last, bytearray) and len(last) < _FULL:
                last += data
            else:
                self._buffer.append(bytearray(data))
            self._size += len(data)
            self._cv.notify_all()

    def read(self, nbytes: int, timeout: float | None = None) -> bytes:
        """Return at most `nbytes`, b"" at the end. Raises PipeTimeout after `timeout` seconds without any."""
        with self._lock:
            if not self._cv.wait_for(lambda: self._buffer or self._closed, timeout):
                raise PipeTimeout
            return self._taken(nbytes)

    def empty(self) -> bytes:
        """Return all that is there."""
        with self._lock:
            return self._taken(self._size)

    def _taken(self, most: int) -> bytes:
        taken, left = [], most
        while self._buffer and left:
            piece = self._buffer.popleft()
            if len(piece) > left:
                self._buffer.appendleft(piece[left:])
                piece = piece[:left]
            taken.append(piece)
            left -= len(piece)
        self._size -= most - left
        if not self._buffer and self._event is not None and not self._closed:
            self._event.clear()
        return b"".join(taken)

    def __len__(self) -> int:
        return self._size
