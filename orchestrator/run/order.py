"""From what a person asks to an order for a launch."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator import __version__
from orchestrator.container.env_file import VARIABLE, read_env_file
from orchestrator.container.identity import Identity, caller, identity_of
from orchestrator.errors import ConfigError, UsageError
from orchestrator.hosts.masking import hide, hide_environment
from orchestrator.inventory import Host
from orchestrator.run.ids import check_name, new_id
from orchestrator.run.launch import Order
from orchestrator.run.spec import RunSpec

if TYPE_CHECKING:
    from orchestrator.run.code.bundle import Bundle

TRAINER = ("python3", "-m", "trainer")
"""The command of a run without a command: the trainer that ships with orch."""

RETRIED = ("lost", "nccl", "gpu")
"""The causes after which a run with --max-restarts starts again where none are named."""

CAUSES = (*RETRIED, "exit", "signal", "oom", "exception", "timeout")
"""The causes that --retry-on may name."""

NOTE_LENGTH = 500
"""Characters of a note."""


@dataclass(frozen=True)
class Naming:
    """What a run is called, and said of it. `again`: although a run of that name lives."""

    name: str | None = None
    note: str = ""
    tags: tuple[str, ...] = ()
    again: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a name, note or tag that can't be one."""
        if self.name is not None:
            check_name(self.name)
        if not self.note.isprintable() or len(self.note) > NOTE_LENGTH:
            raise UsageError(f"--note: not one line of at most {NOTE_LENGTH} characters")
        for tag in self.tags:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/=-]{0,63}", tag):
                hint = "Use letters, digits and . _ : / = -, at most 64."
                raise UsageError(f"--tag {tag}: not one word", hint=hint)


@dataclass(frozen=True)
class Retries:
    """How often a run may be started again by itself, after which causes; None where nothing was said."""

    most: int | None = None
    causes: tuple[str, ...] | None = None

    def fields(self, old: RunSpec | None = None) -> dict[str, Any]:
        """Return the fields of a spec; where nothing was said, those of the `old` one that runs again.

        Raises UsageError for causes of no restart at all.
        """
        most = (old.restarts if old else 0) if self.most is None else self.most
        causes = (old.retry_on if old else ()) if self.causes is None else self.causes
        if self.causes and not most:
            raise UsageError("--retry-on goes with --max-restarts", hint="As in: --max-restarts 3")
        return {"restarts": most, "retry_on": (causes or RETRIED) if most else ()}


@dataclass(frozen=True)
class Wishes:
    """What is said of a run besides its command and its code."""

    naming: Naming = field(default_factory=Naming)
    env: Mapping[str, str] = field(default_factory=dict)  # the values of its variables
    gpus: str = ""  # as the spec has it; empty where nothing was said
    share: bool = False  # take GPUs that someone uses
    watch: int = 0  # seconds for which the launch stays and sees whether the command ends at once
    timeout: float | None = None  # seconds that it may take; None where nothing was said
    retries: Retries = field(default_factory=Retries)


def is_trainer(argv: Sequence[str]) -> bool:
    """Whether a command is that of the bundled trainer."""
    return tuple(argv[: len(TRAINER)]) == TRAINER


def make_order(
    host: Host,
    argv: Sequence[str],
    wishes: Wishes,
    *,
    bundle: Bundle,
    cwd: Path,
    git: Callable[[Path], tuple[dict[str, Any], str]] | None = None,
) -> Order:
    """Return the order for a new run of `argv` on `host`, in the folder of work/ that `cwd` is here.

    `git` gives what `git_of` does, of the project's top folder.
    """
    identity = identity_of(host, cwd)
    top = identity.project.folder
    commit, diff = git(top) if git else git_of(top, bundle)
    naming = wishes.naming
    spec = RunSpec(
        run=new_id(naming.name),
        argv=tuple(argv),
        hosts=(host.name,),
        person=identity.person.name,
        project=identity.project.name,
        bundle=bundle.digest,
        name=naming.name,
        note=naming.note,
        tags=naming.tags,
        env=tuple(sorted(wishes.env)),
        gpus=wishes.gpus,
        sub="" if is_trainer(argv) else _below(cwd, top),
        git=commit,
        by=caller(),
        asked=time.time(),
        orch=__version__,
        timeout=wishes.timeout or 0,
        **wishes.retries.fields(),
    )
    return order_of(host, spec, wishes, identity, diff=diff)


