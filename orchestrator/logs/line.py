"""What a line looks like after `\\r`, `\\b` and "erase the line" have moved about in it."""

from __future__ import annotations

import re

_TOKENS = re.compile(
    r"(?P<text>[^\r\b\x1b]+)|(?P<back>\r)|(?P<left>\x08+)"
    r"|\x1b\[(?P<erase>[012]?)K|(?P<style>\x1b\[[0-9;]{0,32}m)"
    r"|\x1b\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\x1b"  # other movements: a line of a log has nowhere to go
)
_UNFINISHED = re.compile(r"\x1b(\[[0-9;?]{0,32}[ -/]{0,4})?\Z")
_ERASE = re.compile(r"\x1b\[[012]?K")


def moves(text: str) -> bool:
    """Tell whether anything makes the final state of a line another than its text."""
    return "\r" in text or "\b" in text or ("\x1b" in text and bool(_ERASE.search(text)))


def plain(lines: bytes) -> bool:
    """Tell whether whole lines are what they look like: good UTF-8, in which nothing moves."""
    if b"\r" in lines or b"\b" in lines or b"\x1b" in lines:
        return False
    if lines.isascii():
        return True
    try:
        lines.decode()
    except UnicodeDecodeError:
        return False
    return True


def final(line: str) -> str:
    """Return the last state of a line, as a terminal of any width would show it."""
    if not moves(line.removesuffix("\r")):
        return line.removesuffix("\r")
    cells = Cells()
    cells.feed(line)
    return cells.take()


class Cells:
    """The characters of a line, each with the colours that begin before it, and the place of the cursor."""

    def __init__(self) -> None:
        self._cells: list[str] = []
        self._at = 0
        self._style = ""
        self._held = ""  # the beginning of an escape sequence

    def __len__(self) -> int:
        return len(self._cells)

    def feed(self, text: str) -> None:
        """Write text as a terminal does."""
        text = self._held + text
        cut = _UNFINISHED.search(text)
        self._held = cut.group() if cut else ""
        for token in _TOKENS.finditer(text, 0, len(text) - len(self._held)):
            self._write(token)

    def _write(self, token: re.Match[str]) -> None:
        if token["text"]:
            written = list(token["text"])
            written[0], self._style = self._style + written[0], ""
            self._cells[self._at : self._at + len(written)] = written
            self._at += len(written)
        elif token["back"]:
            self._at = 0
        elif token["left"]:
            self._at = max(0, self._at - len(token["left"]))
        elif token["style"]:
            self._style += token["style"]
        elif token["erase"] is not None:
            self._erase(token["erase"])

    def _erase(self, how: str) -> None:
        if how in ("", "0"):
            del self._cells[self._at :]
        else:
            blank = len(self._cells) if how == "2" else min(self._at + 1, len(self._cells))
            self._cells[:blank] = " " * blank
            while self._cells[self._at :] and self._cells[-1] == " ":
                self._cells.pop()

    def take(self) -> str:
        """Return what stands there, and begin again."""
        text = "".join(self._cells) + self._style
        self._cells, self._at, self._style, self._held = [], 0, "", ""
        return text
