"""Which Python and which TensorFlow a venv on a host is made of. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.container.inputs import Inputs
from orchestrator.container.spec import TENSORFLOW
from orchestrator.errors import ConfigError, HostError
from orchestrator.facts.system import Python, SystemReport
from orchestrator.inventory import Host
from orchestrator.render import digest
from orchestrator.units import dotted

PYTHONS = (
    # (TensorFlow from, oldest Python, newest Python)
    ((2, 21), (3, 10), (3, 13)),
    ((2, 20), (3, 9), (3, 13)),
    ((2, 16), (3, 9), (3, 12)),
    ((2, 14), (3, 9), (3, 11)),
    ((2, 12), (3, 8), (3, 11)),
    ((2, 11), (3, 8), (3, 10)),
    ((2, 8), (3, 7), (3, 10)),
    ((2, 6), (3, 7), (3, 9)),
    ((2, 5), (3, 6), (3, 9)),
    ((2, 2), (3, 6), (3, 8)),
    ((2, 0), (3, 6), (3, 7)),
)
"""Which Pythons a TensorFlow has wheels for: the tags of the newest patch's files on
https://pypi.org/project/tensorflow/#files (2.5.0 to 2.21.0, manylinux, x86_64)."""

OTHERS = (
    # (TensorFlow below, what its metadata does not say of others)
    ((2, 12), ("numpy<1.24", "protobuf<3.20", "transformers<5")),
    ((2, 18), ("numpy<2", "transformers<5")),
)
"""Constraints, as templates/container/constraints.py has them for images.

Before 2.12 the metadata caps neither: numpy 1.24 took away np.object and np.bool, which those releases use
(https://numpy.org/doc/stable/release/1.24.0-notes.html#expired-deprecations), and protobuf 3.20 and newer
refuse their generated files (https://protobuf.dev/news/2022-05-06/#python-updates). 2.12 to 2.17 are built
against numpy 1; 2.18 is the first for numpy 2 (https://github.com/tensorflow/tensorflow/releases/tag/v2.18.0).
"""

NEWEST = "newest"
"""The version where none is set and 2.9.3 has no wheel for any Python there."""

CUDA_11 = (
    "nvidia-cublas-cu11<12",
    "nvidia-cuda-cupti-cu11<12",
    "nvidia-cuda-nvcc-cu11<12",
    "nvidia-cuda-nvrtc-cu11<12",
    "nvidia-cuda-runtime-cu11<12",
    "nvidia-cudnn-cu11<9",
    "nvidia-cufft-cu11<11",
    "nvidia-curand-cu11<11",
    "nvidia-cusolver-cu11<12",
    "nvidia-cusparse-cu11<12",
)
"""What TensorFlow 2.5 to 2.13 needs for GPUs and its wheel does not bring.

Tried with 2.9.3: every library that it opens is in them (libcudart.so.11.0, libcublas.so.11,
libcublasLt.so.11, libcufft.so.10, libcurand.so.10, libcusolver.so.11, libcusparse.so.11, libcudnn.so.8);
nvcc has ptxas and libdevice, for XLA.
"""


@dataclass(frozen=True)
class VenvSpec:
    """Everything that a venv is made of. `env` holds digests of the values."""

    python: str  # path; empty: uv fetches one of this version
    version: tuple[int, ...]
    tensorflow: tuple[str, ...]  # pip requirements
    constraints: tuple[str, ...]
    requirements: tuple[str, ...]
    platform: str  # processor and release: hosts that share a home share a venv only where both are the same
    pip: bool  # the Python can make a venv with pip by itself; else uv does
    activate: str | None = None
    gpus: str = "auto"
    ca_bundle: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    locked: tuple[str, ...] = ()  # exactly these packages, as image.lock has them

    @property
    def installation(self) -> str:
        """What two equal installations share: the name of the folder."""
        parts: list[Any] = [self.tensorflow, self.constraints, self.requirements, self.activate]
        parts += [self.locked] if self.locked else []
        return digest(self.python, str(self.version), self.platform, *(json.dumps(part) for part in parts))[
            :12
        ]

    @property
    def cuda(self) -> bool:
        """Whether CUDA comes by wheels."""
        return any("cu11" in r or "and-cuda" in r for r in self.tensorflow)

    @property
    def told(self) -> dict[str, Any]:
        """What a change of is told in the plan; the other fields follow from these."""
        kept_to = {"locked": True} if self.locked else {}
        return {
            **kept_to,
            "python": f"{dotted(self.version)} {self.python or 'by uv'}",
            "platform": self.platform,
            "tensorflow": self.tensorflow[0] + (" with CUDA" if self.cuda else ""),
            "requirements": self.requirements,
            "activate": self.activate,
            "gpus": self.gpus,
            "ca_bundle": self.ca_bundle,
            "env": self.env,
        }


