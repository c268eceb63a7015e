"""Going on with what a run left: its work folder is taken over, on its host or on another one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from orchestrator.container.start import answers
from orchestrator.errors import HostError, LostConnection, OrchError
from orchestrator.files.pouring import answer, pour
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Script, on_host, quote
from orchestrator.render import render
from orchestrator.run.launch import Order, Taking
from orchestrator.run.record import Record
from orchestrator.run.refusals import not_resumable
from orchestrator.units import size

_DEADLINE = 300.0
"""Seconds to add up what a work folder holds."""

_CHUNK = 1 << 18


def taking(record: Record, stale: str = "") -> Taking:
    """Return what a launch needs to know of the run that it goes on with."""
    return Taking(record.spec.run, record.host, record.spec.bundle, stale)


@dataclass(frozen=True)
class Claimed:
    """A run that goes on on another host: where its work is, its bytes, and what it is called there."""

    folder: str
    size: int
    staged: str


def claim(source: Machine, host: str, record: Record, order: Order) -> Claimed:
    """Write down on a run's own host that it goes on on `host`, so that nobody else goes on with it too.

    Raises the errors of `not_resumable`.
    """
    text = render(
        "run/claim.sh.j2", place=quote(record.place), takes=order.takes, run=order.spec.run, host=host
    )
    said = answers(source.ask(Script("claim", text), deadline=_DEADLINE).text)
    how, where = said.get("answer", ""), source.host.name
    if how in ("lives", "resumed", "no-work"):
        raise not_resumable(how, said.get("why", ""), record.spec.run, where)
    if how != "taken":
        raise HostError(f"run {record.spec.run} could not be taken over: {said.get('why')}", where=where)
    return Claimed(said["from"], int(said.get("kb") or 0) * 1024, f".staged-{secrets.token_hex(8)}")


def give_back(source: Machine, target: Machine, record: Record, order: Order, staged: str) -> None:
    """Take a claim back: the run did not go on. Never raises a host's error."""
    undo = render("run/unclaim.sh.j2", folder=record.folder, run=order.spec.run)
    with suppress(OrchError):
        source.run(Script("unclaim", undo))
    with suppress(OrchError):
        target.run(Script("unclaim", f"rm -rf {on_host(order.place).text}/runs/{quote(staged)}"))


def copy_work(
    source: Machine,
    target: Machine,
    claimed: Claimed,
    order: Order,
    *,
    told: Callable[[int], None] = lambda sent: None,
) -> Order:
    """Copy the work of a claimed run to another host; return the order that takes it over there.

    `told` hears how many bytes are sent. Raises HostError (no space) and LostConnection.
    """
    assert order.takes
    take = render(
        "run/work_in.sh.j2",
        place=on_host(order.place).text,
        staged=claimed.staged,
        needed_kb=claimed.size // 1024,
    )
    with target.stream(Script("take work", take)) as into:
        said = answer(into)
        if said == "go":
            with source.stream(
                Script("send work", render("run/work_out.sh.j2", folder=claimed.folder))
            ) as out:
                said = pour(into, _pieces(out, source.host.name), told)
    _judge(said, target.host.name, claimed)
    return replace(order, takes=replace(order.takes, staged=claimed.staged))


def _judge(said: str, where: str, claimed: Claimed) -> None:
    how, _, rest = said.partition(" ")
    if how == "full":
        free = f", {size(int(rest) * 1024)} free" if rest.strip().isdigit() else ""
        raise HostError(f"no space left on device: the work is {size(claimed.size)}{free}", where=where)
    if how == "failed":
        raise HostError(f"the work could not be written: {rest}", where=where)
    if how != "whole":
        raise LostConnection("the copy of the work was cut off", where=where, hint="Try again.")


def _pieces(out: Stream, host: str) -> Iterator[bytes]:
    """Yield what comes. Raises LostConnection when it was not all: what was written is thrown away."""
    while data := out.read(_CHUNK):
        yield data
    if out.status():
        said = out.read_error().decode("utf-8", "replace").strip().split("\n")[0]
        raise LostConnection(f"the work could not be read whole: {said}", where=host, hint="Try again.")
