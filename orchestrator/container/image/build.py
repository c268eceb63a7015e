"""Pulls and builds on a host, with what the engine says passed on as it comes."""

from __future__ import annotations

import base64
import codecs
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.container.causes import explain_failure
from orchestrator.container.identity import Identity
from orchestrator.container.image.build_log import keep_log
from orchestrator.container.image.dockerfile import failure
from orchestrator.container.image.recipe import PACKAGES, Recipe, full_name, named_base
from orchestrator.container.image.source import Source
from orchestrator.container.plan import Plan
from orchestrator.container.run_command import keeping
from orchestrator.errors import ConfigError, LostConnection, OrchError
from orchestrator.hosts.base import Machine, Stream
from orchestrator.hosts.command import Command, Script, Secret, quote
from orchestrator.render import digest, render
from orchestrator.units import size

Told = Callable[[str], None]
"""Takes one line of progress."""

Explain = Callable[[str], OrchError]
"""Makes an error of what an engine said."""

SHOWN = 20
"""Last lines that are shown of what failed."""


@dataclass(frozen=True)
class Built:
    """An image on a host: what its packages are, orch.env, and the id of its base."""

    packages: tuple[str, ...]
    env: str
    base: str = ""


_STAGED = r"(^|/){}:[0-9a-f]+-[0-9a-f]{{8}}$"
"""What the images of `build_base` are called for the moment, as an extended regular expression."""


def pull(machine: Machine, plan: Plan, engine: Sequence[str], told: Told, exact: str = "") -> None:
    """Bring the base image; `exact` is the NAME@sha256:... that it is to be.

    Raises ConfigError (no such image), Busy (rate limit) or HostError.
    """
    base = plan.recipe.base
    name = exact or base
    full = full_name(name) if plan.spec.engine == "podman" else name
    text = Command((*engine, "pull", full)).shell() + " 2>&1"
    if exact:
        text += f" && {Command((*engine, 'tag', full, base)).shell()} 2>&1"
    with machine.stream(Script("pull", text)) as stream:
        stream.close_stdin()
        follow(machine, stream, told, what="the pull", base=plan.recipe.base)


def build(
    machine: Machine,
    plan: Plan,
    identity: Identity,
    engine: Sequence[str],
    told: Told,
    pins: Sequence[str] = (),
    staged: str = "",
) -> None:
    """Build the image from a context on stdin. Raises ConfigError or HostError with the last lines.

    `pins` are versions that another host has got for the same recipe; `staged` is what `build_base` returned.
    """
    recipe = plan.recipe
    script = render(
        "container/build.sh.j2",
        **_values(engine, recipe.args),
        staged=staged,
        stale=_STAGED.format(recipe.base.partition(":")[0]) if staged else "",
        base=recipe.base,
        **{"from": named_base(recipe.base)},
        tag=plan.tag,
        file="",
        labels=[("orch.recipe", recipe.digest), _owner(identity)],
    )
    with machine.stream(Script("build", script)) as stream:
        stream.write(exports(recipe.args) + recipe.context(pins))
        stream.close_stdin()
        follow(machine, stream, told, what="the build", base=plan.spec.image)


def build_base(
    machine: Machine, plan: Plan, source: Source, identity: Identity, engine: Sequence[str], told: Told
) -> str:
    """Build the team's own image, its context streamed. Returns the name that it has for the moment.

    A stream that is cut between two files looks whole to a builder. So the image gets its own name from us
    alone, who know that all was sent. Raises ConfigError with the line of their Dockerfile, HostError, or
    OrchError for a file that changes.
    """
    args, staged, whole = plan.recipe.args, f"{plan.recipe.base}-{secrets.token_hex(4)}", False
    script = render(
        "container/build.sh.j2",
        **_values(engine, args),
        staged="",
        stale="",
        base="",
        tag=staged,
        file=source.name,
        labels=[("orch.source", source.digest), _owner(identity)],
    )
    with machine.stream(Script("build base", script)) as stream:
        with suppress(LostConnection):  # the builder ended, and says why
            stream.write(exports(args))
            _send(stream, source.tar(), source.size, told)
            whole = True
        stream.close_stdin()
        explain = _their_failure(machine, source)
        follow(machine, stream, told, what="the build", base=source.name, explain=explain)
    if not whole:
        raise LostConnection("the build context was cut off", where=machine.host.name, hint="Deploy again.")
    return staged


