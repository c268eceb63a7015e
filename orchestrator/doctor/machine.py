"""Checks on the machine and the account: processor, tools, clock, the root folder, volumes, sessions."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.container.ground import LITTLE_MB, VENV_NO_EXEC, ground_notes, unseen
from orchestrator.doctor.check import Check, Examined, fail, ok, warn
from orchestrator.doctor.engine import room
from orchestrator.units import duration

ROOT_WARN_MB = 5_000
"""Room in `root` that is well: code, logs and checkpoints."""

VENV_MB, VENV_WARN_MB = 5_000, 10_000
"""Room in `root` where it holds a venv with TensorFlow as well (2 GB, twice while it is installed)."""

SKEW = 30.0
"""Seconds that a host's clock may differ before ages and times in listings look wrong."""

_ALWAYS = ("tar", "base64")
_WITHOUT_CONTAINER = ("flock", "setsid", "nohup")


def checks(seen: Examined) -> Iterator[Check]:
    """Check what every engine needs."""
    system = seen.system
    yield ok(
        "login", f"{system.user} ({system.uid}), {system.os_name or system.kernel}, {system.shell or 'sh'}"
    )
    if system.system not in ("", "Linux"):
        yield fail("system", f"{system.system}: runs need Linux", "Take a Linux host; this one can reach it.")
    yield _processor(seen)
    yield from _tools(seen)
    yield from _root(seen)
    yield from _volumes(seen)
    yield _clock(seen)
    if system.kill_user_processes and not seen.host.settings.in_container and not system.linger:
        yield fail(
            "sessions",
            "systemd ends an account's processes at logout (KillUserProcesses=yes): a run would die",
            f"As root there: loginctl enable-linger {system.user}.",
        )


def _processor(seen: Examined) -> Check:
    arch, avx = seen.system.arch, seen.system.avx
    docker = seen.host.settings.in_container
    if docker and arch not in ("x86_64", "amd64") and "tensorflow/tensorflow:" in seen.image:
        hint = f"Set image to one for {arch}{seen.set_in('image')}, or engine = venv."
        return fail("processor", f"{arch}: {seen.image} is for x86_64 only", hint)
    if avx is False:
        hint = "Use another host, or an image whose TensorFlow is built without AVX."
        return fail("processor", f"{arch} without AVX: TensorFlow dies with 'illegal instruction'", hint)
    cpus, memory = seen.system.cpus or "?", (seen.system.memory_mb or 0) / 1024
    return ok("processor", f"{arch}, {cpus} CPUs, {memory:.0f} GB memory")


def _tools(seen: Examined) -> Iterator[Check]:
    docker = seen.host.settings.in_container
    needed = _ALWAYS if docker else (*_ALWAYS, *_WITHOUT_CONTAINER)
    missing = [tool for tool in needed if tool not in seen.system.tools]
    if missing:
        hint = "Install them there: they are in coreutils, tar and util-linux."
        yield fail("tools", f"missing: {', '.join(missing)}", hint)
    elif docker and "flock" not in seen.system.tools:
        hint = "Install util-linux there."
        yield warn("tools", "no flock: whether a run lives is told by its process id alone", hint)
    else:
        yield ok("tools", ", ".join(needed))


def _root(seen: Examined) -> Iterator[Check]:
    system, place = seen.system, seen.set_in("root")
    venv = seen.host.settings.engine == "venv"
    problem = seen.place.mount.problem(system.user)
    if not problem and seen.host.settings.in_container:
        problem = unseen(seen.place.mount, system, seen.docker)
    if problem:
        hint = f"Set root to another folder{place}."
        yield fail("root", f"{system.root} can't be used: {problem}", hint)
        return
    if venv and not seen.place.mount.executes:
        yield fail("root", VENV_NO_EXEC, f"Set root to another folder{place}, or engine = docker.")
        return
    for note in ground_notes(seen.place.mount):
        yield warn("root", note, f"A root on another disk has no such limits{place}.")
    disk = system.root_disk
    least, wished = (VENV_MB, VENV_WARN_MB) if venv else (LITTLE_MB, ROOT_WARN_MB)
    if disk is None:
        yield warn("root", f"the room in {system.root} is not known", "Look there: df.")
        return
    yield room("root", disk, least, wished, f"Delete old runs there, or set root to a larger disk{place}.")
    if disk.inodes_free is not None and disk.inodes_free < 1000:
        yield fail("root", f"{disk.inodes_free} inodes left in {disk.path}", "Delete files on that disk.")


def _volumes(seen: Examined) -> Iterator[Check]:
    missing = [s.written for s in seen.place.sources if s.kind == "missing"]
    if missing:
        hint = f"Make it there, or change volumes{seen.set_in('volumes')}."
        yield fail("volumes", f"not on the host: {', '.join(missing)}", hint)
    elif seen.place.sources:
        yield ok("volumes", ", ".join(s.written for s in seen.place.sources))


def _clock(seen: Examined) -> Check:
    """Compare the host's clock with ours; it was read at some time between our two readings."""
    time, (before, after) = seen.system.time, seen.asked
    if time is None:
        return warn("clock", "the host's time is not known", "Look there: date.")
    skew = min(time - before, 0) or max(time - after, 0)
    if abs(skew) <= SKEW:
        return ok("clock", "as here")
    which = "behind" if skew < 0 else "ahead"
    return warn("clock", f"{duration(abs(skew))} {which}: times of runs look wrong", "Turn on NTP there.")
