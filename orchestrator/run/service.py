"""Services: TensorBoard and Jupyter, which run as runs of a kind of their own (templates/service/)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator import __version__
from orchestrator.container.identity import Identity, caller
from orchestrator.inventory import Host
from orchestrator.render import templates_root
from orchestrator.run.ids import new_id
from orchestrator.run.launch import Order
from orchestrator.run.record import Record
from orchestrator.run.spec import RunSpec
from orchestrator.units import duration, spell

if TYPE_CHECKING:
    from orchestrator.run.code.bundle import Bundle

TITLES = {"tensorboard": "TensorBoard", "jupyter": "Jupyter"}
"""The kinds, and what people call them."""

TOKEN = "token"
"""The file in the worker's folder that holds what opens Jupyter."""

_SERVE = ("python3", "serve.py")
_IDLE = "--idle="


@dataclass(frozen=True)
class Service:
    """A service that is wanted on a host: `words` say what it shows. `idle`: seconds, 0 for never."""

    kind: str
    host: Host
    identity: Identity
    words: tuple[str, ...] = ()
    idle: float = 0
    from_here: bool = True  # it is for the project of the identity's folder

    @property
    def title(self) -> str:
        """What people call it."""
        return TITLES[self.kind]

    @property
    def pattern(self) -> str:
        """A shell pattern for the ids of such runs."""
        return f"*-{self.kind}-????"

    @property
    def argv(self) -> tuple[str, ...]:
        """The command."""
        idle = (f"{_IDLE}{self.idle:g}",) if self.idle else ()
        return (*_SERVE, self.kind, *idle, *self.words)

    def is_this(self, spec: RunSpec) -> bool:
        """Whether a run serves the same; when it ends for want of use may be another matter."""
        if (spec.kind, spec.project) != (self.kind, self.identity.project.name):
            return False
        return _shown(spec.argv) == _shown(self.argv)

    def order(self, bundle: Bundle) -> Order:
        """Return the order to start it. It takes no GPU."""
        spec = RunSpec(
            run=new_id(self.kind),
            argv=self.argv,
            hosts=(self.host.name,),
            person=self.identity.person.name,
            project=self.identity.project.name,
            bundle=bundle.digest,
            name=self.kind,
            gpus="none",
            by=caller(),
            asked=time.time(),
            orch=__version__,
            kind=self.kind,
            idle=self.idle,
        )
        place, alone = self.identity.place(self.host), self.kind == "jupyter"
        return Order(spec, place, identity=self.identity, from_here=self.from_here, again=not alone)


def _shown(argv: Sequence[str]) -> frozenset[str]:
    return frozenset(word for word in argv if not word.startswith(_IDLE))


def service_bundle() -> Bundle:
    """Return what runs a service on a host, as the code to send."""
    from orchestrator.run.code.shipped import shipped

    return shipped(templates_root().joinpath("service"), folder=False)


def port_of(record: Record) -> int | None:
    """Return the port of 127.0.0.1 on which a service answers; None where it doesn't yet."""
    port = record.service.get("port")
    return port if isinstance(port, int) and 0 < port < 65536 else None


def use_words(record: Record) -> str:
    """Return when a service was last used, to about a minute; empty where it doesn't answer yet."""
    used: Any = record.service.get("used")
    if not isinstance(used, int | float):
        return ""
    ends = f", ends after {spell(record.spec.idle)} without" if record.spec.idle else ""
    return f"last used {duration(max(0.0, record.ground.now - used))} ago{ends}"
