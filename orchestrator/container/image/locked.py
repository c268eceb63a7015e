"""A deploy by Docker or podman that keeps to image.lock: what differs, before and after the build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.container.difference import Difference
from orchestrator.container.engine import Environment
from orchestrator.container.image.build import Built, environment_digest
from orchestrator.container.image.copying.cargo import processor
from orchestrator.container.image.recipe import Recipe
from orchestrator.container.lock import Lock, Locked, refuse
from orchestrator.container.spec import Facts
from orchestrator.errors import ConfigError
from orchestrator.facts.docker import DockerReport, Image
from orchestrator.inventory import Host
from orchestrator.render import digest


@dataclass(frozen=True)
class ImageLock:
    """What image.lock says of the image of one host."""

    path: Path
    locked: Locked
    host: Host

    def check_recipe(self, recipe: Recipe, requirements: Sequence[str]) -> None:
        """Raise ConfigError where something else is to be built."""
        source = recipe.source.digest if recipe.source else ""
        differing = self.locked.recipe_differs(dockerfile_digest(recipe), source, requirements)
        refuse(self.path, self.host.name, list(differing))

    def check_base(self, recipe: Recipe, there: Image | None) -> None:
        """Raise ConfigError where the base to build on is another one, or can't be had."""
        locked = self.locked
        if recipe.source:
            return
        if there and _bare(there.id) != locked.base_id and locked.base_digest not in there.digests:
            words = f"base {recipe.base} {_bare(there.id)[:12]} ({locked.base_id[:12]} locked)"
            refuse(self.path, self.host.name, [words])
        if not there and not locked.base_digest:
            raise ConfigError(
                f"the base {recipe.base} ({locked.base_id[:12]}) is not here, nor in a registry",
                where=self.host.name,
                hint=f"Bring it from a host that has it: orch image copy {recipe.base} FROM {self.host.name}",
            )

    def env(self, recipe: Recipe, there: Image | None) -> str:
        """Return orch.env of an image as it is locked; `there` is the base on the host."""
        known = there and self.locked.base_digest and self.locked.base_digest in there.digests
        base = there.id if there and known else self.locked.base_id
        return environment_digest(base, recipe, self.locked.packages)

    def check_built(self, built: Built) -> None:
        """Raise ConfigError where an image holds other packages."""
        refuse(self.path, self.host.name, list(self.locked.packages_differ(built.packages)))

    def deployed_differs(self, recorded: Environment | None, env: str) -> tuple[Difference, ...]:
        """Return in words that what is deployed is not what is locked; nothing where it is."""
        if not recorded or recorded.env == env:
            return ()
        return (Difference("lock", words=f"what is deployed is not what {self.path.name} says"),)


def image_lock(lock: Lock, host: Host, facts: Facts, recipe: Recipe) -> ImageLock:
    """Return what is locked for a host's image. Raises ConfigError where nothing is."""
    return ImageLock(lock.path, lock.of(kind_of(host, facts.docker, recipe), host.name), host)


def kind_of(host: Host, docker: DockerReport, recipe: Recipe) -> str:
    """Return the name of the section for a host's image."""
    base = recipe.source.name if recipe.source else recipe.base
    return f"{host.settings.engine} {processor(docker.arch or 'unknown')} {base}"


def lock_image(
    host: Host, facts: Facts, recipe: Recipe, tag: str, built: Built, requirements: Sequence[str]
) -> Locked:
    """Return what an image that is deployed is made of."""
    base = facts.docker.images.get(tag)
    base_id = _bare(base.labels.get("orch.base", "")) if base and not recipe.source else ""
    there = facts.docker.images.get(recipe.base)
    digests = there.digests if there and _bare(there.id) == base_id else ()
    return Locked(
        kind=kind_of(host, facts.docker, recipe),
        base_id=base_id,
        base_digest=next(iter(sorted(digests)), "") if not recipe.source else "",
        source=recipe.source.digest if recipe.source else "",
        dockerfile=dockerfile_digest(recipe),
        env=built.env,
        requirements=tuple(requirements),
        packages=built.packages,
    )


def dockerfile_digest(recipe: Recipe) -> str:
    """Return the digest of what is built on the base; the name of one's own base holds a person's."""
    text = recipe.files["Dockerfile"]
    return digest(text.replace(recipe.base, "BASE") if recipe.source else text)[:16]


def _bare(image: str) -> str:
    return image.removeprefix("sha256:")
