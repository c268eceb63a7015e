"""What a host says to a launch that it refuses, as errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.container.ready import no_environment
from orchestrator.errors import Busy, HostError, OrchError, Refused
from orchestrator.inventory import Host

if TYPE_CHECKING:
    from orchestrator.run.launch import Order


class NeedsBundle(OrchError):
    """The host does not hold the code yet: upload it and launch again."""


class Unplaced(HostError):
    """The host could not place the run: nothing of it was started, or is there."""


class Taken(Busy):
    """Another run has this one's id; nothing was done."""


def refusal(how: str, why: str, host: Host, order: Order) -> OrchError:
    """Return the error for an answer of the launch script that is no start; `why` is what it said of it."""
    first, where = why.strip().split("\n")[-1].strip(), host.name
    if how == "need-bundle":
        return NeedsBundle("the code is not there", where=where, hint="Try again.")
    if how in ("no-environment", "unreadable", "not-ready"):
        return no_environment(host, how, why)
    if how == "deploying":
        by = first or "deploy or down"
        return Busy(f"a {by} is going on", where=where, hint="Try again when it is done.")
    if how == "busy":
        return Busy(
            f"no free GPU for {_wish(order.spec.gpus)}",
            where=where,
            hint="See who holds what: orch gpu-status; or take part in one with --share.",
        )
    if how == "no-gpu":
        return Unplaced(f"no usable GPU: {first}", where=where, hint=f"See: orch doctor {where}")
    if how == "named":
        hint = f"See it: orch tail {first}; end it: orch stop {first}"
        if not order.spec.service:  # its verb has no --again
            hint += "; or start another beside it: --again."
        return Busy(f"run {first} lives already under the name {order.spec.name}", where=where, hint=hint)
    if order.takes and how in ("lives", "resumed", "no-work"):
        return not_resumable(how, first, order.takes.run, where)
    if how == "gone":
        message = f"the record of run {order.spec.run} was deleted or closed as soon as it began: {first}"
        hint = f"See whether it lives: orch ps {where}; end it: orch stop {order.spec.run}"
        return HostError(message, where=where, hint=hint)
    if how == "withdrawn":
        return Unplaced("its launch was taken back before it began", where=where)
    if how == "exists":
        return Taken(f"run {order.spec.run} exists already", where=where, hint="Try again.")
    room = (
        f"Make room there; old runs go by: orch ps --prune 30d {where}" if "No space left" in first else None
    )
    return Unplaced(f"the run could not be placed: {first}", where=where, hint=room)


def not_resumable(how: str, by: str, run: str, where: str) -> OrchError:
    """Return the error for a run whose work can't be taken over: it lives, went on (`by`), or has none."""
    if how == "lives":
        return Busy(f"run {run} still runs", where=where, hint=f"End it first: orch stop {run}")
    if how == "resumed":
        return Refused(
            f"run {run} goes on as {by} already", where=where, hint=f"Resume that one: orch resume {by}"
        )
    went = f"went on with run {by}" if by else "is gone"
    hint = f"Resume that one: orch resume {by}" if by else f"Start it from the beginning: orch rerun {run}"
    return Unplaced(f"the work of run {run} {went}", where=where, hint=hint)


def _wish(gpus: str) -> str:
    if gpus.startswith("ids:"):
        return f"--gpu-ids {gpus[4:]}"
    return f"--gpus {gpus}" if gpus else "the run"
