"""One copy: what each place needs, and the way there, through here or direct."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from orchestrator.container.image.copying.cargo import Cargo
from orchestrator.container.image.copying.end import COPY, NAME, End
from orchestrator.container.image.copying.packing import PLAIN, choose
from orchestrator.container.image.copying.spread import Lane, Spread
from orchestrator.errors import HostError, LostConnection, OrchError
from orchestrator.hosts.base import Stream

UNSAVED = "orch: not whole"
"""What the source says behind the engine's own words (image_save.sh.j2)."""


@dataclass
class Arrived:
    """What became of one place: an error, or what was done there; `sent`: bytes on the way, packed."""

    end: End
    did: str = ""
    sent: int = 0
    seconds: float = 0.0
    how: str = PLAIN
    error: OrchError | None = None


def needs(what: Cargo, ends: Sequence[End], *, overwrite: bool) -> list[Arrived]:
    """Say of each place what it needs, or why it can't or must not have the image."""
    found = []
    for end in ends:
        try:
            found.append(Arrived(end, end.need(what, overwrite=overwrite)))
        except OrchError as error:
            found.append(Arrived(end, error=error))
    return found


def copy(source: End, what: Cargo, places: Sequence[Arrived], told: Callable[[int], None]) -> None:
    """Bring an image to those places that need it, all at once; what becomes of each is written into it.

    One that is much slower than the others gets it afterwards, from the source anew.
    """
    for place in places:
        if place.error is None and place.did == NAME:
            _settle(place, what, "")
    todo = [p for p in places if p.error is None and p.did == COPY]
    while todo:
        todo = _round(source, what, todo, told)


def _round(source: End, what: Cargo, places: Sequence[Arrived], told: Callable[[int], None]) -> list[Arrived]:
    """Copy to all of them; return those that were left behind."""
    ends = [p.end for p in places]
    how = choose(
        [source.report, *(e.report for e in ends)],
        local=all(e.machine.host.connection == "local" for e in (source, *ends)),
    )
    began = time.monotonic()
    with contextlib.ExitStack() as open_now:
        reading = open_now.enter_context(source.machine.stream(source.save(what, how)))
        lanes = {id(p): lane for p in places if (lane := _lane(open_now, p, how))}
        total = _Total(told)
        lost = _spread(reading, list(lanes.values()), total)
        cause = _why_unsaved(source, what, reading, lost)
        todo = [(p, lane) for p in places if (lane := lanes.get(id(p))) and not lane.left]
        for place, _ in todo:
            place.sent, place.how, place.error = total.bytes, how, cause
        _all_at_once([functools.partial(_finish, p, what, lane, began) for p, lane in todo])
    return [p for p in places if id(p) in lanes and lanes[id(p)].left]


def _all_at_once(works: Sequence[Callable[[], None]]) -> None:
    """Do all of it, each in a thread: an engine may take long to unpack."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class _Total:
    """How much was read so far."""

    told: Callable[[int], None]
    bytes: int = 0

    def __call__(self, count: int) -> None:
        self.bytes = count
        self.told(count)


def _lane(open_now: contextlib.ExitStack, place: Arrived, how: str) -> Lane | None:
    """Open the way to a place; what keeps it from receiving is its error."""
    try:
        open_now.enter_context(_receiving(place))
        return Lane(open_now.enter_context(place.end.machine.stream(place.end.load(how))))
    except OrchError as error:
        place.error = error
        return None


@contextlib.contextmanager
def _receiving(place: Arrived) -> Iterator[None]:
    """Let a place clear away what it got where that is nothing."""
    with contextlib.suppress(_Nothing), place.end.receiving():
        yield
        if place.error:
            raise _Nothing


class _Nothing(Exception):
    """Nothing whole arrived."""


def _spread(reading: Stream, lanes: Sequence[Lane], told: Callable[[int], None]) -> LostConnection | None:
    try:
        Spread(lanes).run(reading, told)
    except LostConnection as error:
        return error
    return None


def _why_unsaved(source: End, what: Cargo, reading: Stream, lost: LostConnection | None) -> OrchError | None:
    """Return why the source did not give the image whole; None where it did, or nobody took it to its end."""
    if lost:
        return LostConnection("the connection went while the image was read", where=source.title)
    said = reading.read_error().decode("utf-8", "replace")
    return unsaved(source, what, said) if UNSAVED in said else None


def unsaved(source: End, what: Cargo, said: str) -> HostError:
    """Return the error for what an engine said that did not give an image."""
    words = [line for line in said.partition(UNSAVED)[0].splitlines() if line.strip()]
    return HostError(f"{what.title} could not be read: {(words or ['it ended'])[-1]}", where=source.title)


def _finish(place: Arrived, what: Cargo, lane: Lane, began: float) -> None:
    """Hear what a place made of it."""
    _hear(place, what, lane)
    place.seconds = time.monotonic() - began


def _hear(place: Arrived, what: Cargo, lane: Lane) -> None:
    try:
        said, status = _heard(lane.stream)
    except LostConnection:
        place.error = place.error or _cut(place)
        return
    if place.error:
        return
    if status is None or (status == 0 and lane.lost):
        place.error = _cut(place)
    elif status:
        place.error = unloaded(place.end, said)
    else:
        _settle(place, what, said)


def _heard(stream: Stream) -> tuple[str, int | None]:
    said = b""
    while piece := stream.read():
        said = (said + piece)[-65536:]
    return (said + stream.read_error()).decode("utf-8", "replace"), stream.status()


def _cut(place: Arrived) -> LostConnection:
    return LostConnection(
        "the connection went during the copy, and nothing of it is there",
        where=place.end.title,
        hint="Copy it again.",
    )


def unloaded(end: End, said: str) -> HostError:
    """Return the error for what an engine said that did not take an image."""
    if re.search("no space left|quota exceeded", said, re.IGNORECASE):
        return HostError("no space is left there, and nothing of the image is there", where=end.title)
    words = [line for line in said.splitlines() if line.strip()]
    return HostError(f"it took nothing: {(words or ['no word of why'])[-1]}", where=end.title)


def _settle(place: Arrived, what: Cargo, said: str) -> None:
    try:
        place.end.settle(what, said)
    except OrchError as error:
        place.error = error
