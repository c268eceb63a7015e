"""What a deploy would do to one host, as a value."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from orchestrator.container.action import KEEP
from orchestrator.container.difference import Difference
from orchestrator.container.image.recipe import Recipe
from orchestrator.container.spec import ContainerSpec
from orchestrator.facts.docker import Container
from orchestrator.facts.place import LiveRun


@dataclass(frozen=True)
class ImageSteps:
    """What has to be had before the container: nothing where the image is there."""

    pull: bool = False
    build: bool = False
    build_base: bool = False  # of the team's own Dockerfile


@dataclass(frozen=True)
class Plan:
    """The steps of one host's deploy."""

    spec: ContainerSpec
    recipe: Recipe
    tag: str  # the image's name on the host
    port: int
    action: str
    old: Container | None = None  # what has our name now
    live: tuple[LiveRun, ...] = ()  # in `old`
    image: ImageSteps = ImageSteps()
    keys: tuple[str, ...] = ()  # lines of authorized_keys
    keys_change: bool = False
    leftovers: tuple[Container, ...] = ()  # replaced before, without a run now
    changes: tuple[Difference, ...] = ()
    by_hand: tuple[Difference, ...] = ()  # what somebody changed on the host since the last deploy
    notes: tuple[str, ...] = ()

    @property
    def unchanged(self) -> bool:
        """Whether nothing is to be done."""
        return self.action == KEEP and not self.keys_change and not self.leftovers

    def stands(self, now: Plan) -> bool:
        """Whether a plan made anew is the same.

        The image may be there by now, whose build takes the tag, and runs may have ended.
        """
        then = dataclasses.replace(self, image=now.image, live=now.live, by_hand=now.by_hand, notes=now.notes)
        by_hand = {d for d in now.by_hand if not (self.image.build and d.field == "image")}
        fewer = by_hand <= set(self.by_hand) and {r.run for r in now.live} <= {r.run for r in self.live}
        return then == now and fewer
