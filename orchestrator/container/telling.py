"""A plan and its outcome in the words that a person reads."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.container.action import BESIDE, CREATE, PROVE, REPLACE, START, UNPAUSE
from orchestrator.container.engine import Environment
from orchestrator.container.plan import Plan
from orchestrator.container.proof import Seen
from orchestrator.container.spec import ContainerSpec, Facts
from orchestrator.facts.gpu import GpuReport
from orchestrator.units import how_many, size

MEGABYTE = 1 << 20


def head_line(host: str, facts: Facts) -> str:
    """Return what the host is: `gpu01   4 x A100-SXM4-40GB   driver 535.183   docker 26.1   612 GB free`."""
    disk = facts.docker.disk
    words = [host, gpus_words(facts.gpus)]
    if facts.gpus.driver:
        words.append(f"driver {'.'.join(facts.gpus.driver.split('.')[:2])}")
    if facts.docker.server:
        words.append(f"{facts.docker.kind} {'.'.join(facts.docker.server.split('.')[:2])}")
    if disk:
        words.append(f"{size(disk.free_mb * MEGABYTE)} free")
    return "   ".join(words)


def gpus_words(report: GpuReport) -> str:
    """Return the GPUs of a host by model: `4 x A100-SXM4-40GB`, or `no GPU`."""
    names = [(g.name or "GPU").removeprefix("NVIDIA ") for g in report.gpus]
    counted = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
    return ", ".join(counted) or ("no GPU" if report.absent else report.problem or "no GPU")


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of what would be done, and each difference to what runs."""
    spec = plan.spec
    if plan.image.build:
        yield plan_line("image", "build", f"{spec.image} + {_with(spec)}{_first(plan)}")
    elif plan.action in (CREATE, REPLACE, BESIDE):
        yield plan_line("image", "use", f"{plan.tag} (there already)")
    if plan.action in _SHOWN:
        yield plan_line("container", plan.action, "   ".join(_container(plan)))
    for change in plan.changes:
        yield plan_line("", "", str(change))
    for change in plan.by_hand:
        yield plan_line("", "", f"by hand: {change}")
    if spec.volumes and plan.action in (CREATE, REPLACE, BESIDE):
        yield plan_line("volumes", "", "   ".join(_volume(v) for v in spec.volumes))
    if plan.keys_change:
        yield plan_line("keys", "update", f"{len(plan.keys)} may log in")
    for old in plan.leftovers:
        yield plan_line("container", "remove", f"{old.name} (its last run has ended)")
    for note in plan.notes:
        yield plan_line("note", "", note)


_SHOWN = frozenset({CREATE, REPLACE, BESIDE, START, UNPAUSE, PROVE})


PLAN_INDENT = 22
"""Where the words of a plan's line begin."""


def plan_line(what: str, verb: str, text: str) -> str:
    """Return a line of a plan: what it is about, what is done, and with what."""
    return f"  {what:<9}  {verb:<7}  {text}".rstrip()


def _first(plan: Plan) -> str:
    """Return what happens before the build proper."""
    source = plan.recipe.source
    if source and plan.image.build_base:
        files = how_many(source.count, "file")
        return f"   (built first, of {files}, {size(source.size)})"
    return "   (the base is pulled first)" if plan.image.pull else ""


def _with(spec: ContainerSpec) -> str:
    count = len(spec.packages) + len(spec.apt_packages) + spec.jupyter
    base = "sshd" if spec.image.startswith("tensorflow/") else "sshd, python3 if it has none"
    return base + (f" + {how_many(count, 'package')}" if count else "")


def _container(plan: Plan) -> Iterator[str]:
    spec = plan.spec
    yield spec.name
    yield f"gpus {spec.gpus}"
    yield f"shm {spec.shm_size}"
    if spec.memory:
        yield f"memory {spec.memory}"
    if spec.network != "bridge":
        yield f"network {spec.network}"
    yield f"ssh 127.0.0.1:{plan.port}"


def _volume(volume: str) -> str:
    source, _, rest = volume.partition(":")
    target, _, mode = rest.partition(":")
    return f"{source} -> {target}" + (" (read-only)" if mode == "ro" else "")


def ready_line(host: str, environment: Environment, seen: Seen, seconds: float, gpus: int) -> str:
    """Return the outcome: `gpu01   ready in 48 s   Python 3.8.10   TensorFlow 2.9.3   4 of 4 GPUs   ...`."""
    words = [f"{host}   ready in {seconds:.0f} s", *environment_words(environment)]
    if gpus:
        words.append(f"{seen.gpu_count} of {gpus} GPUs")
    words.append(f"user {environment.user} ({environment.uid})")
    if seen.free_mb is not None:
        words.append(f"{size(seen.free_mb * MEGABYTE)} free")
    return "   ".join(words)


def unchanged_line(host: str, environment: Environment) -> str:
    """Return what is there and stays as it is."""
    words = [f"{host}   unchanged", *environment_words(environment), f"user {environment.user}"]
    if environment.port:
        words.append(f"ssh 127.0.0.1:{environment.port}")
    return "   ".join(words)


def environment_words(environment: Environment) -> Iterator[str]:
    """Yield Python and TensorFlow, or PyTorch, with their versions."""
    yield f"Python {environment.python}"
    yield framework(environment) or "no TensorFlow"


def framework(seen: Environment | Seen) -> str:
    """Return what trains there, with its version; empty for neither TensorFlow nor PyTorch."""
    if seen.tensorflow:
        return f"TensorFlow {seen.tensorflow}"
    return f"PyTorch {seen.torch}" if seen.torch else ""


def cpu_only_warning(seen: Seen, gpus: int) -> str | None:
    """Return a warning where GPUs are given to a framework that can't use any."""
    if gpus and framework(seen) and not seen.cuda:
        return f"{framework(seen)} is built without CUDA: it trains on the CPU"
    return None
