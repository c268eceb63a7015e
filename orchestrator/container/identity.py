"""Who asks, for which project, and what both are called on a host."""

from __future__ import annotations

import getpass
import hashlib
import re
import socket
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import Refused, UsageError
from orchestrator.inventory import Host

SLUG_LENGTH = 32
"""Two slugs and `orch-` stay within the 127 characters of an image name, and a path is readable."""


@dataclass(frozen=True)
class Person:
    """The one who asks: the name as it is written, and as it stands in names."""

    name: str
    slug: str


@dataclass(frozen=True)
class Project:
    """What is trained: its name, its name in names, and the top folder that is bundled."""

    name: str
    slug: str
    folder: Path


@dataclass(frozen=True)
class Identity:
    """One person's project, and where it lives on a host."""

    person: Person
    project: Project

    @property
    def container(self) -> str:
        """The container's name."""
        return f"orch-{self.person.slug}-{self.project.slug}"

    @property
    def folder(self) -> str:
        """The project's folder with the machine it is on: what tells two projects of one name apart."""
        return f"{socket.gethostname()}:{self.project.folder}"

    def place(self, host: Host) -> str:
        """Return the project's folder P on a host; it starts with `~/` where `root` does."""
        return f"{host.settings.root.rstrip('/') or '/'}/{self.person.slug}/{self.project.slug}"


def slug(text: str) -> str:
    """Return `text` as lower-case ASCII letters, digits and single dashes, never empty.

    Where letters were lost (another script) or the text was cut, digits of its digest keep texts apart.
    """
    plain = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in plain if c.isascii() or not (c.isalnum() or unicodedata.combining(c)))
    short = re.sub(r"[^a-z0-9]+", "-", kept.lower()).strip("-")
    lost = any(c.isalnum() and not c.isascii() for c in plain)
    if short and not lost and len(short) <= SLUG_LENGTH:
        return short
    tail = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    return f"{short[: SLUG_LENGTH - 7].strip('-') or 'x'}-{tail}"


def top_folder(folder: Path) -> Path:
    """Return the git top level around `folder`, else the nearest folder with a hosts.ini, else `folder`.

    A home kept in git, or with a hosts.ini, is nobody's project.
    """
    outside = {Path.home(), Path("/")}
    for mark in (".git", "hosts.ini"):
        for place in (folder, *folder.parents):
            if (place / mark).exists() and place not in outside:
                return place
    return folder


def person_of(host: Host) -> Person:
    """Return the person of the settings, else the local user. Raises UsageError when there is neither."""
    name = host.settings.person
    if not name:
        try:
            name = getpass.getuser()
        except (KeyError, OSError, ImportError) as error:
            raise UsageError("this user id has no name here", hint="Set ORCH_PERSON.") from error
    return Person(name, slug(name))


def caller() -> str:
    """Return who calls orch, and from where: `ana@laptop`."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        name = "unknown"
    return f"{name}@{socket.gethostname()}"


def identity_of(host: Host, folder: Path) -> Identity:
    """Return whose and which project is meant on `host` when orch is called in `folder`."""
    top = top_folder(folder)
    name = host.settings.project or top.name or "root"
    return Identity(person_of(host), Project(name, slug(name), top))


def check_owner(identity: Identity, recorded: Mapping[str, str], *, where: str) -> None:
    """Refuse to touch what another person, project or folder owns under the same name.

    `recorded` holds `person`, `project` and `folder` (`machine:path`) as the host has them. A folder on
    another machine, or one that is gone (moved), is no collision: a project may be used from two laptops.
    """
    name = identity.container
    other = (recorded.get("person", ""), recorded.get("project", ""))
    if other != (identity.person.name, identity.project.name):
        raise Refused(
            f"the name {name} is taken by project {other[1]!r} of {other[0]!r}, and would also be that of "
            f"project {identity.project.name!r} of {identity.person.name!r}",
            where=where,
            hint="Set `project` (or `person`) in hosts.ini to another name.",
        )
    machine, _, path = recorded.get("folder", "").partition(":")
    here = machine == socket.gethostname() and Path(path) != identity.project.folder
    if here and Path(path).is_dir():
        raise Refused(
            f"project {identity.project.name!r} is {path}, and would also be {identity.project.folder}",
            where=where,
            hint="Set `project` in the hosts.ini of one of them to another name.",
        )
