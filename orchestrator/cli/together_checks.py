"""What the hosts of one run are asked before it: what they lack, whether they are alike and meet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from orchestrator.cli.app import App, tell
from orchestrator.cli.launching import Code, offer_deploy
from orchestrator.cli.waiting import WAITING
from orchestrator.errors import OrchError

if TYPE_CHECKING:
    from orchestrator.hosts.base import Machine
    from orchestrator.hosts.fleet import Outcome
    from orchestrator.inventory import Host
    from orchestrator.run.checks import Look
    from orchestrator.run.cluster import Cluster
    from orchestrator.run.together import Party


def made_ready(app: App, party: Party, cluster: Cluster, code: Code) -> tuple[list[Look], bool]:
    """Look at all hosts, after a deploy where one is missing and wanted; send the code where it is not.

    Returns the looks by rank, and whether code was sent. Raises OrchError.
    """
    from orchestrator.cli.together import all_values
    from orchestrator.container.ready import NoEnvironment

    outcomes = _looked(app, party, cluster)
    bare = [o.host for o in outcomes if isinstance(o.error, NoEnvironment)]
    if bare and len(bare) == sum(1 for o in outcomes if o.error) and offer_deploy(app, bare):
        outcomes = _looked(app, party, cluster)
    looks = all_values(outcomes)
    lacking = [host for host, look in zip(party.hosts, looks, strict=True) if not look.bundle]
    if lacking:
        _send(app, party, lacking, code)
    return looks, bool(lacking)


def _looked(app: App, party: Party, cluster: Cluster) -> list[Outcome[Look]]:
    from orchestrator.run.checks import look

    def work(machine: Machine) -> Look:
        rank = party.rank(machine.host.name)
        return look(machine, party.orders[rank], cluster.members[rank], cluster)

    return app.each(party.hosts, work)


def _send(app: App, party: Party, hosts: Sequence[Host], code: Code) -> None:
    """Send the code to several hosts at once."""
    from orchestrator.cli.progress import bytes_sent
    from orchestrator.cli.together import all_values
    from orchestrator.inventory.folded import folded
    from orchestrator.run.code.upload import upload

    bundle = code.whole()
    what = f"{folded(h.name for h in hosts)}: sending code"
    with bytes_sent(what, bundle.size * len(hosts)) as sent:
        teller = _adding_up(sent)

        def work(machine: Machine) -> bool:
            name = machine.host.name
            upload(machine, party.order(name).place, bundle, told=teller(name))
            return True

        all_values(app.each(hosts, work))


def _adding_up(sent: Callable[[int], None]) -> Callable[[str], Callable[[int], None]]:
    """Return what makes for each host a hearer of its count; `sent` hears the sum."""
    counts: dict[str, int] = {}
    lock = threading.Lock()

    def teller(host: str) -> Callable[[int], None]:
        def hear(count: int) -> None:
            with lock:
                counts[host] = count
                sent(sum(counts.values()))

        return hear

    return teller


def check(app: App, party: Party, cluster: Cluster, looks: Sequence[Look], *, quiet: bool) -> None:
    """Raise OrchError where the environments differ, clocks are apart, or workers can't reach each other."""
    from orchestrator.run.checks import compare, notes, reach

    _refuse(compare(looks))
    for note in () if quiet else notes(looks):
        app.say(f"note: {note}")
    with WAITING.on(host.name for host in party.hosts):
        machines = {host.name: app.machine(host) for host in party.hosts}
        matrix = reach(machines, looks, cluster)
    _refuse(matrix.complaints)
    if not quiet:
        app.say(matrix.line)


def _refuse(complaints: Sequence[OrchError]) -> None:
    """Tell all complaints but the first, which is raised."""
    for complaint in complaints[1:]:
        tell(complaint)
    if complaints:
        raise complaints[0]
