"""Launching a run on a host: one exec that places what is missing and starts the supervisor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.container.identity import Identity, check_owner, slug
from orchestrator.container.start import answers
from orchestrator.container.turn import LOCK
from orchestrator.errors import HostError, LostConnection
from orchestrator.facts.lines import json_object
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Raw, Script, on_host
from orchestrator.render import render, sources
from orchestrator.run.ids import new_id
from orchestrator.run.refusals import refusal
from orchestrator.run.spec import RunSpec

LAUNCH_DEADLINE = 300.0
"""Seconds for one launch; copying a large bundle to `work/` on a slow disk takes most of it."""

GRACE = 30.0
"""Seconds between SIGTERM and SIGKILL, unless `orch stop` says otherwise."""


@dataclass(frozen=True)
class Taking:
    """A run whose work is taken over by the one that is launched."""

    run: str
    worker: str  # the name of its worker's folder
    bundle: str  # the code that it had
    stale: str = ""  # what its continued_by may name all the same
    staged: str = ""  # the folder in runs/ that its work was brought to from another host


@dataclass(frozen=True)
class Order:
    """All that a launch needs to know besides the spec."""

    spec: RunSpec
    place: str  # the project's folder on the host; may start with ~/
    env: Mapping[str, str] = field(default_factory=dict)
    share: bool = False  # take GPUs that someone uses
    watch: int = 0  # seconds to stay and see whether the command ends at once
    identity: Identity | None = None  # whose the environment has to be; None: it doesn't matter
    from_here: bool = True  # the code is that of the identity's folder
    diff: str = ""  # how the code differs from its commit
    again: bool = False  # although a run of that name lives
    takes: Taking | None = None  # None: its work is a copy of the code
    cluster: Mapping[str, Any] | None = None  # what a worker has to know of the others; None: it is alone

    def anew(self) -> Order:
        """Return the same under an id that is drawn anew."""
        return replace(self, spec=replace(self.spec, run=new_id(self.spec.name)))


@dataclass(frozen=True)
class Launched:
    """A worker that was started."""

    host: str
    place: str  # the project's folder on the host, absolute
    gpus: tuple[str, ...] | None  # UUIDs; None where the environment has no GPU
    indices: tuple[int, ...]  # the same GPUs as nvidia-smi numbers them
    state: Mapping[str, Any]
    log: str  # the last lines so far
    spec: RunSpec  # with what the host added
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # what the environment was deployed with (since.py)
    laid: tuple[str, ...] = ()  # files where code and run met: `kept PATH`, `replaced PATH`


def launch_line(spec: RunSpec, *, lock: bool = True) -> str:
    """Return what a person would type: the line that runs inside the environment, in the run's folder.

    The lock is waited for: somebody who looks at it shares it for a moment. `lock` False: the disk has none.
    """
    words: list[str | Raw] = ["nohup", "setsid"]
    words += ["flock", "-w", "10", Raw('"$ORCH_WORKER_DIR/lock"')] if lock else []
    words += ["python3", Raw('"$ORCH_WORKER_DIR/supervise.py"'), "--person", spec.person, "--run", spec.run]
    line = Command((*words, "--", *spec.argv)).shell()
    return f'{line} >> "$ORCH_WORKER_DIR/training.log" 2>&1 < /dev/null'


def script(order: Order, host: str) -> Script:
    """Return the whole launch script for one host."""
    spec = order.spec
    start = (
        "ORCH_RUN_DIR=$1 ORCH_WORKER_DIR=$2; export ORCH_RUN_DIR ORCH_WORKER_DIR; "
        '[ "$3" = - ] || { CUDA_VISIBLE_DEVICES=$3 CUDA_DEVICE_ORDER=PCI_BUS_ID; '
        "export CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER; }; exec "
    )
    text = render(
        "run/launch.sh.j2",
        place=on_host(order.place).text,
        run=spec.run,
        host=host,
        bundle=spec.bundle,
        spec=spec.asked_text(),
        diff=order.diff,
        name=spec.name or "",
        slug=slug(spec.name or "run"),
        again=order.again,
        takes=order.takes,
        verb=spec.parent.get("kind", spec.kind),
        service=spec.service,
        launch=_private(order, host),
        supervisor=_supervisor(),
        line=start + launch_line(spec),
        unlocked=start + launch_line(spec, lock=False),
        sub=spec.sub,
        gpus=spec.gpus,
        share=order.share,
        by=spec.by,
        watch=order.watch,
        cluster=bool(order.cluster),
        turn=LOCK,
        **_owner(order.identity, from_here=order.from_here),
    )
    return Script("launch", text)


def _supervisor() -> dict[str, str]:
    """Return supervise.py and its modules: texts by their names below the worker's folder."""
    return {name: text.rstrip() for name, text in sources("supervise.py", "supervisor")}