def venv_spec(host: Host, system: SystemReport, inputs: Inputs, *, gpus: bool) -> VenvSpec:
    """Choose Python and TensorFlow. Raises ConfigError or HostError when the host has no fitting Python."""
    version, python = choose(host, system)
    cpu = not gpus and system.arch in ("x86_64", "amd64")
    return VenvSpec(
        python=python.path,
        version=python.version,
        tensorflow=_tensorflow(version, cpu=cpu, gpus=gpus),
        constraints=constraints(version),
        requirements=inputs.packages(jupyter=host.settings.jupyter),
        platform=" ".join((system.arch, system.os_id, system.os_version)).strip(),
        pip=python.venv,
        activate=host.settings.activate,
        gpus=host.settings.gpus,
        ca_bundle=inputs.ca_digest,
        env=inputs.env_digests,
    )


def choose(host: Host, system: SystemReport) -> tuple[str, Python]:
    """Return a TensorFlow and a Python for it: as set, else 2.9.3 where it can run, else the newest.

    A Python without a path is none of the host's: uv can fetch it.
    """
    usable = [p for p in system.pythons if p.venv or system.uv]
    if host.settings.python:
        usable = [_named(host, usable, system.home)]
    wish = host.settings.tensorflow
    for version in [wish] if wish else [TENSORFLOW, NEWEST]:
        oldest, newest = span(version)
        found = [p for p in usable if oldest <= p.version[:2] <= newest]
        if found:
            return version, max(found, key=lambda p: p.version)
    if system.uv and not host.settings.python:
        version = wish or TENSORFLOW
        return version, Python("", span(version)[1], venv=False)
    raise _no_python(host, system, [wish] if wish else [TENSORFLOW, NEWEST])


def _no_python(host: Host, system: SystemReport, versions: Sequence[str]) -> HostError:
    """Return the error that says which Pythons would do, and the nearest way to one."""
    spans = [span(version) for version in versions]
    lame = [p for p in system.pythons if any(low <= p.version[:2] <= high for low, high in spans)]
    wanted = " or ".join(f"{low[0]}.{low[1]} to {high[0]}.{high[1]}" for low, high in spans)
    there = ", ".join(dotted(p.version) for p in system.pythons) or "none"
    why = f"it needs Python {wanted} (found: {there})"
    hint = "Install one there (no root needed: uv python install 3.10), or name it: python = PATH."
    if lame:
        why = f"{lame[0].path} can't make one, it has no ensurepip or no ssl (found: {there})"
        hint = f"As root there: apt-get install python{lame[0].version[0]}.{lame[0].version[1]}-venv."
    message = f"no Python here can run TensorFlow {versions[-1]} in a venv: {why}"
    return HostError(message, where=host.name, hint=hint)


def _named(host: Host, usable: Sequence[Python], home: str) -> Python:
    """Return the Python that the setting names: a path, a name like python3.10, or a version."""
    wish = host.settings.python or ""
    if wish.startswith("~/"):
        wish = home + wish[1:]
    for python in usable:
        version = dotted(python.version)
        name = python.path.rpartition("/")[2]
        if wish in (python.path, name) or re.match(rf"{re.escape(wish)}(\.|\Z)", version):
            return python
    raise ConfigError(
        f"python = {host.settings.python}: {host.name} has no such Python that can make a venv",
        where=host.came_from("python"),
        hint="Name a version (3.10), or leave `python` empty.",
    )


def numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; the newest is above all."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2]) or (99,)


def span(version: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the oldest and newest Python for a TensorFlow."""
    for since, oldest, newest in PYTHONS:
        if numbers(version) >= since:
            return oldest, newest
    return PYTHONS[-1][1:]


def constraints(version: str) -> tuple[str, ...]:
    """Return what TensorFlow's own metadata does not say."""
    return next((others for below, others in OTHERS if numbers(version) < below), ())


def _tensorflow(version: str, *, cpu: bool, gpus: bool) -> tuple[str, ...]:
    pin = "" if version == NEWEST else f"=={version}"
    board = ("tensorboard",) if numbers(version) >= (2, 21) else ()  # a dependency only before
    if cpu:
        return (f"tensorflow-cpu{pin}", *board)
    if gpus and numbers(version) >= (2, 14):
        return (f"tensorflow[and-cuda]{pin}", *board)
    return (f"tensorflow{pin}", *board, *(CUDA_11 if gpus else ()))