def _values(engine: Sequence[str], args: Mapping[str, Secret]) -> dict[str, object]:
    return {"engine": keeping(engine, args), "args": sorted(args)}


def _owner(identity: Identity) -> tuple[str, str]:
    """Return the label that says whose image it is. One, as each costs a layer; containers inherit it."""
    whose = {"person": identity.person.name, "project": identity.project.name, "folder": identity.folder}
    return "orch.image", json.dumps(whose)


def _send(stream: Stream, pieces: Iterable[bytes], total: int, told: Told) -> None:
    sent, next_word = 0, 0
    for piece in pieces:
        stream.write(piece)
        sent += len(piece)
        if sent >= next_word:
            told(f"  sending the build context: {size(min(sent, total))} of {size(total)}")
            next_word = sent + max(total // 50, 1 << 20)


def _their_failure(machine: Machine, source: Source) -> Explain:
    """Return what makes an error of a failed build of theirs: the host's causes, else a line of the file."""

    def explain(said: str) -> OrchError:
        found = failure(source.text, source.name, said)
        where = f"{source.top / source.name}" + (f":{found.line}" if found.line else "")
        known = explain_failure(machine.host, said, base=found.image or source.name, theirs=not found.image)
        if not known.hint:
            return ConfigError(f"{found.why} on {machine.host.name}", where=where)
        if isinstance(known, ConfigError):
            known.where = where
            known.hint = "Correct FROM; for a private one, docker login on the host first."
        else:
            known.message += f" ({where})"
        return known

    return explain


def rename(machine: Machine, engine: Sequence[str], old: str, new: str) -> None:
    """Give an image another name, and take the old one from it."""
    words = Command((*engine, "tag", old, new)).shell(), Command((*engine, "image", "rm", old)).shell()
    machine.ask(Script("tag", " && ".join(words)))


def look_at(machine: Machine, plan: Plan, engine: Sequence[str]) -> Built:
    """Read the package list of a built image."""
    text = render("container/packages.sh.j2", engine=engine, tag=plan.tag, packages=PACKAGES)
    base, _, rest = machine.ask(Script("packages", text)).text.partition("\n")
    packages = tuple(rest.split())
    return Built(packages, environment_digest(base, plan.recipe, packages), base)


def environment_digest(base: str, recipe: Recipe, packages: Sequence[str]) -> str:
    """Return orch.env: the same on two hosts when their images hold the same.

    `base` is the base's id. A base that was built on each host has another id on each, and what it was built
    of stands for it.
    """
    name = recipe.source.digest if recipe.source else base.removeprefix("sha256:")  # podman has no prefix
    return digest(name, recipe.files["Dockerfile"], *packages)


def exports(args: Mapping[str, Secret]) -> bytes:
    """Return a first line of stdin: exports, packed, so that no value stands on a command line."""
    text = "".join(f"{name}={quote(value)}; export {name}\n" for name, value in args.items())
    return base64.b64encode(text.encode()) + b"\n"


def follow(
    machine: Machine, stream: Stream, told: Told, *, what: str, base: str, explain: Explain | None = None
) -> None:
    """Pass a stream's lines on until it ends. Raises OrchError with the cause and the last lines."""
    said: list[str] = []
    for line in _lines(stream):
        told(f"  {line}")
        said.append(line)
    status = stream.status()
    if status is None:
        raise LostConnection(f"the connection went during {what}", where=machine.host.name)
    if status:
        text = "\n".join(said)
        error = explain(text) if explain else explain_failure(machine.host, text, base=base)
        error.details = "\n".join([line for line in said if not _NOISE.match(line)][-SHOWN:])
        kept = keep_log(machine.host.name, text) if len(said) > SHOWN else None
        error.details += f"\nall of it: {kept}" if kept else ""
        raise error


_NOISE = re.compile(
    r"DEPRECATED|Step |STEP | ?--+>|Sending build context|Removing intermediate|The command '|"
    r"(#\d+ (\d+\.\d+ )?)?(Get:|Reading |\(Reading |Building dependency)|"
    r"#\d+ (sha256:|DONE|CACHED|copy /context|\[internal\])|-{6}"
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
