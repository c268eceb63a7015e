"""What the hosts of one deploy share: the same recipe becomes the same packages on all of them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from orchestrator.container.deploy import Deploy
from orchestrator.container.docker import DockerDeploy
from orchestrator.container.image.pins import Pins


def share_packages(deploys: Sequence[Deploy]) -> tuple[list[Deploy], list[DockerDeploy]]:
    """Have deploys that build one recipe on several hosts build the same versions of its packages.

    Returns the deploys to carry out, and those whose host has such an image: they are to be asked for its
    list (`give_packages`) before the others begin.
    """
    same: dict[str, list[DockerDeploy]] = defaultdict(list)
    for deploy in deploys:
        if isinstance(deploy, DockerDeploy) and deploy.plan.recipe.resolves:
            same[deploy.plan.recipe.digest].append(deploy)
    several = {
        d: Pins() for d, them in same.items() if len(them) > 1 and any(x.plan.image.build for x in them)
    }
    shared: list[Deploy] = []
    holders: dict[str, DockerDeploy] = {}
    for deploy in deploys:
        recipe = deploy.plan.recipe.digest if isinstance(deploy, DockerDeploy) else ""
        if isinstance(deploy, DockerDeploy) and recipe in several:
            deploy = dataclasses.replace(deploy, pins=several[recipe])  # noqa: PLW2901
            if not _builds(deploy):
                holders.setdefault(recipe, deploy)
        shared.append(deploy)
    return [d for d in shared if not d.unchanged], list(holders.values())


def _builds(deploy: DockerDeploy) -> bool:
    return deploy.plan.image.build