def _owner(identity: Identity | None, *, from_here: bool) -> dict[str, Any]:
    """Return whose the environment has to be; of which folder matters to code that is from a folder only."""
    if not identity:
        return {"identity": False}
    machine = identity.folder.partition(":")[0] if from_here else ""
    owner = f"{identity.person.name} {identity.project.name}"
    return {"identity": True, "owner": owner, "folder": identity.folder, "machine": machine}


def _private(order: Order, host: str) -> str:
    """Return the rest of launch.json after `{`: what only the supervisor may read."""
    spec = order.spec
    own = {
        "PYTHONUNBUFFERED": "1",
        **order.env,
        "ORCH_RUN_ID": spec.run,
        "ORCH_RUN_NAME": spec.name or spec.run,
        "ORCH_PERSON": spec.person,
    }
    private = {"host": host, "grace": GRACE, "timeout": spec.timeout, "env": own}
    if order.cluster:
        private["cluster"] = order.cluster
    if spec.restarts:
        private["restarts"] = {"max": spec.restarts, "on": list(spec.retry_on)}
    return json.dumps(private)[1:]


def launch(machine: Machine, order: Order) -> Launched:
    """Launch a worker in one exec.

    Raises NoEnvironment, NeedsBundle, Taken, Busy (no free GPU), Refused (somebody else's environment) or
    HostError; LostConnection when nobody knows whether the run was started.
    """
    host = machine.host.name
    answer = _answer(machine, order)
    how = answer["answer"]
    if how == "not-ours" and order.identity:
        check_owner(order.identity, json_object(answer.get("environment")), where=host)
        return launch(machine, replace(order, identity=None))  # a folder that has moved
    if how not in ("launched", "ended"):
        raise refusal(how, answer.get("why", ""), machine.host, order)
    state = json_object(answer.get("state"))
    if not state:
        raise HostError(
            "the supervisor did not start", where=host, details=answer.get("log"), hint=_NO_SUPERVISOR
        )
    gpus = answer.get("gpus", "-")
    chosen = None if gpus == "-" else tuple(g for g in gpus.split(",") if g)
    indices = tuple(int(i) for i in answer.get("indices", "").split(",") if i.isdigit())
    settings = json_object(answer.get("environment")).get("settings") or {}
    place, log, spec = answer.get("place", ""), answer.get("log", ""), _recorded(answer, order.spec)
    laid = tuple(answer.get("laid", "").splitlines())
    return Launched(host, place, chosen, indices, state, log, spec, settings, laid)


def _recorded(answer: Mapping[str, str], asked: RunSpec) -> RunSpec:
    try:
        return RunSpec.parse(json_object(answer.get("spec")) or {})
    except ValueError:
        return asked


def _answer(machine: Machine, order: Order) -> dict[str, str]:
    host, run = machine.host.name, order.spec.run
    unknown = f"Run {run} may have been started: orch ps {host}"
    try:
        result = machine.run(script(order, host), deadline=LAUNCH_DEADLINE)
    except HostError as error:
        raise type(error)(error.message, where=host, hint=error.hint or unknown) from error
    found = answers(result.text)
    if "answer" not in found:
        raise LostConnection(f"the launch gave no answer: {result.complaint}", where=host, hint=unknown)
    return found


_NO_SUPERVISOR = "The environment needs python3 (3.6 or newer) and flock."
