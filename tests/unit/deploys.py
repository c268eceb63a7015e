"""Hosts and facts for tests of what a deploy would do; nothing is asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.container.identity import Identity, Person, Project
from orchestrator.container.image.recipe import Recipe, recipe_for
from orchestrator.container.inputs import Inputs
from orchestrator.container.plan import Plan
from orchestrator.container.planning import make_plan
from orchestrator.container.spec import ContainerSpec, Facts, container_spec
from orchestrator.facts.docker import Container, DockerReport
from orchestrator.facts.gpu import Gpu, GpuReport
from orchestrator.facts.place import PlaceReport
from orchestrator.facts.system import SystemReport
from orchestrator.inventory import Host, Settings

from .test_environment import CONTAINER

IDENTITY = Identity(Person("ana", "ana"), Project("mnist", "mnist", Path("/src/mnist")))
KEY = "ssh-ed25519 AAAAC3Nza ana@laptop"
PLACE = "/home/ana/.orch/ana/mnist"
BASE = "tensorflow/tensorflow:2.9.3"


def host(**settings: Any) -> Host:
    sources = {name: f"hosts.ini:{number}" for number, name in enumerate(settings, 10)}
    return Host("gpu01", "gpu01", settings=Settings(**settings), sources=sources)


def gpus(count: int) -> GpuReport:
    cards = (Gpu(index=i, uuid=f"GPU-{i}", name="NVIDIA A100", driver="535.183.01") for i in range(count))
    return GpuReport(tuple(cards), absent=not count)


def facts(**changes: Any) -> Facts:
    known = Facts(
        system=SystemReport(
            hostname="gpu01", arch="x86_64", uid=1001, gid=1001, user="ana", home="/home/ana"
        ),
        gpus=gpus(0),
        docker=DockerReport(client="26.1.3", server="26.1.3", root="/var/lib/docker", arch="x86_64"),
        place=PlaceReport(PLACE, machine="gpu01", account_keys=(KEY,)),
    )
    for name, value in changes.items():
        part, _, field = name.partition("__")
        known = replace(known, **{part: replace(getattr(known, part), **{field: value}) if field else value})
    return known


def spec_of(host: Host, known: Facts, inputs: Inputs) -> tuple[ContainerSpec, Recipe]:
    wanted = recipe_for(host, IDENTITY, known.gpus, inputs)
    return container_spec(host, IDENTITY, known, inputs, wanted.digest), wanted


def plan(
    host: Host, known: Facts | None = None, inputs: Inputs | None = None, *, replace: bool = False
) -> Plan:
    known, inputs = known or facts(), inputs or Inputs()
    spec, wanted = spec_of(host, known, inputs)
    return make_plan(host, IDENTITY, known, spec, wanted, keys=inputs.keys, replace=replace)


def running(
    host: Host, known: Facts | None = None, inputs: Inputs | None = None, **changes: Any
) -> Container:
    """The container that a deploy of these left."""
    spec, wanted = spec_of(host, known or facts(), inputs or Inputs())
    labels = {
        "orch.person": "ana",
        "orch.project": "mnist",
        "orch.folder": "another-laptop:/src/mnist",
        "orch.spec": spec.text(),
        "orch.recipe": wanted.digest,
        "orch.port": "2222",
    }
    made = Container("c" * 64, IDENTITY.container, "sha256:aa", True, 0, labels, frozenset({2222}))
    return replace(made, **changes)


def deployed(container: Container, known: Facts | None = None, **place: Any) -> Facts:
    """The facts of a host that this container runs on, proven and written down."""
    known = known or facts()
    holders = dict.fromkeys(container.ports, container.name) if container.running else {}
    record = replace(
        CONTAINER,
        engine=known.docker.kind,
        container=container.id,
        name=IDENTITY.container,
        folder=IDENTITY.folder,
    )
    return replace(
        known,
        docker=replace(known.docker, containers=(container,), holders=holders),
        place=replace(
            known.place,
            **{
                "environment": record.text(),
                "placed_keys": known.place.account_keys,
                **place,
            },
        ),
    )
