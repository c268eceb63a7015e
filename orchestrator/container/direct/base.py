"""A deploy without a daemon, whatever of them it is by: commands are processes of the account itself.

What is to be had is installed beside what is there; then, in the project's turn, it is entered for the proof
and written down. Nothing that runs is touched: a run keeps the installation that it began in.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.container.deploy import Ready, changed_meanwhile, stamp
from orchestrator.container.difference import differences
from orchestrator.container.direct.known import Known
from orchestrator.container.engine import Environment
from orchestrator.container.ground import ground_notes, room_notes
from orchestrator.container.image.build import Told, exports, follow
from orchestrator.container.image.recipe import build_values
from orchestrator.container.notes import passed_over
from orchestrator.container.proof import Seen, check, look
from orchestrator.container.since import noted
from orchestrator.container.telling import gpus_words, plan_line
from orchestrator.container.turn import LOCK, turn
from orchestrator.facts.place import PLACE, LiveRun
from orchestrator.facts.question import ask
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Raw, Script, on_host
from orchestrator.inventory import Host
from orchestrator.render import digest, render, source
from orchestrator.units import size

INSTALL = "container/install.sh.j2"


class Spec(Protocol):
    """What is wanted of one engine."""

    @property
    def installation(self) -> str:
        """What two equal installations share: the name of a folder; empty where nothing is installed."""

    @property
    def told(self) -> dict[str, Any]:
        """What a change of is told in the plan, a line each."""


@dataclass(frozen=True)
class DirectDeploy(ABC):
    """A deploy of one host without a daemon, planned and not yet done."""

    known: Known
    spec: Spec

    ending: tuple[LiveRun, ...] = ()  # none, ever: see above

    # What an engine is asked for

    @property
    @abstractmethod
    def _what(self) -> Iterator[str]:
        """The lines of the plan that say what commands run in."""

    @property
    @abstractmethod
    def _unused(self) -> tuple[str, ...]:
        """Names of settings that this engine has no use for."""

    @abstractmethod
    def _installing(self) -> Mapping[str, Any]:
        """Values of the installation's script."""

    @abstractmethod
    def _entering(self) -> Mapping[str, Any]:
        """Values of the script that commands enter by, where they are not the common ones."""

    def _inside(self, seen: Seen) -> Mapping[str, Any]:
        """Fields of the record that are not the common ones."""
        return {"home": seen.home, "dir": self.known.path, "workspace": self._workspace}

    # What the verb sees

    @property
    def host(self) -> Host:
        """The host."""
        return self.known.host

    @property
    def head(self) -> str:
        """What the host is, in a line."""
        disk = self.known.system.root_disk
        room = f"   {size(disk.free_mb << 20)} free" if disk else ""
        return f"{self.host.name}   {gpus_words(self.known.gpus)}   {self.known.system.os_name}{room}"

    @property
    def lines(self) -> tuple[str, ...]:
        """What would be done."""
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from self._what
        recorded = self.known.recorded
        if recorded and recorded.engine == self.host.settings.engine:
            for change in differences(recorded.wanted, self._wanted):
                yield plan_line("", "", str(change))
        for by_hand in self.known.drift(recorded.whole if recorded else None):
            yield plan_line("", "", f"by hand: {by_hand}")
        for other in self.known.leftovers(self.folder):
            yield plan_line(self.host.settings.engine, "remove", f"{other} (no run lives in it)")
        for note in self._notes():
            yield plan_line("note", "", note)

    def _notes(self) -> Iterator[str]:
        recorded = self.known.recorded
        yield from ground_notes(self.known.place.mount)
        yield from room_notes(self.known.system.root_disk)
        yield from passed_over(self.host, self._unused)
        if recorded and recorded.in_container:
            yield f"container {recorded.name} stays; `orch down` would remove it first"

    @property
    def unchanged(self) -> Environment | None:
        """What is deployed, when nothing is to be done."""
        recorded = self.known.recorded
        same = recorded and recorded.engine == self.host.settings.engine and recorded.spec == self._digest
        if not same or not self._there or self.known.leftovers(self.folder):
            return None
        return recorded

    @property
    def rendered(self) -> Iterator[tuple[str, str]]:
        """The scripts that would run; values of the environment masked."""
        if not self._there:
            yield "install", self._install_script().text
        yield "enter", self._enter(dict.fromkeys(self.known.inputs.env, "***"))

    def carry_out(self, machine: Machine, told: Told) -> Ready:
        """Install what is not there whole, prove it and write it down."""
        if not self._there:
            self._install(machine, told)
        undo = Script("undo", Command.of("rm", "-f", self._here("enter.part")).shell())
        with turn(machine, self.known.path, undo, told=told) as token:
            self._check_still_true(machine)
            return self._put_in_place(machine, told, token)

    # How

    @property
    def _wanted(self) -> dict[str, Any]:
        """The spec as it comes back from JSON."""
        found: dict[str, Any] = json.loads(json.dumps(self.spec.told))
        return found

    @property
    def _digest(self) -> str:
        return digest(json.dumps(self._wanted, sort_keys=True), self.spec.installation)

    @property
    def folder(self) -> str:
        """Where the installation is or will be; empty where nothing is installed."""
        return self.known.folder(self.spec.installation) if self.spec.installation else ""

    @property
    def _there(self) -> bool:
        return not self.folder or f"{self.folder}/whole" in self.known.place.venvs

    def _path(self, name: str) -> str:
        return f"{self.known.path}/{name}"

    def _here(self, name: str) -> str:
        """Return the path of what is of this host alone, where several share a home."""
        return f"{self.known.place.here}/{name}"

    def _install(self, machine: Machine, told: Told) -> None:
        values = self._installing()
        told(f"install {values['what']}")
        inputs = self.known.inputs
        with machine.stream(self._install_script()) as stream:
            stream.write(exports(build_values(self.host.settings)) + (inputs.ca_bundle or b""))
            stream.close_stdin()
            follow(machine, stream, told, what="the installation", base=str(values["what"]))

    def _install_script(self) -> Script:
        common = {
            "place": self.known.path,
            "folder": self.folder,
            "activate": self.host.settings.activate,
            "ca": bool(self.known.inputs.ca_bundle),
            "proof": source("container/proof.py") or "",
        }
        return Script("install", render(INSTALL, **common, **self._installing()))

    def _enter(self, values: Mapping[str, str]) -> str:
        common = {
            "activate": self.host.settings.activate,
            "venv": None,
            "cuda": False,
            "python": None,
            "ca": self._here("ca.crt") if self.known.inputs.ca_bundle else "",
            "visible": self.known.visible,
            "prefix": "",
            "env": values,
            "more": {},
            "run": (),
        }
        return render("container/enter.sh.j2", **{**common, **self._entering()})

    def _check_still_true(self, machine: Machine) -> None:
        """A person may have thought for long, or an installation taken long. Raises Busy."""
        values = {"place": on_host(self.known.path).text, "volumes": []}
        now = ask(machine, PLACE, values=values).of(PLACE)
        if now.environment != self.known.place.environment:
            raise changed_meanwhile(self.host)

    def _put_in_place(self, machine: Machine, told: Told, token: str) -> Ready:
        """Write the script that commands enter by, prove it, and then let it count."""
        ca = self.known.inputs.ca_bundle
        folders = render(
            "container/direct_folders.sh.j2", place=self.known.path, python=self.known.python_set
        )
        machine.ask(Script("folders", folders))
        if ca:
            machine.put(ca, self._here("ca.crt"), mode=0o644)
        part = self._here("enter.part")
        machine.put(self._enter(self.known.inputs.env).encode(), part, mode=0o600)
        told("prove it")
        seen = self._prove(machine, ("/bin/sh", part))
        environment = self._environment(seen)
        text = render(
            "container/direct_finish.sh.j2",
            place=environment.place,
            environment_sh=environment.script(),
            environment_json=environment.text(),
            owner_json=environment.owner(),
            keep=self.folder,
            what=f"{environment.engine} {self.spec.installation}".strip(),
            by=environment.by,
            turn=LOCK,
            token=token,
        )
        machine.ask(Script("finish", text), deadline=120)
        return Ready(environment, seen, self.known.gpu_count)

    def _prove(self, machine: Machine, command: tuple[str, ...]) -> Seen:
        proof = Raw(f"<<'ORCH_PROOF'\n{source('container/proof.py')}ORCH_PROOF\n")
        inside = self._workspace
        keras = "KERAS_HOME=/dev/null"  # its import would make ~/.keras
        seen = look(machine, Command((*command, inside, "env", keras, "python3", "-", inside, proof)))
        check(seen, gpus=self.known.gpu_count, uid=self.known.system.uid, where=self.host.name)
        return seen

    @property
    def _workspace(self) -> str:
        """Where commands start, as they see it."""
        return self._path("workspace")

    def _environment(self, seen: Seen) -> Environment:
        chosen = self.known.chosen
        fields: dict[str, Any] = {
            "engine": self.host.settings.engine,
            "command": ("/bin/sh", self._here("enter")),
            "user": seen.user,
            "uid": seen.uid,
            "gid": seen.gid,
            "place": self.known.path,
            "machine": self.known.place.machine,
            "env": digest(seen.python, *seen.packages),
            "python": seen.python,
            "tensorflow": seen.tensorflow,
            "gpus": tuple(u for u in seen.gpus if chosen is None or u in chosen),
            "gpus_asked": self.host.settings.gpus,
            "spec": self._digest,
            "wanted": self._wanted,
            "settings": noted(self.host, self.known.inputs, self._unused),
            "network": "host",
            "whole": f"{self.folder}/whole" if self.folder else self._here("enter"),
            **stamp(self.known.identity),
        }
        return Environment(**{**fields, **self._inside(seen)})
