"""What is deployed on a host, as the host records it, and how a command enters it.

A deploy ends by writing `environment.json` and `environment.sh` into `hosts/<machine>/` of the project's
folder there, since hosts may share a home. The first is read by people's machines, the second by scripts on
the host: a launch needs no question before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from orchestrator.hosts.command import Command, Raw, Secret, Word
from orchestrator.inventory.host import CONTAINER_ENGINES
from orchestrator.render import render

VERSION = 1


@dataclass(frozen=True)
class Environment:
    """Where commands run on one host: a container, or the host itself. None where a thing does not apply."""

    engine: str  # as in the settings, but for auto
    user: str
    uid: int
    gid: int
    home: str  # of the user, as the command sees it
    dir: str  # the project's folder, as the command sees it
    place: str  # the project's folder on the host, absolute
    machine: str  # the host's own name: hosts that share a home have a folder each in P/hosts/
    workspace: str
    env: str  # orch.env: what makes two hosts' environments the same
    python: str
    person: str
    project: str
    folder: str
    spec: str  # digest of the spec it was made of
    wanted: Mapping[str, Any] = field(default_factory=dict)  # that spec, where no container's label holds it
    command: tuple[
        str, ...
    ] = ()  # the engine's; without a running container: what FOLDER CMD... stands behind
    container: str | None = None  # id; names change hands
    name: str | None = None
    tensorflow: str | None = None
    torch: str | None = None
    image: str | None = None
    image_id: str | None = None
    base_id: str | None = None  # of the base that the image was built on
    tag: str | None = None  # the image's name on the host, and the id that had it when the deploy ended
    tagged: str | None = None
    made: Mapping[str, Any] = field(default_factory=dict)  # what may be changed in it from outside (made.j2)
    settings: Mapping[str, str] = field(default_factory=dict)  # what the settings were (since.py), as digests
    gpus: tuple[str, ...] = ()  # UUIDs, as seen from inside
    gpus_asked: str = "auto"
    port: int | None = None
    host_keys: tuple[str, ...] = ()
    network: str = "bridge"
    whole: str | None = None  # without a running container: a file that exists when the installation is whole
    deployed: str = ""  # UTC, 2026-11-30T02:14:07Z
    by: str = ""
    orch: str = ""
    version: int = VERSION

    @property
    def in_container(self) -> bool:
        """Whether commands enter a container that keeps running."""
        return self.engine in CONTAINER_ENGINES

    def text(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=True)

    @classmethod
    def parse(cls, text: str) -> Environment:
        """Read what `text` gives. Raises ValueError; what a newer orch added is passed over."""
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("no object")
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {k: v for k, v in found.items() if k in known}
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from error

    @classmethod
    def read(cls, text: str | None) -> Environment | None:
        """Do what `parse` does; None for nothing, or for what makes no sense."""
        try:
            return cls.parse(text or "")
        except ValueError:
            return None

    def owner(self) -> str:
        """Return owner.json: whose the project's folder is, also when nothing is deployed any more."""
        return json.dumps({name: getattr(self, name) for name in ("person", "project", "folder")})

    def script(self) -> str:
        """Return environment.sh: the same for scripts on the host, as variables and three functions."""
        return render("container/environment.sh.j2", e=self)

    def enter(
        self,
        command: Command,
        *,
        workdir: str | None = None,
        stdin: bool = False,
        tty: bool = False,
    ) -> Command:
        """Return the command line for the host that runs `command` inside, in `workdir` (as seen inside)."""
        folder = workdir or self.workspace
        if not self.in_container:
            return Command((*self.command, folder, *_plain(command)))
        flags = [f for f, wanted in (("-i", stdin), ("-t", tty)) if wanted]
        words = (*self.command, "exec", *flags, "-u", f"{self.uid}:{self.gid}", "-w", folder)
        return Command((*words, self.container or self.name or "", *_plain(command)))


def _plain(command: Command) -> tuple[Word, ...]:
    """Return argv for a program that starts no shell: shell text goes through one of its own."""
    if not any(isinstance(w, Raw) for w in command.words):
        return command.words
    hidden = any(isinstance(w, Secret) for w in command.words)
    return ("/bin/sh", "-c", Secret(command.shell()) if hidden else command.shell())
