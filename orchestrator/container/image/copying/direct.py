"""A copy that does not go through here: the account on one host reaches the other by its own ssh."""

from __future__ import annotations

import time

from orchestrator.container.image.copying.cargo import Cargo
from orchestrator.container.image.copying.packing import choose, packer
from orchestrator.container.image.copying.route import UNSAVED, Arrived, unloaded, unsaved
from orchestrator.container.image.copying.store import Store
from orchestrator.errors import HostError, OrchError
from orchestrator.hosts.command import Script, for_any_shell
from orchestrator.hosts.ssh_config import resolve
from orchestrator.inventory import Host
from orchestrator.render import render

LONGEST = 6 * 3600.0
"""Seconds for one copy."""

_SSH = (
    "ssh",
    "-a",
    "-x",
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "ConnectTimeout=20",
)
"""No agent, no forward, no question: what the account there is allowed by itself."""


def copy_direct(source: Store, what: Cargo, place: Arrived) -> None:
    """Bring an image from host to host; what becomes of it is written into `place`."""
    began = time.monotonic()
    try:
        _copy(source, what, place)
    except OrchError as error:
        place.error = error
    place.seconds = time.monotonic() - began


def _copy(source: Store, what: Cargo, place: Arrived) -> None:
    assert isinstance(place.end, Store)
    place.how = choose([source.report, place.end.report], local=False)
    ssh = (*_SSH, *_route(place.end.machine.host, place.end.report.account))
    script = render(
        "container/image_direct.sh.j2",
        read=source.reading(what),
        pack=packer(place.how, source.report),
        ssh=ssh,
        line=for_any_shell(place.end.load(place.how)),
    )
    # It asks in so far as it ends there when nobody waits for it here any more.
    said = source.machine.ask(Script("image copy", script, asks=True), deadline=LONGEST).text
    if said.startswith("unreached "):
        raise _unreached(source.title, place.end.title, said.partition(" ")[2].strip())
    words, _, status = said.rpartition("status ")
    if UNSAVED in words:
        raise unsaved(source, what, words)
    if status.strip() != "0":
        raise unloaded(place.end, words)
    place.end.settle(what, words)


def _route(host: Host, account: str) -> tuple[str, ...]:
    """Return the words that name a host to another one's ssh: its address, as this machine knows it."""
    route = resolve(host.address, user=host.user, port=host.port, args=(*host.common_args, *host.extra_args))
    return ("-p", str(route.port), "-l", account or route.user, "--", route.address)


def _unreached(source: str, target: str, why: str) -> HostError:
    return HostError(
        f"your account there can't reach {target} by ssh on its own: {why or 'no answer'}",
        where=source,
        hint="Leave --direct out: the copy then goes through here.",
    )
