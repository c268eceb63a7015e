"""The recipe of an image: its build context, rendered, and the digest that tells one from another."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from orchestrator.container.identity import Identity
from orchestrator.container.image.source import Source
from orchestrator.container.inputs import Inputs
from orchestrator.container.spec import base_image, tensorflow_image
from orchestrator.facts.gpu import GpuReport
from orchestrator.hosts.command import Secret
from orchestrator.inventory import Host, Settings
from orchestrator.render import digest, render, source

PACKAGES = "/usr/local/lib/orch/packages.txt"
"""Where an image keeps the list of what pip has installed in it."""


PINS = "pins.txt"
"""The file of the build context with the versions that another host has got."""


@dataclass(frozen=True)
class Recipe:
    """What an image is built of. `args` are values for the build alone: they may hold passwords."""

    base: str
    files: Mapping[str, str]  # by their name in the build context; `Dockerfile` is one
    args: Mapping[str, Secret] = field(default_factory=dict)
    source: Source | None = None  # what `base` itself is built of

    @property
    def resolves(self) -> bool:
        """Whether pip chooses versions for it, which another day may be others."""
        return "requirements.txt" in self.files

    @property
    def digest(self) -> str:
        """The recipe's identity: label orch.recipe."""
        return digest(self.base, *(text for pair in sorted(self.files.items()) for text in pair))

    def tag(self, identity: Identity) -> str:
        """Return the name of the image."""
        return f"orch/{identity.person.slug}-{identity.project.slug}:{self.digest[:12]}"

    def context(self, pins: Sequence[str] = ()) -> bytes:
        """Return the build context as a tar archive; the same recipe gives the same bytes.

        `pins` are pip constraints besides; they are no part of the recipe.
        """
        files = {**self.files, PINS: "".join(f"{pin}\n" for pin in pins)}
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, text in sorted(files.items()):
                data = text.encode("utf-8", "surrogateescape")
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o755 if text.startswith("#!") else 0o644
                archive.addfile(member, io.BytesIO(data))
        return out.getvalue()


def recipe_for(host: Host, identity: Identity, report: GpuReport, inputs: Inputs) -> Recipe:
    """Return what an image for a host is built of, on the base that its settings and GPUs ask for."""
    base = inputs.source.tag(identity) if inputs.source else base_image(host, report)
    return recipe(base, host.settings, inputs)


def images_to_look_for(host: Host, identity: Identity | None, inputs: Inputs | None) -> list[str]:
    """Return what the base may be, which depends on the GPUs, and the project's own image on each."""
    source = inputs.source if inputs else None
    own = source.tag(identity) if source and identity else host.settings.image
    bases = [own] if own else [tensorflow_image(host, gpus=gpus) for gpus in (False, True)]
    if not identity or not inputs:
        return bases
    return [*bases, *(recipe(base, host.settings, inputs).tag(identity) for base in bases)]


def named_base(base: str) -> str:
    """Return the name to build FROM: BuildKit takes an id for a name, so that gets a tag on the host."""
    return f"orch/base:{base[7:19]}" if base.startswith("sha256:") else base


def recipe(base: str, settings: Settings, inputs: Inputs) -> Recipe:
    """Render the build context of an image on `base`."""
    requirements = inputs.packages(jupyter=settings.jupyter)
    files = {
        "entrypoint": render("container/entrypoint.sh.j2"),
        "shell-env": source("container/shell_env.py") or "",
        "apt": render("container/apt.sh.j2", mirror=_apt_mirror(settings)),
        "proof": source("container/proof.py") or "",
    }
    if requirements:
        files["requirements.txt"] = "\n".join(requirements) + "\n"
        files["constraints"] = source("container/constraints.py") or ""
    if inputs.ca_bundle:
        files["orch.crt"] = inputs.ca_bundle.decode("utf-8", "surrogateescape")
    files["Dockerfile"] = render(
        "container/Dockerfile.j2",
        base=named_base(base),
        apt_packages=settings.apt_packages,
        requirements=requirements,
        ca=bool(inputs.ca_bundle),
        pip_index=bool(settings.pip_index),
    )
    return Recipe(base, files, build_values(settings), inputs.source)


def _apt_mirror(settings: Settings) -> str:
    """Return the mirror without the distribution's own folder: it is the same for both kinds of base."""
    return re.sub(r"/(ubuntu|debian)/*\Z", "", (settings.apt_mirror or "").rstrip("/"))


def build_values(settings: Settings) -> dict[str, Secret]:
    """Return what a build reads of the way out. The engine keeps no proxy in the image's history."""
    proxies = {
        "HTTP_PROXY": settings.http_proxy,
        "HTTPS_PROXY": settings.https_proxy,
        "NO_PROXY": settings.no_proxy,
    }
    wanted = {**proxies, **{name.lower(): value for name, value in proxies.items()}}
    if settings.pip_index:
        wanted["PIP_INDEX_URL"] = settings.pip_index
    return {name: Secret(value) for name, value in wanted.items() if value}


def full_name(image: str) -> str:
    """Return an image's name with its registry, as Docker reads it: podman knows none for short names."""
    first, slash, _ = image.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


def index_has_password(settings: Settings) -> bool:
    """Whether the package index's address holds a password, which an image's history would show."""
    return bool(settings.pip_index and urlsplit(settings.pip_index).password)
