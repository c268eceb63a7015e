"""An end of a copy: the images of a host's engine, or of this machine's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.container.identity import caller
from orchestrator.container.image.copying.cargo import Cargo, cargo, engine_name, plain, processor
from orchestrator.container.image.copying.end import COPY, NAME, THERE, loading, saving
from orchestrator.container.refusals import engine_error, engine_trouble
from orchestrator.errors import HostError, Refused
from orchestrator.facts.copying import COPYING, CopyingReport
from orchestrator.facts.docker import DOCKER, DockerReport
from orchestrator.facts.images import IMAGES, HostImage, ImagesReport
from orchestrator.facts.question import ask
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Script, on_host
from orchestrator.render import render
from orchestrator.units import size

DEADLINE = 120.0
"""Seconds for what an end is asked: an engine with thousands of images takes its time."""

_LOADED = re.compile(r"Loaded image(?: ID|\(s\))?: *(\S.*)")


@dataclass
class Store:
    """The images of an engine. `place`: the project's folder there, as a shell word."""

    machine: Machine
    report: CopyingReport
    docker: DockerReport
    images: ImagesReport
    place: str

    @property
    def title(self) -> str:
        """The host's name."""
        return self.machine.host.name

    @property
    def _engine(self) -> tuple[str, ...]:
        return self.machine.host.settings.container_command

    def save(self, what: Cargo, how: str) -> Script:
        """Return the script that writes an image, packed, to stdout."""
        return saving(self.reading(what), how, self.report)

    def reading(self, what: Cargo) -> str:
        """Return the shell text that writes an image to stdout."""
        return Command((*self._engine, "save", *(what.names or (what.id,)))).shell()

    def need(self, what: Cargo, *, overwrite: bool) -> str:
        """Return what it needs. Raises Refused for a name that another image has, HostError for no room."""
        same = self.find(what)
        for name in what.names:
            other = self._named(name)
            if other and not what.same(cargo(other)) and not overwrite:
                raise Refused(
                    f"another image is called {name} here ({other.id[:12]})",
                    where=self.title,
                    hint="Take the name from it by --overwrite.",
                )
        if same:
            return THERE if set(what.names) <= set(cargo(same).names) else NAME
        self._check_fits(what)
        return COPY

    def find(self, what: Cargo) -> HostImage | None:
        """Return the image that is the same, the one with most of the names first."""
        same = [image for image in self.images.images if what.same(cargo(image))]
        return max(same, key=lambda i: len({*what.names} & {*cargo(i).names}), default=None)

    def _named(self, name: str) -> HostImage | None:
        return next((i for i in self.images.images if name in cargo(i).names), None)

    def _check_fits(self, what: Cargo) -> None:
        own = processor(self.docker.arch or "")
        if what.arch and own and what.arch != own:
            raise HostError(f"{what.title} is for {what.arch}, and this machine is {own}", where=self.title)
        disk, needed = self.docker.disk, self._room(what)
        if disk and needed > disk.free_mb << 20:
            raise HostError(
                f"no room for {what.title}: it takes {size(needed)} while it is unpacked, "
                f"and {disk.path} has {size(disk.free_mb << 20)} free",
                where=self.title,
                hint="Free some there: orch image prune, docker image prune.",
            )

    def _room(self, what: Cargo) -> int:
        """Return the bytes that it takes: an engine lays an archive down whole before it unpacks it."""
        known = [i for i in self.images.images if i.layers == what.layers[: len(i.layers)]]
        return what.size + max(0, what.size - max((i.size for i in known), default=0))

    def load(self, how: str) -> Script:
        """Return the script that takes an image from stdin."""
        return loading(f"{Command((*self._engine, 'load')).shell()} 2>&1", how, self.report)

    def receiving(self) -> contextlib.AbstractContextManager[None]:
        """Keep nobody away: engines take images from several at once."""
        return contextlib.nullcontext()

    def settle(self, what: Cargo, said: str) -> None:
        """Give what was received its names, and see that it is whole. Raises HostError."""
        loaded = [name.strip() for names in _LOADED.findall(said) for name in names.split(",")]
        if loaded:
            self._name(what, loaded[0], loaded)
        self.images = ask(self.machine, IMAGES, values=self._values, deadline=DEADLINE).of(IMAGES)
        found = self.find(what)
        if not found:
            raise HostError(f"{what.title} did not arrive whole", where=self.title, hint="Copy it again.")
        if not set(what.names) <= set(cargo(found).names):
            self._name(what, found.id, ())

    def _name(self, what: Cargo, image: str, loaded: Sequence[str]) -> None:
        """Give it its names, each as this engine finds it; what another engine called it goes."""
        kind = self.docker.kind
        missing = {*what.names} - {*map(plain, loaded)}
        wanted = [name for name in (*loaded, *sorted(missing)) if "sha256:" not in name]
        names = {name: engine_name(name, kind) for name in wanted}
        text = render(
            "container/image_name.sh.j2",
            engine=self._engine,
            image=image,
            names=list(names.values()),
            others=[name for name, right in names.items() if name != right and name in loaded],
            place=self.place,
            by=caller(),
            what=what.title,
        )
        self.machine.ask(Script("image name", text), deadline=DEADLINE)

    @property
    def _values(self) -> dict[str, object]:
        return {"docker": self._engine}


def open_store(machine: Machine, place: str) -> Store:
    """Ask a host what it has, in one exec. Raises HostError where its engine can't be used."""
    host = machine.host
    values = {"docker": host.settings.container_command}
    answers = ask(machine, DOCKER, IMAGES, COPYING, values=values, deadline=DEADLINE)
    docker, report = answers.of(DOCKER), answers.of(COPYING)
    trouble = engine_trouble(host, docker)
    if trouble:
        raise engine_error(host, trouble, report.account)
    return Store(machine, report, docker, answers.of(IMAGES), on_host(place).text)
