"""From a log's bytes to what a person reads. However the bytes were cut into pieces, the same comes out."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from orchestrator.logs.line import Cells, final, moves, plain

PART = 1 << 16
"""Characters of a line without an end that are shown as a part of it."""

NOHUP = b"nohup: ignoring input\n"
"""What nohup says first of all. It is in the log, and means nothing to a person."""

COLOURS = (36, 33, 35, 32, 34, 31)
"""SGR colours for hosts, in turn: cyan, yellow, magenta, green, blue, red."""


class View:
    """Turns the pieces of one worker's log into text.

    `through`: for one worker on a terminal, which does itself what `\\r` and `\\b` say. Otherwise whole
    lines come out in their final state, each after `prefix`; a line longer than PART comes in parts.
    `beginning`: the first byte is the log's first, so that nohup's line may be there.
    """

    def __init__(self, *, prefix: str = "", through: bool = False, beginning: bool = True) -> None:
        self.prefix, self.through = prefix, through
        self._before = prefix.encode()
        self._head: bytes | None = b"" if beginning else None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""  # of a line whose end is still to come
        self._cells = Cells()  # what of that line is too long to be kept as it came
        self._parts = 0  # of that line, given out already

    def feed(self, data: bytes) -> str:
        """Return what the next bytes of the log make visible."""
        if self._head is not None:
            data = self._without_nohup(data)
        if self.through:
            return self._decode(data)
        pieces = (data[at : at + PART] for at in range(0, len(data), PART))
        return "".join(self._lines(self._decode(piece)) for piece in pieces)

    def shown(self, data: bytes) -> bytes:
        """Return what `feed` does, encoded; where lines are plain, as most are, without decoding them."""
        start = data.find(b"\n") + 1
        if self.through or not start:
            return self.feed(data).encode()
        shown: list[bytes | memoryview] = [self.feed(data[:start]).encode()]
        while end := data.rfind(b"\n", start, start + PART) + 1:
            shown += self._plain(data[start:end])
            start = end
        return b"".join([*shown, self.feed(data[start:]).encode()])

    def _plain(self, lines: bytes) -> list[bytes | memoryview]:
        """Return whole lines, none of them longer than PART, that begin a line."""
        if not plain(lines):
            return [self.feed(lines).encode()]
        if not self._before:
            return [lines]
        prefixed = lines.replace(b"\n", b"\n" + self._before)
        return [self._before, memoryview(prefixed)[: -len(self._before)]]

    def end(self) -> str:
        """Return what was held back, with a line end, at the end of the log."""
        held, self._head = self._head or b"", None
        text = self._decode(held, final=True)
        if self.through:
            return text
        shown = self._lines(text)
        if self._rest or len(self._cells) or self._parts:
            shown += self._last_part()
        return shown

    def _without_nohup(self, data: bytes) -> bytes:
        head = (self._head or b"") + data
        if len(head) < len(NOHUP) and NOHUP.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(NOHUP)

    def _lines(self, text: str) -> str:
        """Take in at most PART characters: only the first line in them can be longer than PART."""
        first, found, others = text.partition("\n")
        self._rest += first
        shown = self._overflow()
        if found:
            shown += self._last_part()
            whole, end, self._rest = others.rpartition("\n")
            if end:
                shown += self._whole(whole)
        return shown

    def _whole(self, text: str) -> str:
        """Return complete lines, of which the last one's end is missing in `text`."""
        if moves(text):
            text = "\n".join(map(final, text.split("\n")))
        if self.prefix:
            text = text.replace("\n", "\n" + self.prefix)
        return f"{self.prefix}{text}\n"

    def _overflow(self) -> str:
        """Give out parts of the present line, as far as it is longer than PART."""
        shown = ""
        while len(self._rest) >= PART:
            self._cells.feed(self._rest[:PART])
            self._rest = self._rest[PART:]
            if len(self._cells) >= PART:
                shown += self._part(self._cells.take(), "")
                self._parts += 1
        return shown

    def _last_part(self) -> str:
        if len(self._cells):
            self._cells.feed(self._rest)
            text = self._cells.take()
        else:
            text = final(self._rest)
        shown = self._part(text, "\n")
        self._rest, self._parts = "", 0
        return shown

    def _part(self, text: str, end: str) -> str:
        """Return a part of a line. With a prefix each part is a line; `+` says that it goes on."""
        if not self.prefix:
            return text + end
        prefix = self.prefix if not self._parts else re.sub(r"\|(?=[^|]*\Z)", "+", self.prefix)
        return f"{prefix}{text}\n"


def prefixes(hosts: Sequence[str], *, colour: bool = False) -> dict[str, str]:
    """Return what stands before each host's lines, all of one width; nothing where there is one host."""
    if len(hosts) < 2:
        return dict.fromkeys(hosts, "")
    width = max(map(len, hosts))
    plain = {host: f"{host:<{width}} | " for host in hosts}
    if not colour:
        return plain
    return {
        host: f"\x1b[{COLOURS[number % len(COLOURS)]}m{plain[host]}\x1b[0m"
        for number, host in enumerate(hosts)
    }


def last_lines(tail: bytes, count: int, *, beginning: bool = False) -> list[str]:
    """Return the last lines of a log in their final state, given the bytes of its end.

    `beginning`: the bytes are the whole log; else the first line may be cut, and goes when it is not needed.
    """
    view = View(beginning=beginning)
    lines = (view.feed(tail) + view.end()).split("\n")[:-1]
    return lines[len(lines) - count :] if 0 < count < len(lines) else lines if count else []
