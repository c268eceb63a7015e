"""Hosts that only pretend, and take a run together: what each says to the looks, the launch and after it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.hosts.base import Result
from orchestrator.hosts.command import Script
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import Called, call
from tests.cli.some_runs import RUNNING, launched
from tests.unit.here import venv_in

ADDRESS = {"gpu01": "10.0.0.1", "gpu02": "10.0.0.2", "gpu03": "10.0.0.3"}
PORT = 20001


@dataclass
class Lab:
    """gpu01 to gpu03; `says`: what a host answers to a script instead, `did`: what came in which order."""

    folder: Path
    says: dict[tuple[str, str], Any] = field(
        default_factory=dict
    )  # (host, script) -> text, error or function
    state: Mapping[str, Any] = field(default_factory=lambda: RUNNING)  # when they have met
    did: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "hosts.ini").write_text(
            "[lab]\n"
            + "".join(f"{name} cluster_address={address}\n" for name, address in ADDRESS.items())
            + "[all:vars]\nperson=ana\nproject=mnist\nengine=venv\n"
        )
        (self.folder / "train.py").write_text("print(1)\n")
        (self.folder / ".orchignore").write_text("cache/\nconfig/\n")

    def prepare(self, machine: FakeMachine) -> None:
        name = machine.host.name
        self._answer(machine, "look", self.look(name))
        self._answer(machine, "reach", all_ways)
        self._answer(machine, "launch", usual_launch())
        self._answer(machine, "met", f"state {json.dumps(self.state)}\nlog ")
        self._answer(machine, "withdraw", "withdrawn yes")
        machine.answer("bundle", out="there\n")

    def _answer(self, machine: FakeMachine, script: str, usual: Any) -> None:
        name = machine.host.name

        def reply(asked: Any) -> Result:
            self.did.append((script, name))
            said = self.says.get((name, script), usual)
            said = said(asked) if callable(said) else said
            if isinstance(said, BaseException):
                raise said
            return Result(0, str(said).encode(), b"")

        machine.answer(script, reply)

    def look(self, name: str, *, bundle: str = "yes", env: str = "e1", **more: Any) -> str:
        recorded = replace(venv_in(self.folder), person="ana", project="mnist", env=env)
        free = [PORT + number for number in range(8)]
        inside = {"free": free, "interface": "eth0", "packages": [], "set": [], **more}
        lines = [
            "answer there",
            f"environment {recorded.text()}",
            f"bundle {bundle}",
            f"own eth0 {ADDRESS[name]}",
            f"inside {json.dumps(inside)}",
        ]
        return "\n".join(lines)

    def train(self, *words: str, hosts: str = "gpu01,gpu02", **how: Any) -> Called:
        self.did.clear()
        argv = ("train", "-d", "--hosts", hosts, *words, "--", "python3", "train.py")
        return call(self.folder, *argv, prepare=self.prepare, **how)

    def order_of(self, script: str) -> list[str]:
        """The hosts that were asked it, sorted."""
        return sorted(host for what, host in self.did if what == script)


def all_ways(asked: Any) -> str:
    """What a host says that reaches all that it has to."""
    (targets,) = re.findall(r'"targets": (\[.*?\])', asked.text)
    pairs = [[target["rank"], target["port"], "ok", ""] for target in json.loads(targets)]
    return f"inside {json.dumps({'taken': [], 'pairs': pairs})}"


def usual_launch() -> str:
    """What a host says that launched the run."""
    machine = FakeMachine()
    launched()(machine)
    return machine.run(Script("launch", "")).text


def private(said: Called, host: str) -> dict[str, Any]:
    """What launch.json would hold on a host."""
    (script,) = [s for s in said.machines[host].ran if s.name == "launch"][-1:]
    (line,) = re.findall(r"^ *\(umask 077; printf .* '(\"host\".*)' \\$", script.text, re.MULTILINE)
    return dict(json.loads("{" + line.replace("'\"'\"'", "'")))
