"""The GPUs of a host: what each does, who uses it and for which run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.facts import nvidia_smi
from orchestrator.facts.gpu_process import FIELDS, GpuProcess, describer
from orchestrator.facts.lines import Lines
from orchestrator.facts.question import Fact, Section

HELD_MB = 500
"""MiB held above which a GPU counts as used though no process is seen (it may be hidden from us)."""

_KILLED = (124, 137)  # what timeout(1) ends with
_GONE = ("Unable to determine the device handle", "GPU is lost")
_NOBODY = "No running processes found"


@dataclass(frozen=True)
class Gpu:
    """One GPU; None where the driver has no value. `absent` keeps the driver's own words for those."""

    index: int | None = None
    uuid: str | None = None
    name: str | None = None
    driver: str | None = None
    memory_total_mb: int | None = None
    memory_used_mb: int | None = None
    utilization: int | None = None
    temperature: int | None = None
    power_w: float | None = None
    mig: bool = False
    fault: str | None = None
    processes: tuple[GpuProcess, ...] = ()
    processes_known: bool = True
    absent: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class GpuReport:
    """All GPUs of a host. `problem` says why there are none; `absent`: the host has no NVIDIA GPU at all."""

    gpus: tuple[Gpu, ...] = ()
    problem: str | None = None
    hint: str | None = None
    warnings: tuple[str, ...] = ()
    absent: bool = False

    @property
    def driver(self) -> str | None:
        """The driver's version."""
        return next((g.driver for g in self.gpus if g.driver), None)


def in_use(gpu: Gpu) -> bool:
    """Whether someone uses a GPU: a compute process, or more than HELD_MB held. Absent values are no use."""
    return bool(gpu.processes) or (gpu.memory_used_mb is not None and gpu.memory_used_mb > HELD_MB)


def is_free(gpu: Gpu) -> bool:
    """Whether a run may take a GPU: known, without fault, and nobody's as far as can be seen.

    templates/run/gpus.sh.j2 has the same rule: it chooses on the host, in the launch's one exec.
    """
    seen = gpu.processes_known or gpu.memory_used_mb is not None
    return gpu.uuid is not None and not gpu.fault and seen and not in_use(gpu)


def parse(section: Section) -> GpuReport:
    """Read the answer of `facts/gpu.sh.j2`."""
    lines = Lines(section.text)
    if not lines.text("smi"):
        return _without_smi(lines)
    if lines.number("status") in _KILLED:
        return GpuReport(problem=nvidia_smi.SLOW, hint=nvidia_smi.SLOW_HINT)
    fields = lines.text("fields").split(",")
    answer = nvidia_smi.rows(lines.texts("gpu"), fields, "name")
    gpus = [_gpu(row) for row in answer.rows] or list(_one_by_one(lines, fields))
    if not gpus:
        return _complaint(answer.messages, lines.number("status"))
    gpus, warnings = _with_processes(gpus, lines)
    gone = [m for m in answer.messages if any(part in m for part in _GONE)] if answer.rows else []
    return GpuReport(
        gpus=(*gpus, *(Gpu(fault=message, processes_known=False) for message in gone)),
        warnings=(*(m for m in answer.messages if answer.rows and m not in gone), *warnings),
    )


GPUS: Fact[GpuReport] = Fact("gpu", "facts/gpu.sh.j2", parse)


def _without_smi(lines: Lines) -> GpuReport:
    if lines.text("jetson"):
        return GpuReport(
            problem="nvidia-smi not found on this Jetson: it has a GPU, but no metrics",
            hint="JetPack 6 brings nvidia-smi; orch's TensorFlow images are for x86_64 only",
        )
    cards = lines.number("cards")
    if cards:
        return GpuReport(
            problem=f"nvidia-smi not found, though an NVIDIA card is there ({cards} in all)",
            hint="Install the NVIDIA driver, or name the folder of nvidia-smi in remote_path",
        )
    return GpuReport(problem="nvidia-smi not found", absent=True)


def _complaint(messages: Sequence[str], status: int | None) -> GpuReport:
    said = messages[0] if messages else f"nvidia-smi printed nothing (exit status {status})"
    hint = nvidia_smi.hint(" ".join(messages))
    return GpuReport(problem=(said.split(". ")[0] if hint else said).rstrip("."), hint=hint)


def _one_by_one(lines: Lines, fields: Sequence[str]) -> Iterator[Gpu]:
    """The GPUs as each answered when asked alone; one that gave no row is a fault."""
    for number, *words in lines.all("one", 1):
        answer = nvidia_smi.rows(["\t".join(words)], fields, "name")
        yield from (_gpu(row) for row in answer.rows)
        for message in answer.messages:
            if "No devices were found" not in message:
                yield Gpu(int(number), fault=message, processes_known=False)


def _gpu(row: Mapping[str, str]) -> Gpu:
    def whole(field: str) -> int | None:
        value = nvidia_smi.number(row.get(field, ""))
        return None if value is None else round(value)

    def text(field: str) -> str | None:
        value = row.get(field, "")
        return None if nvidia_smi.is_absent(value) else value

    return Gpu(
        index=whole("index"),
        uuid=text("uuid"),
        name=text("name"),
        driver=text("driver_version"),
        memory_total_mb=whole("memory.total"),
        memory_used_mb=whole("memory.used"),
        utilization=whole("utilization.gpu"),
        temperature=whole("temperature.gpu"),
        power_w=nvidia_smi.number(row.get("power.draw", "")),
        mig=row.get("mig.mode.current", "") == "Enabled",
        fault=next(filter(None, map(nvidia_smi.fault, row.values())), None),
        absent=tuple((field, cell) for field, cell in row.items() if nvidia_smi.is_absent(cell)),
    )


def _with_processes(gpus: Sequence[Gpu], lines: Lines) -> tuple[list[Gpu], tuple[str, ...]]:
    answer = nvidia_smi.rows(lines.texts("app"), FIELDS, "process_name")
    messages = tuple(m for m in answer.messages if _NOBODY not in m)
    status = lines.number("apps-status")
    if not answer.rows and (status or messages):
        said = messages[0] if messages else f"exit status {status}"
        said = nvidia_smi.SLOW if status in _KILLED else said
        return [replace(g, processes_known=False) for g in gpus], (f"processes are not known: {said}",)
    describe = describer(lines)
    used = [(row["gpu_uuid"], describe(row)) for row in answer.rows]
    return [replace(g, processes=tuple(p for uuid, p in used if uuid == g.uuid)) for g in gpus], messages