def order_of(
    host: Host, spec: RunSpec, wishes: Wishes, identity: Identity, *, diff: str, from_here: bool = True
) -> Order:
    """Return the order for a spec; the rest of Order says how it is to be launched."""
    return Order(
        spec,
        identity.place(host),
        wishes.env,
        wishes.share,
        wishes.watch,
        identity=identity,
        from_here=from_here,
        diff=diff,
        again=wishes.naming.again,
    )


def git_of(top: Path, bundle: Bundle) -> tuple[dict[str, Any], str]:
    """Return what a spec says of the code's commit, and how the code differs from it (code.diff)."""
    from orchestrator.run.code.commit import commit_of

    commit = commit_of(top)
    if not commit:
        return {}, ""
    diff = b""
    if commit.dirty:
        from orchestrator.run.code.commit_diff import diff_of

        diff = diff_of(bundle)
    digest = hashlib.sha256(diff).hexdigest() if diff else ""
    return {**asdict(commit), "diff": digest}, diff.decode("utf-8", "surrogateescape")


def _below(cwd: Path, top: Path) -> str:
    below = cwd.resolve().relative_to(top.resolve())
    return "" if below == Path() else str(below)


def wanted_gpus(count: str, ids: str | None) -> str:
    """Return the spec's form of --gpus and --gpu-ids. Raises UsageError when they make no sense."""
    if ids is not None:
        words = [w.strip() for w in ids.split(",")]
        if count:
            raise UsageError("--gpus and --gpu-ids exclude each other")
        if not all(re.fullmatch(r"\d+|GPU-[0-9A-Za-z-]+|MIG-[0-9A-Za-z/-]+", w) for w in words):
            raise UsageError(f"--gpu-ids {ids}: not indices or UUIDs joined by commas")
        return "ids:" + ",".join(words)
    if count in ("", "all", "none") or re.fullmatch(r"[1-9]\d*", count):
        return count
    if count == "0":
        return "none"
    raise UsageError(f"--gpus {count}: a count, all or none", hint="To name GPUs: --gpu-ids 0,2")


def environment(
    host: Host, pairs: Sequence[str], environ: Mapping[str, str], files: Sequence[Path] = ()
) -> dict[str, str]:
    """Return the variables of a run: secrets, files of --env-file, --env; the later one counts.

    Those of the settings the environment has itself. `K` alone takes the caller's value. Raises UsageError
    for a name that is none, or one that isn't set here, ConfigError for a secret that isn't and a file that
    makes no sense.
    """
    env: dict[str, str] = {}
    for file in files:
        env.update(read_env_file(file, environ))
    for name in host.settings.secret:
        if name not in env and name not in environ:
            raise ConfigError(
                f"secret {name} is not set here",
                where=host.came_from("secret"),
                hint=f"First: export {name}=...",
            )
        env.setdefault(name, environ.get(name, ""))
        hide(env[name])
    for pair in pairs:
        name, given, value = pair.partition("=")
        if not VARIABLE.match(name):
            raise UsageError(f"--env {name}: not a variable's name")
        if not given and name not in environ:
            raise UsageError(f"--env {name}: not set here", hint=f"Give it a value: --env {name}=VALUE")
        env[name] = value if given else environ[name]
    hide_environment(env)
    return env


def trainer_bundle() -> Bundle:
    """Return the bundled trainer as the code to send: one folder `trainer/`."""
    from importlib.resources import files

    from orchestrator.run.code.shipped import shipped

    try:
        place = files("orchestrator.trainer")
    except ModuleNotFoundError:  # a bare checkout, or one that shadows the wheel
        place = Path(__file__).resolve().parents[2] / "trainer"
    return shipped(place, folder=True)
