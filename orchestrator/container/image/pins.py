"""One list of packages for one recipe: the first host to build gives it, the others build with it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

_PINNED = re.compile(
    r"[a-z0-9][a-z0-9._-]*==(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?"
    r"(\+[a-z0-9]+([._-][a-z0-9]+)*)?"
)
"""NAME==VERSION as pip takes it (PEP 440): a distribution's own packages may have other versions."""


def pinned(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the packages that can be constraints for pip."""
    return tuple(p for p in packages if _PINNED.fullmatch(p))


@dataclass
class Pins:
    """The list of one recipe. Many threads, one for each host, come for it."""

    _known: tuple[str, ...] | None = None
    _first: threading.Lock = field(default_factory=threading.Lock)

    def give(self, packages: Sequence[str]) -> None:
        """Take a host's list, unless another one was first."""
        if self._known is None:
            self._known = pinned(packages)

    @contextmanager
    def known(self, waits: Callable[[], None]) -> Iterator[tuple[str, ...] | None]:
        """Have the list; None: to be given within the block, while the others wait for its end.

        A host that fails without giving it leaves its place to the next. `waits` is called before a wait.
        """
        if not self._first.acquire(blocking=False):
            waits()
            self._first.acquire()
        found = self._known
        if found is not None:
            self._first.release()
        try:
            yield found
        finally:
            if found is None:
                self._first.release()
