"""What hosts have written about runs, read in one exec per host."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.facts.lines import json_object
from orchestrator.facts.question import Fact, Section
from orchestrator.run.spec import RunSpec


@dataclass(frozen=True)
class Ground:
    """What a host says of itself while its records are read: needed to judge them."""

    now: float  # seconds since the epoch, by the host's clock
    boot_id: str = ""
    machine: str = ""  # the host's own name
    uptime: float = 0.0  # seconds since its boot, which no setting of the clock moves; 0: not known
    supervisors: frozenset[str] = frozenset()  # ids of runs whose supervisor is seen in /proc
    halted: frozenset[str] = frozenset()  # those of them whose supervisor was halted (SIGSTOP)
    sees: bool = False  # whether /proc shows other accounts' processes too, so that none is missing above
    containers: frozenset[str] | None = None  # ids of running containers; None where nobody could say


@dataclass(frozen=True)
class Record:
    """One worker of a run, as its host has it."""

    host: str  # the worker's host, by the name it was launched under
    folder: str  # runs/<id> on the host, absolute
    spec: RunSpec
    ground: Ground
    worker: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    stop: Mapping[str, Any] = field(default_factory=dict)  # who asked for its end, and why
    service: Mapping[str, Any] = field(default_factory=dict)  # of one: its port, when it was last used
    gone: bool = (
        False  # it was deleted while the run lives: all that is known is on its supervisor's command line
    )
    hidden: bool = False  # this account may not read it: all that is known is in its path
    container: str = ""  # of one without an end: its container's status, start, exit and oom flag; or `none`
    never: bool = False  # nothing is recorded, and no supervisor can begin any more
    waits: bool = False  # without a supervisor, it is started again as soon as its container is
    children: tuple[str, ...] = ()  # of one that has ended: `PID COMMAND` of what still lives
    lock: str = "unknown"  # held | free | unreadable | unknown
    placed: float = 0.0  # when it was launched, by the host's clock
    size: int = 0  # bytes of training.log
    progress: str = ""  # the last line of progress.jsonl
    tail: str = ""  # the end of training.log
    continued_by: str = ""  # the run that took its work over,
    continued_on: str = ""  # and the host of that

    @property
    def own(self) -> bool:
        """Whether it was launched on the host that was asked, and not on one that shares the home with it."""
        on = self.worker.get("environment", {}).get("machine")
        return on in (None, self.ground.machine)

    @property
    def place(self) -> str:
        """The project's folder on the host."""
        return self.folder.rsplit("/runs/", 1)[0]

    @property
    def directory(self) -> str:
        """The worker's folder on the host."""
        return f"{self.folder}/{self.host}"

    @property
    def gpus(self) -> tuple[str, ...]:
        """UUIDs of the GPUs that the worker was given."""
        return tuple(self.worker.get("gpus", ()))


def parse(section: Section) -> tuple[Record, ...]:
    """Read the answer of facts/runs.sh.j2, without what makes no sense or is for another host to judge."""
    head, blocks = _blocks(section.text)
    containers = head.get("containers")
    supervisors = [word.rpartition(":") for word in head.get("supervisors", "").split()]
    ground = Ground(
        now=_number(head.get("now")),
        uptime=_number(head.get("uptime")),
        sees="sees" in head,
        halted=frozenset(run for run, _, state in supervisors if state in ("T", "t")),
        boot_id=head.get("boot", ""),
        machine=head.get("machine", ""),
        supervisors=frozenset(run for run, _, _ in supervisors),
        containers=None if containers is None else frozenset(containers.split()),
    )
    records = (_record(block, ground) for block in blocks)
    return tuple(r for r in records if r is not None and r.own)


def _blocks(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    head: dict[str, str] = {}
    blocks: list[dict[str, str]] = []
    block = head
    for key, value in _pairs(text):
        if key == "run":
            block = {}
            blocks.append(block)
        block[key] = value
    return head, [b for b in blocks if "end" in b]


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        key, _, value = line.partition(" ")
        if key:
            yield key, value.replace("\036", "\n")


def _record(block: Mapping[str, str], ground: Ground) -> Record | None:
    if "hidden" in block:
        return _hidden(block["run"], ground)
    if "gone" in block:
        run = block["run"].rpartition("/")[2]
        spec = RunSpec(run, (), (ground.machine,), block["gone"], "", "")
        return Record(ground.machine, block["run"], spec, ground, gone=True)
    by, _, on = block.get("continued", "").partition("\n")
    try:
        return Record(
            continued_by=by,
            continued_on=on.strip(),
            host=block["host"],
            folder=block["run"],
            spec=RunSpec.parse(json.loads(block["spec"])),
            ground=ground,
            worker=json_object(block.get("worker")),
            state=json_object(block.get("state")),
            stop=json_object(block.get("stop")),
            service=json_object(block.get("service")),
            container=block.get("is", ""),
            never=block.get("launch") == "gone",
            waits="waits" in block,
            children=tuple(child for child in block.get("children", "").split("\n") if child),
            lock=block.get("lock", "unknown"),
            placed=_number(block.get("placed")),
            size=int(_number(block.get("size"))),
            progress=block.get("progress", ""),
            tail=block.get("tail", ""),
        )
    except (ValueError, KeyError):
        return None


def _hidden(folder: str, ground: Ground) -> Record | None:
    """Return what a path says of a run."""
    words = folder.rsplit("/", 4)
    if len(words) < 5:
        return None
    _, person, project, _, run = words
    spec = RunSpec(run, (), (ground.machine,), person, project, "")
    return Record(ground.machine, folder, spec, ground, lock="unreadable", hidden=True)


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


RUNS: Fact[tuple[Record, ...]] = Fact("runs", "facts/runs.sh.j2", parse)
"""The records of a root; `query` gives the values."""


def query(
    root: str,
    *,
    person: str = "*",
    project: str = "*",
    run: str = "*",
    since: int | None = None,
    tail: int = 0,
    engine: str = "docker",
) -> dict[str, Any]:
    """Return the values for RUNS.

    `root` may start with `~/`; `person`, `project` and `run` are slugs or ids, or `*`. With `since`, runs
    that ended more than so many minutes ago are left out; `tail` is how many bytes of the log's end to bring,
    of runs that live or of the one run that is asked for.
    """
    from orchestrator.hosts.command import on_host

    return {
        "root": on_host(root).text,
        "person": person,
        "project": project,
        "run": run,
        "since": since,
        "tail": tail,
        "engine": engine,
    }
