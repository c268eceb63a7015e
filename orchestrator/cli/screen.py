"""Where pieces of logs become visible: stdout, line by line, or byte by byte."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from select import PIPE_BUF
from typing import TYPE_CHECKING

from orchestrator.cli import colour
from orchestrator.hosts.platform import ready

if TYPE_CHECKING:
    from orchestrator.logs.session import Piece
    from orchestrator.logs.view import View


class Screen:
    """What a person sees of one host's log, or of several hosts': then each line has its host before it."""

    def __init__(self, hosts: Sequence[str], *, raw: bool) -> None:
        from orchestrator.logs.view import prefixes

        self._raw, self._terminal = raw, sys.stdout.isatty()
        self._prefixes = prefixes(hosts, colour=colour.shown(sys.stdout, os.environ))
        self._views: dict[str, View] = {}
        self._last = b""

    def show(self, host: str, piece: Piece) -> None:
        """Show what a piece of a host's log makes visible."""
        if self._raw:
            return self._write(piece.data)
        if piece.fresh and host in self._views:  # the file was truncated or replaced: a new log begins
            self._write(self._views.pop(host).end().encode())
        if host not in self._views:
            from orchestrator.logs.view import View

            through = self._terminal and len(self._prefixes) == 1
            beginning = piece.offset == 0
            self._views[host] = View(prefix=self._prefixes[host], through=through, beginning=beginning)
        return self._write(self._views[host].shown(piece.data))

    def end(self, *, left: bool = False) -> None:
        """Show what was held back of lines without an end. `left`: only what somebody takes at once."""
        for view in self._views.values():
            self._write(view.end().encode(), left=left)
        if self._terminal and self._last not in (b"\n", b""):
            self._write(b"\n", left=left)  # what is said next begins a line of its own

    def _write(self, data: bytes, *, left: bool = False) -> None:
        self._last = data[-1:] or self._last
        sys.stdout.flush()
        view = memoryview(data)
        while view and not (left and not ready((), {1}, 0)):
            view = view[os.write(1, view[:PIPE_BUF] if left else view) :]
