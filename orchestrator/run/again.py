"""A run that ran, once more: its order on a host, and how its environment then compares with what it had."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator import __version__
from orchestrator.container.env_file import read_env_file
from orchestrator.container.identity import Identity, Project, caller, person_of, slug, top_folder
from orchestrator.errors import UsageError
from orchestrator.inventory import Host
from orchestrator.run.ids import new_id
from orchestrator.run.launch import Order
from orchestrator.run.order import Naming, Wishes, order_of
from orchestrator.run.spec import RunSpec


def identity_for(host: Host, spec: RunSpec, cwd: Path) -> Identity:
    """Return the caller, with the project of a run, whatever folder the caller is in."""
    return Identity(person_of(host), Project(spec.project, slug(spec.project), top_folder(cwd)))


def values_from_here(
    old: RunSpec,
    host: Host,
    pairs: Sequence[str],
    environ: Mapping[str, str],
    files: Iterable[Path] = (),
) -> tuple[str, ...]:
    """Return the names of a run's variables that have to come from the caller's environment.

    A record holds names alone. Raises UsageError for those that have no value here; secrets of the settings
    are left to `order.environment`.
    """
    given = {pair.partition("=")[0] for pair in pairs}
    for file in files:
        given.update(read_env_file(file, environ))
    names = tuple(name for name in old.env if name not in given and name not in host.settings.secret)
    missing = [name for name in names if name not in environ]
    if missing:
        raise UsageError(
            f"run {old.run} had {', '.join(missing)}, without a value here (a record holds names alone)",
            hint=f"Give it: {' '.join(f'--env {name}=VALUE' for name in missing)}",
        )
    return names


def order_again(
    old: RunSpec, host: Host, kind: str, wishes: Wishes, *, argv: Sequence[str], cwd: Path, diff: str
) -> Order:
    """Return the order for the same run, with what is said otherwise; `kind` is rerun or resume."""
    identity = identity_for(host, old, cwd)
    git = dict(old.git) if diff or not old.git.get("diff") else {**old.git, "diff": ""}
    spec = replace(
        old,
        **named_again(old, wishes.naming),
        argv=tuple(argv) or old.argv,
        hosts=(host.name,),
        person=identity.person.name,
        env=tuple(sorted(wishes.env)),
        gpus=wishes.gpus or old.gpus,
        timeout=old.timeout if wishes.timeout is None else wishes.timeout,
        **wishes.retries.fields(old),
        git=git,
        by=caller(),
        asked=time.time(),
        orch=__version__,
        parent={"run": old.run, "kind": kind},
        orch_env="",
        image={},
        packages=(),
    )
    return order_of(host, spec, wishes, identity, diff=diff, from_here=False)


def named_again(old: RunSpec, naming: Naming) -> dict[str, Any]:
    """Return the fields of a spec that name a run: what isn't said stays, but for the note."""
    name = naming.name or old.name
    return {"run": new_id(name), "name": name, "note": naming.note, "tags": naming.tags or old.tags}


def image_words(old: RunSpec, new: RunSpec) -> str:
    """Say how the environment of a run that runs again compares with what it had; empty: nobody knows."""
    if not old.orch_env or not new.orch_env:
        return ""
    if old.orch_env != new.orch_env:
        return f"not the one that {old.run} had: {_difference(old, new)}"
    if old.image.get("id") != new.image.get("id"):
        return f"rebuilt: another id than {old.run} had, the same base and packages"
    return f"the same as {old.run} had"


def _difference(old: RunSpec, new: RunSpec) -> str:
    for key, what in (("name", "image"), ("base", "base of the image")):
        was, now = old.image.get(key), new.image.get(key)
        if was and now and was != now:
            return f"another {what} ({_short(was)}, now {_short(now)})"
    return "other packages, or another way to build it"


def _short(name: str) -> str:
    return name[:19] if name.startswith("sha256:") else name


def package_words(old: RunSpec, new: RunSpec) -> str:
    """Say which packages a run had that were installed by hand and are not there now; empty where none."""
    gone = [package for package in old.packages if package not in new.packages]
    return f"{old.run} also had, installed by hand: {', '.join(gone)}" if gone else ""
