"""What the checks need to know of a host: one exec, and one more when an image must be looked for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orchestrator.container.deploy import common_values
from orchestrator.container.direct.known import extra_python, own_values
from orchestrator.container.identity import Identity
from orchestrator.container.image.context import read_source
from orchestrator.container.image.recipe import full_name, images_to_look_for
from orchestrator.container.inputs import Inputs, read_inputs
from orchestrator.container.settle import settle
from orchestrator.container.since import noted
from orchestrator.container.spec import base_image
from orchestrator.doctor.check import Examined
from orchestrator.errors import OrchError
from orchestrator.facts.changed import CHANGED, ChangedReport
from orchestrator.facts.docker import DOCKER, DockerReport
from orchestrator.facts.gpu import GPUS
from orchestrator.facts.own import OWN, OwnReport
from orchestrator.facts.place import PLACE
from orchestrator.facts.question import ask
from orchestrator.facts.system import SYSTEM
from orchestrator.facts.tag import TAG, TagReport
from orchestrator.hosts.base import Machine
from orchestrator.inventory import Host


def look(machine: Machine, identity: Identity | None, environ: Mapping[str, str]) -> Examined:
    """Ask a host. `identity` is the caller's: its container may hold the port that it wants."""
    place = identity.place(machine.host) if identity else machine.host.settings.root
    settle(machine, place)
    host, settings = machine.host, machine.host.settings
    inputs, unread = _inputs(host, environ)
    values = _values(host, place, identity, inputs)
    own = (CHANGED,) if settings.in_container else (OWN,)
    before = time.time()
    answers = ask(machine, SYSTEM, GPUS, DOCKER, PLACE, *own, values=values)
    asked = (before, time.time())
    gpus, docker = answers.of(GPUS), answers.of(DOCKER)
    source = inputs.source if inputs else None
    image = source.tag(identity) if identity and source else base_image(host, gpus)
    asks_registry = settings.in_container and not docker.trouble and image not in docker.images
    tag = _tag(machine, image, docker) if asks_registry and not source else None
    return Examined(
        host=host,
        system=answers.of(SYSTEM),
        gpus=gpus,
        docker=docker,
        place=answers.of(PLACE),
        image=image,
        tag=tag,
        container=identity.container if identity else None,
        own=OwnReport() if settings.in_container else answers.of(OWN),
        changed=answers.of(CHANGED) if settings.in_container else ChangedReport(),
        noted=noted(host, inputs) if inputs else {},
        unread=unread,
        asked=asked,
    )


def _values(host: Host, place: str, identity: Identity | None, inputs: Inputs | None) -> dict[str, Any]:
    container = identity.container if identity else ""
    return {
        **common_values(host, place),
        "docker": host.settings.container_command,
        "images": images_to_look_for(host, identity, inputs),
        "host": host.name,
        "container": container,
        "extra_python": extra_python(host),
        **own_values(host),
        "inside": container if host.settings.in_container else "",
    }


def _tag(machine: Machine, image: str, docker: DockerReport) -> TagReport:
    """Ask the image's registry, by way of the host."""
    name = full_name(image) if docker.kind == "podman" else image
    values = {"image": name, "docker": machine.host.settings.container_command}
    return ask(machine, TAG, values=values).of(TAG)


def _inputs(host: Host, environ: Mapping[str, str]) -> tuple[Inputs | None, OrchError | None]:
    try:
        source = read_source(host) if host.settings.in_container else None
        return replace(read_inputs(host, environ), source=source), None
    except OrchError as error:
        return None, error
