"""The recipe of an image: its build context, rendered, and the digest that tells one from another."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from orchestrator.container.identity import Identity
from orchestrator.container.inputs import Inputs
from orchestrator.hosts.command import Secret
from orchestrator.inventory import Settings
from orchestrator.render import digest, render, source

PACKAGES = "/usr/local/lib/orch/packages.txt"
"""Where an image keeps the list of what pip has installed in it."""


@dataclass(frozen=True)
class Recipe:
    """What an image is built of. `args` are values for the build alone: they may hold passwords."""

    base: str
    files: Mapping[str, str]  # by their name in the build context; `Dockerfile` is one
    args: Mapping[str, Secret] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The recipe's identity: label orch.recipe."""
        return digest(self.base, *(text for pair in sorted(self.files.items()) for text in pair))

    def tag(self, identity: Identity) -> str:
        """Return the name of the image."""
        return f"orch/{identity.person.slug}-{identity.project.slug}:{self.digest[:12]}"

    def context(self) -> bytes:
        """Return the build context as a tar archive; the same recipe gives the same bytes."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, text in sorted(self.files.items()):
                data = text.encode("utf-8", "surrogateescape")
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o755 if text.startswith("#!") else 0o644
                archive.addfile(member, io.BytesIO(data))
        return out.getvalue()


def recipe(base: str, settings: Settings, inputs: Inputs) -> Recipe:
    """Render the build context of an image on `base`."""
    requirements = [*inputs.requirements, *(["jupyterlab"] if settings.jupyter else [])]
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
        base=base,
        apt_packages=settings.apt_packages,
        requirements=requirements,
        ca=bool(inputs.ca_bundle),
        pip_index=bool(settings.pip_index),
    )
    return Recipe(base, files, build_values(settings))


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


def index_has_password(settings: Settings) -> bool:
    """Whether the package index's address holds a password, which an image's history would show."""
    return bool(settings.pip_index and urlsplit(settings.pip_index).password)
