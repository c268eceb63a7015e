"""Checks on GPUs, their driver, and how containers get at them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.container.causes import GPUS_BY_CDI, GPUS_BY_RUNTIME
from orchestrator.doctor.check import Check, Examined, fail, ok, skip, version, warn

_TENSORFLOW = re.compile(r"(?:.*/)?tensorflow/tensorflow:(\d+)\.(\d+)")

CUDA_11_DRIVER = (450, 80, 2)
"""The least driver for CUDA 11.x, TensorFlow 2.5 to 2.14 (NVIDIA, CUDA compatibility, minor versions)."""

CUDA_11_2_DRIVER = (460,)
"""What CUDA 11.2 came with; on consumer cards the toolkit refuses older ones (NVIDIA_REQUIRE_CUDA)."""

CUDA_12_DRIVER = (525, 60, 13)
"""The least driver for CUDA 12.x, TensorFlow 2.15 and newer."""

_HOOKS = frozenset({"nvidia-container-runtime-hook", "nvidia-container-toolkit"})


def checks(seen: Examined) -> Iterator[Check]:
    """Check GPUs, driver and toolkit; nothing where the settings want no GPU."""
    if seen.host.settings.gpus == "none":
        yield skip("gpus", "gpus = none")
        return
    yield from _gpus(seen)
    if not seen.gpus.gpus:
        return
    yield _driver(seen)
    if seen.host.settings.in_container and seen.docker.trouble is None:
        yield _toolkit(seen)
        yield from _lost(seen)


def _gpus(seen: Examined) -> Iterator[Check]:
    report, wish = seen.gpus, seen.host.settings.gpus
    if report.absent and wish == "auto":
        yield ok("gpus", "no NVIDIA GPU: training runs on the CPU")
    elif report.problem:
        hint = report.hint or f"Set gpus = none{seen.set_in('gpus')}, or install the driver"
        yield fail("gpus", report.problem, f"{hint}.")
    else:
        yield _health(seen)
    if any(gpu.mig for gpu in report.gpus):
        yield warn("mig", "MIG is on: a TensorFlow process sees one slice at most, whatever --gpus says")
    for warning in report.warnings:
        yield warn("gpus", warning)


def _health(seen: Examined) -> Check:
    gpus = seen.gpus.gpus
    broken = [f"GPU {'?' if g.index is None else g.index}: {g.fault}" for g in gpus if g.fault]
    if broken:
        return fail(
            "gpus", "; ".join(broken), "Reset or reboot the host, or leave those GPUs out (gpus = ...)."
        )
    wish = seen.host.settings.gpus
    if wish.isdecimal() and int(wish) > len(gpus):
        hint = f"Change `gpus`{seen.set_in('gpus')}."
        return fail("gpus", f"gpus = {wish}, but the host has {len(gpus)}", hint)
    return ok("gpus", f"{len(gpus)} x {(gpus[0].name or 'GPU').removeprefix('NVIDIA ')}")


def _driver(seen: Examined) -> Check:
    driver = seen.gpus.driver
    if not seen.host.settings.in_container:
        return ok("driver", f"{driver or 'of unknown version'}")
    image = _TENSORFLOW.match(seen.image)
    have = version(driver)
    if not image:
        return skip("driver", f"{driver}; what {seen.image} needs is not known")
    if not have:
        return warn(
            "driver", f"the driver's version is not known; {seen.image} needs {_text(CUDA_11_DRIVER)}"
        )
    release = (int(image[1]), int(image[2]))
    least = CUDA_11_DRIVER if release < (2, 15) else CUDA_12_DRIVER
    if have < least:
        hint = f"Update the NVIDIA driver, or choose an older image{seen.set_in('image')}."
        return fail("driver", f"{driver} is too old for {seen.image}: {_text(least)} or newer", hint)
    if release < (2, 12) and have < CUDA_11_2_DRIVER:
        return warn("driver", f"{driver}: below 460 {seen.image} works on datacenter cards only", None)
    return ok("driver", f"{driver}")


def _text(numbers: tuple[int, ...]) -> str:
    return ".".join(f"{n:02}" if place else str(n) for place, n in enumerate(numbers))


def _lost(seen: Examined) -> Iterator[Check]:
    """Check that the container still has what it was given: a reload of systemd can take it away."""
    if "Failed to initialize NVML" in seen.docker.inside:
        name = seen.host.name
        yield fail(
            "container",
            f"{seen.container} has lost its GPUs, the host has them (systemctl daemon-reload does that)",
            f"Make it anew: orch down --hosts {name}, then orch deploy --hosts {name}.",
        )


def _toolkit(seen: Examined) -> Check:
    if seen.docker.kind == "podman" and not seen.docker.cdi:
        return fail(
            "toolkit",
            "podman knows no GPUs to give to containers",
            f"{GPUS_BY_CDI}.",
        )
    if seen.docker.kind == "podman":
        return ok("toolkit", f"containers can have the GPUs by {seen.docker.cdi[0]}")
    if "nvidia" in seen.docker.runtimes or seen.system.tools & _HOOKS:
        return ok("toolkit", "containers can have the GPUs")
    return fail(
        "toolkit",
        "Docker can't give GPUs to containers",
        f"{GPUS_BY_RUNTIME}.",
    )
