"""Pulls and builds on a host, with what the engine says passed on as it comes."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.container.causes import explain_failure
from orchestrator.container.image import PACKAGES, Recipe
from orchestrator.container.plan import Plan
from orchestrator.errors import LostConnection
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Command, Script, Secret, quote
from orchestrator.render import digest, render

Told = Callable[[str], None]
"""Takes one line of progress."""

KEPT = 400
"""Last lines of a build that are kept to find the cause of its failure."""


@dataclass(frozen=True)
class Built:
    """An image on a host: what its packages are, and orch.env."""

    packages: tuple[str, ...]
    env: str


def pull(machine: Machine, plan: Plan, engine: Sequence[str], told: Told) -> None:
    """Bring the base image. Raises ConfigError (no such image), Busy (rate limit) or HostError."""
    command = Script("pull", Command((*engine, "pull", plan.recipe.base)).shell() + " 2>&1")
    with machine.stream(command) as stream:
        stream.close_stdin()
        follow(machine, stream, told, what="the pull", base=plan.recipe.base)


def build(machine: Machine, plan: Plan, engine: Sequence[str], told: Told) -> None:
    """Build the image from a context on stdin. Raises ConfigError or HostError with the last lines."""
    recipe = plan.recipe
    script = render(
        "container/build.sh.j2",
        engine=_keeping(engine, recipe.args),
        base=recipe.base,
        tag=plan.tag,
        recipe=recipe.digest,
        args=sorted(recipe.args),
    )
    with machine.stream(Script("build", script)) as stream:
        stream.write(exports(recipe.args) + recipe.context())
        stream.close_stdin()
        follow(machine, stream, told, what="the build", base=recipe.base)


def look_at(machine: Machine, plan: Plan, engine: Sequence[str]) -> Built:
    """Read the package list of a built image."""
    text = render("container/packages.sh.j2", engine=engine, tag=plan.tag, packages=PACKAGES)
    base, _, rest = machine.ask(Script("packages", text)).text.partition("\n")
    packages = tuple(rest.split())
    return Built(packages, environment_digest(base, plan.recipe, packages))


def environment_digest(base: str, recipe: Recipe, packages: Sequence[str]) -> str:
    """Return orch.env: the same on two hosts when their images hold the same."""
    return digest(base, recipe.files["Dockerfile"], *packages)


def _keeping(engine: Sequence[str], names: Mapping[str, Secret]) -> list[str]:
    """Have sudo pass on what the engine shall read from its environment."""
    if engine[0] == "sudo" and names:
        return ["sudo", f"--preserve-env={','.join(sorted(names))}", *engine[1:]]
    return list(engine)


def exports(args: Mapping[str, Secret]) -> bytes:
    """Return a first line of stdin: exports, packed, so that no value stands on a command line."""
    text = "".join(f"{name}={quote(value)}; export {name}\n" for name, value in args.items())
    return base64.b64encode(text.encode()) + b"\n"


def follow(machine: Machine, stream: Stream, told: Told, *, what: str, base: str) -> None:
    """Pass a stream's lines on until it ends. Raises OrchError with the cause and the last lines."""
    last: list[str] = []
    for line in _lines(stream):
        told(f"  {line}")
        last = [*last[1 - KEPT :], line]
    status = stream.status()
    if status is None:
        raise LostConnection(f"the connection went during {what}", where=machine.host.name)
    if status:
        error = explain_failure(machine.host, "\n".join(last), base=base)
        error.details = "\n".join([line for line in last if not line.startswith(_NOISE)][-20:])
        raise error


_NOISE = (
    "DEPRECATED",
    "Step ",
    " --->",
    "Sending build context",
    "Removing intermediate",
    "The command '",
    "Get:",
    "Reading ",
    "Building dependency",
)
"""How lines of a build begin that say nothing of why it failed."""


def _lines(stream: Stream) -> Iterator[str]:
    """Yield lines as they come; a progress bar's carriage return ends one too."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    while piece := stream.read():
        *whole, rest = (rest + decoder.decode(piece)).replace("\r", "\n").split("\n")
        yield from (line for line in whole if line.strip())
    if rest.strip():
        yield rest
    said = stream.read_error().decode("utf-8", "replace")
    yield from (line for line in said.splitlines() if line.strip())
