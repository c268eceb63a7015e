"""image.lock: exactly what an environment is made of, for people to commit and `deploy --locked` to keep to.

One section for each kind of environment: engine, processor, and what it is built on. Sorted and stable, so
that a change of it reads well in a diff.
"""

from __future__ import annotations

import configparser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import ConfigError, OrchError, reason

FILE = "image.lock"

HEADER = """\
# What the environment of this project is made of. `orch image lock` wrote it, and `orch deploy --locked`
# keeps to it: commit it, and don't change it by hand.
"""

_LINES = ("requirements", "packages")
_TEXTS = ("base_id", "base_digest", "source", "dockerfile", "env")


@dataclass(frozen=True)
class Locked:
    """What one kind of environment is made of. Empty where a thing does not apply."""

    kind: str  # the section's name
    base_id: str = ""  # the base image's id, without what Docker puts before it
    base_digest: str = ""  # NAME@sha256:..., where a registry has it
    source: str = ""  # digest of a Dockerfile of one's own, with its context
    dockerfile: str = ""  # digest of what orch builds on the base
    env: str = ""  # orch.env
    requirements: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()  # name==version

    def text(self) -> str:
        """Return the section."""
        lines = [f"[{self.kind}]"]
        lines += [f"{name} = {getattr(self, name)}" for name in _TEXTS if getattr(self, name)]
        for name in _LINES:
            values = sorted(getattr(self, name))
            lines += [f"{name} =", *(f"    {value}" for value in values)] if values else []
        return "\n".join(lines) + "\n"

    def recipe_differs(self, dockerfile: str, source: str, requirements: Sequence[str]) -> Iterator[str]:
        """Yield what is asked for now and was not when it was locked, in words."""
        if self.source != source:
            yield "your Dockerfile or its context has changed"
        if self.dockerfile != dockerfile:
            yield "the rendered Dockerfile has changed (apt_packages, ca_bundle, jupyter, or another orch)"
        for word in _changes(self.requirements, requirements):
            yield f"requirement {word}"

    def packages_differ(self, packages: Sequence[str]) -> Iterator[str]:
        """Yield the packages that are others than those locked, in words."""
        then, now = _versions(self.packages), _versions(packages)
        for name in sorted({*then, *now}):
            was, became = then.get(name), now.get(name)
            if was != became:
                yield f"package {name} {became or 'missing'} ({f'{was} locked' if was else 'not locked'})"


def _versions(packages: Sequence[str]) -> dict[str, str]:
    return {name: version for name, _, version in (p.partition("==") for p in packages)}


def _changes(then: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    yield from (f"{r} is new" for r in sorted({*now} - {*then}))
    yield from (f"{r} is gone" for r in sorted({*then} - {*now}))


@dataclass(frozen=True)
class Lock:
    """A project's image.lock."""

    path: Path
    sections: Mapping[str, Locked]

    def of(self, kind: str, host: str) -> Locked:
        """Return what is locked for a kind of environment. Raises ConfigError where nothing is."""
        found = self.sections.get(kind)
        if not found:
            others = ", ".join(sorted(self.sections)) or "nothing"
            raise ConfigError(
                f"{self.path} has nothing for {kind} ({host}); it has {others}",
                hint=f"Deploy once without --locked, then: orch image lock {host}",
            )
        return found

    def text(self) -> str:
        """Return the file."""
        return "\n".join([HEADER, *(self.sections[kind].text() for kind in sorted(self.sections))])


def read_lock(folder: Path, *, must: bool = True) -> Lock:
    """Read a project's image.lock. Raises ConfigError where it makes no sense, or (`must`) is not there."""
    path = folder / FILE
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=True)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not must:
            return Lock(path, {})
        hint = "Deploy once without --locked, then: orch image lock"
        raise ConfigError(f"there is no {path}", hint=hint) from None
    except OSError as error:
        raise ConfigError(f"{path}: {reason(error)}") from error
    except (configparser.Error, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", None) or next((n for n, _ in getattr(error, "errors", ())), None)
        where = f"{path}:{line}" if line else str(path)
        raise ConfigError(
            "this is no image.lock", where=where, hint="Write it anew: orch image lock"
        ) from error
    return Lock(path, {kind: _section(parser[kind]) for kind in parser.sections()})


def _section(found: configparser.SectionProxy) -> Locked:
    texts = {name: found.get(name, "") for name in _TEXTS}
    lines = {name: tuple(found.get(name, "").split()) for name in _LINES}
    lines["requirements"] = tuple(line for line in found.get("requirements", "").split("\n") if line)
    return Locked(found.name, **texts, **lines)  # type: ignore[arg-type]


def write_lock(lock: Lock) -> None:
    """Write the file whole or not at all. Raises OrchError."""
    part = lock.path.with_name(f"{FILE}.part")
    try:
        part.write_text(lock.text(), encoding="utf-8")
        part.replace(lock.path)
    except OSError as error:
        raise OrchError(f"{lock.path} can't be written: {reason(error)}") from error


def refuse(lock: Path, host: str, differing: Sequence[str]) -> None:
    """Raise ConfigError with what differs, where anything does."""
    if differing:
        more = f", and {len(differing) - 1} more" if len(differing) > 1 else ""
        raise ConfigError(
            f"it would not be what {lock.name} says: {differing[0]}{more}",
            where=host,
            hint="Deploy without --locked, try it, and lock it anew: orch image lock",
            details="\n".join(differing) if len(differing) > 1 else None,
        )
