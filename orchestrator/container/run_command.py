"""The `docker run` of a spec, and the files that its container starts with."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator import __version__
from orchestrator.container.identity import Identity
from orchestrator.container.plan import Plan
from orchestrator.container.spec import STOP_SECONDS, ContainerSpec
from orchestrator.hosts.command import Command, Secret
from orchestrator.render import render

LIMITS = "--ulimit memlock=-1 --ulimit stack=67108864"
"""What NVIDIA's images ask for: NCCL pins memory."""

_LONGEST = 60_000
"""Bytes of a line that `docker run --env-file` reads: its scanner ends at 64 KiB."""


@dataclass(frozen=True)
class Setup:
    """What lies in P/hosts/<machine>/container/<digest>/ for one container."""

    folder: str  # as seen from inside
    files: Mapping[str, bytes]


def setup(plan: Plan, startup: bytes | None) -> Setup:
    """Render the files that the entrypoint reads."""
    spec = plan.spec
    inside = plan.port if spec.network == "host" else 22
    here = f"/orch/hosts/{spec.hostname}"
    config = render(
        "container/sshd_config.j2",
        port=inside,
        listen="127.0.0.1" if spec.network == "host" else None,
        user=spec.user.name,
        keys=f"{here}/ssh/authorized_keys",
    )
    values = render(
        "container/setup.sh.j2",
        name=spec.name,
        user=spec.user,
        port=inside,
        keys=f"{here}/ssh",
        jupyter=spec.jupyter,
    )
    files = {"setup.sh": values.encode(), "sshd_config": config.encode()}
    if startup is not None:
        files["startup"] = startup
    return Setup(f"{here}/container/{spec.digest[:12]}", files)


def run_command(plan: Plan, identity: Identity, engine: tuple[str, ...], env_digest: str) -> Command:
    """Return the `docker run` line. Values of the environment come on stdin (`env_file`), or are exported."""
    spec = plan.spec
    words = [*engine, "run", "-d", "--init", "--name", spec.name, "--hostname", spec.hostname]
    words += ["--restart", "no", "--stop-timeout", str(STOP_SECONDS)]
    words += ["--tmpfs", "/run/orch", "--shm-size", spec.shm_size, *_limits(spec)]
    words += [*_gpus(spec), *_network(spec), *_published(plan), *spec.options]
    for mount in _mounts(spec):
        words += ["--mount", mount]
    for key, value in _labels(plan, identity, env_digest).items():
        words += ["--label", f"{key}={value}"]
    words += ["--env-file", "/dev/stdin"]
    return Command(tuple(words))


def ending(plan: Plan, exported: Iterable[str]) -> Command:
    """Return the rest of the `docker run` line: names of exported values, the image, the setup's folder."""
    words = [word for name in exported for word in ("-e", name)]
    return Command((*words, plan.tag, f"/orch/hosts/{plan.spec.hostname}/container/{plan.spec.digest[:12]}"))


def environment_for(values: Mapping[str, str]) -> tuple[str, dict[str, Secret]]:
    """Part values into the text of an env file, and those that it can't hold and that are exported."""
    simple = {n: v for n, v in values.items() if not re.search(r"[\r\n]", v) and len(v.encode()) < _LONGEST}
    others = {n: Secret(v) for n, v in values.items() if n not in simple}
    return "".join(f"{name}={value}\n" for name, value in simple.items()), others


def keeping(engine: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """Have sudo pass on what the engine shall read from its environment."""
    kept = ",".join(sorted(names))
    if engine[0].rpartition("/")[2] == "sudo" and kept:
        return (engine[0], f"--preserve-env={kept}", *engine[1:])
    return tuple(engine)


def _limits(spec: ContainerSpec) -> list[str]:
    words = []
    for flag, value in (("--memory", spec.memory), ("--cpus", spec.cpus)):
        words += [flag, value] if value else []
    return words


def _gpus(spec: ContainerSpec) -> list[str]:
    wish = spec.gpus
    if wish == "none":
        return []
    if spec.engine == "podman":  # by their CDI names: `all`, an index or a UUID
        names = map(str, range(int(wish))) if wish.isdecimal() else wish.split(",")
        return [f"--device=nvidia.com/gpu={name}" for name in names]
    return ["--gpus", wish if wish == "all" or wish.isdecimal() else f'"device={wish}"']


def _network(spec: ContainerSpec) -> list[str]:
    """Name the network, but for podman's usual one: rootless, a bridge is another thing than that."""
    return [] if spec.engine == "podman" and spec.network == "bridge" else ["--network", spec.network]


def _published(plan: Plan) -> Iterator[str]:
    spec = plan.spec
    if spec.network == "host":
        return
    yield from ("--publish", f"127.0.0.1:{plan.port}:22")
    for port in spec.publish:
        yield from ("--publish", f"127.0.0.1:{port}:{port}")
    if spec.cluster:
        ports = spec.cluster.rpartition(":")[2]
        yield from ("--publish", f"{spec.cluster}:{ports}")


def _mounts(spec: ContainerSpec) -> Iterator[str]:
    """Yield values of --mount: unlike -v it makes no missing folder. They are CSV, so commas are quoted."""
    yield _mount(spec.place, "/orch")
    yield _mount(f"{spec.place}/home", spec.user.home)
    yield _mount(f"{spec.place}/workspace", "/workspace")
    for volume in spec.volumes:
        source, _, rest = volume.partition(":")
        target, _, mode = rest.partition(":")
        yield _mount(source, target, *(["readonly"] if mode == "ro" else []))


def _mount(source: str, target: str, *options: str) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(["type=bind", f"source={source}", f"target={target}", *options])
    return out.getvalue().rstrip("\r\n")


def _labels(plan: Plan, identity: Identity, env_digest: str) -> dict[str, str]:
    return {
        "orch.person": identity.person.name,
        "orch.project": identity.project.name,
        "orch.folder": identity.folder,
        "orch.spec": plan.spec.text(),
        "orch.recipe": plan.recipe.digest,
        "orch.env": env_digest,
        "orch.port": str(plan.port),
        "orch.user": plan.spec.user.name,
        "orch.version": __version__,
    }
