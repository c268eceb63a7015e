"""ssh's way out of a session that answers no more: `~.` at the beginning of a line."""

from __future__ import annotations


class Escape:
    """Takes what is typed, and holds back a `~` that begins a line until it is clear what is meant."""

    def __init__(self) -> None:
        self.left = False  # the person typed ~.
        self._begins, self._held = True, False

    def through(self, typed: bytes) -> bytes:
        """Return what goes on to the host; nothing more comes once the person has left."""
        out = bytearray()
        for byte in typed:
            if self.left:
                break
            out += self._one(bytes((byte,)))
        return bytes(out)

    def _one(self, key: bytes) -> bytes:
        if self._held:
            self._held = False
            self.left = key == b"."
            self._begins = key in b"\r\n"
            return b"" if self.left else key if key == b"~" else b"~" + key
        self._held = self._begins and key == b"~"
        self._begins = key in b"\r\n"
        return b"" if self._held else key
