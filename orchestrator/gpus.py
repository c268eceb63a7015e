"""The GPUs of many hosts as rows for people and as JSON. Nothing here asks or prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.errors import LostConnection, NotPermitted, OrchError, Unreachable
from orchestrator.facts.gpu import Gpu, GpuReport, in_use, is_free
from orchestrator.facts.gpu_process import GpuProcess
from orchestrator.units import duration

DEADLINE = 30.0
"""Seconds a host has for the answer: nvidia-smi's own limit there is 20."""


@dataclass(frozen=True)
class HostGpus:
    """What one host answered, or why it did not."""

    host: str
    report: GpuReport | None = None
    error: OrchError | None = None

    @property
    def failed(self) -> bool:
        """Whether the question was not answered. A host without an NVIDIA GPU is no failure."""
        return self.report is None or bool(self.report.problem and not self.report.absent)

    @property
    def faulty(self) -> bool:
        """Whether something is wrong with the GPUs of the host."""
        return self.failed or bool(
            self.report and (self.report.warnings or any(g.fault for g in self.report.gpus))
        )


@dataclass(frozen=True)
class Row:
    """One GPU in words; "-" where there is no value. `busy` is 0 to 100, None when not known."""

    index: str
    utilization: str
    busy: int | None
    memory: str
    temperature: str
    power: str
    who: str


def title(host: HostGpus) -> str:
    """Return what stands behind the host's name: its GPUs, or why there are none."""
    if isinstance(host.error, LostConnection):
        return "connection lost"
    if host.error:
        kinds = ((Unreachable, "unreachable: "), (NotPermitted, "not permitted: "))
        kind = next((text for error, text in kinds if isinstance(host.error, error)), "")
        return kind + _with_hint(host.error.message, host.error.hint)
    report = host.report or GpuReport()
    if report.problem:
        return ("no GPU ({})" if report.absent else "{}").format(_with_hint(report.problem, report.hint))
    names = Counter((g.name or "GPU without a name").removeprefix("NVIDIA ") for g in report.gpus)
    return " + ".join(f"{count} x {name}" for name, count in names.items())


def row(gpu: Gpu) -> Row:
    """Return a GPU's values in words."""
    return Row(
        index="-" if gpu.index is None else str(gpu.index),
        utilization="MIG" if gpu.mig else _unit(gpu.utilization, "%"),
        busy=gpu.utilization,
        memory=_memory(gpu),
        temperature=_unit(gpu.temperature, "C"),
        power=_unit(None if gpu.power_w is None else round(gpu.power_w), "W"),
        who=who(gpu),
    )


def who(gpu: Gpu) -> str:
    """Return who uses a GPU, each run once: `ana: nightly, bob: python3 (outside orch, 9 h)`."""
    if gpu.fault:
        return f"fault: {gpu.fault}"
    if gpu.processes:
        return ", ".join(dict.fromkeys(map(user, gpu.processes)))
    if in_use(gpu):
        return "in use: memory is held, no process seen"
    return "free" if is_free(gpu) else "not known"


def user(process: GpuProcess) -> str:
    """Return who a process belongs to: a run by its name; else the program, where it is and since when."""
    if process.run_id:
        return f"{process.person}: {process.run_name}"
    where = [] if not process.outside else ["outside orch"]
    where += [f"in {process.container}"] if process.container else []
    where += [duration(process.seconds)] if process.seconds is not None else []
    person = process.person or process.user
    name = f"{person}: {process.name}" if person else process.name
    return f"{name} ({', '.join(where)})" if where else name


def as_json(host: HostGpus) -> dict[str, Any]:
    """Return a host as plain values; null where a value is absent. Memory in MiB, power in W."""
    problem, hint = (host.error.message, host.error.hint) if host.error else (None, None)
    report = host.report or GpuReport(problem=problem, hint=hint)
    return {
        "host": host.host,
        "state": _state(host),
        "problem": report.problem,
        "hint": report.hint,
        "warnings": list(report.warnings),
        "gpus": [_gpu_json(gpu) for gpu in report.gpus],
    }


def _with_hint(message: str, hint: str | None) -> str:
    return f"{message.rstrip('.')}. {hint}" if hint else message


def _unit(value: int | None, unit: str) -> str:
    return "-" if value is None else f"{value} {unit}"


def _memory(gpu: Gpu) -> str:
    if gpu.memory_total_mb is None and gpu.memory_used_mb is None:
        return "-"
    return f"{_gb(gpu.memory_used_mb)}/{_gb(gpu.memory_total_mb)} GB"


def _gb(mib: int | None) -> str:
    """GiB under the name that the cards are sold by: 40960 MiB is a 40 GB card. One decimal below 1."""
    if mib is None:
        return "-"
    return f"{mib / 1024:.1f}" if 50 < mib < 1000 else f"{mib / 1024:.0f}"


def _state(host: HostGpus) -> str:
    if isinstance(host.error, Unreachable):
        return "unreachable"
    if host.failed:
        return "failed"
    if host.report and host.report.absent:
        return "no gpu"
    return "faulty" if host.faulty else "ok"


def _gpu_json(gpu: Gpu) -> dict[str, Any]:
    return {
        **asdict(gpu),
        "absent": dict(gpu.absent),
        "in_use": in_use(gpu),
        "free": is_free(gpu),
        "processes": [asdict(process) for process in gpu.processes],
    }
