"""Bringing a bundle to a host: one tar stream into a part folder, which is renamed when it is whole."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from orchestrator.errors import HostError, LostConnection
from orchestrator.files.pouring import answer, pour
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Script, on_host
from orchestrator.render import render
from orchestrator.run.bundle import Bundle
from orchestrator.units import size

_BLOCK = 4096  # bytes that a small file takes on most file systems


def upload(
    machine: Machine, place: str, bundle: Bundle, *, told: Callable[[int], None] = lambda sent: None
) -> None:
    """Bring a bundle to `place` (the project's folder on the host; may start with `~/`).

    Nothing happens where it is whole already. `told` hears how many bytes of the stream are sent so far.
    Raises HostError (with the space needed when the disk is full), LostConnection, and Changed when a
    file changed since it was collected; an upload that failed leaves nothing that looks whole.
    """
    token = secrets.token_hex(8)
    end = f".orch-end-{token}"
    try:
        with machine.stream(_script(place, bundle, token, end)) as stream:
            said = answer(stream)
            if said == "go":
                said = pour(stream, bundle.tar(end), told)
            words = stream.read_error().decode("utf-8", "replace").strip()
    except LostConnection as error:
        raise _cut_off(error.message, machine.host.name) from error
    _judge(said, words, machine.host.name, f"{place}/bundles", bundle)


def _script(place: str, bundle: Bundle, token: str, end: str) -> Script:
    text = render(
        "run/bundle.sh.j2",
        place=on_host(place).text,
        digest=bundle.digest,
        token=token,
        end=end,
        needed_kb=_space(bundle) // 1024,
    )
    return Script("bundle", text)


def _space(bundle: Bundle) -> int:
    return sum(-(-entry.size // _BLOCK) * _BLOCK for entry in bundle.entries)


def _judge(said: str, words: str, host: str, place: str, bundle: Bundle) -> None:
    how, _, rest = said.partition(" ")
    if how in ("whole", "there"):
        return
    if how == "full":
        free = f", {size(int(rest) * 1024)} free" if rest.strip().isdigit() else ""
        raise HostError(
            f"no space left on device: the code needs {size(_space(bundle))}{free} at {place}", where=host
        )
    if how == "failed":
        raise HostError(f"the code could not be placed in {place}: {rest}", where=host)
    raise _cut_off(words, host)


def _cut_off(words: str, host: str) -> LostConnection:
    message = f"the upload of the code was cut off{f': {words}' if words else ''}"
    return LostConnection(message, where=host, hint="Nothing was started: try again.")
