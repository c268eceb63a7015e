"""A deploy by venv: a Python of the host, a TensorFlow that it can run, in the project's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator import __version__
from orchestrator.container.build import Told, exports, follow
from orchestrator.container.deploy import LOOK_DEADLINE, Ready, utc_now
from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity, caller
from orchestrator.container.image import build_values
from orchestrator.container.inputs import Inputs, read_inputs
from orchestrator.container.proof import Seen, check, look
from orchestrator.container.refusals import check_place
from orchestrator.container.spec import wanted_gpus
from orchestrator.container.telling import gpus_words
from orchestrator.container.turn import turn
from orchestrator.container.venv_spec import VenvSpec, venv_spec
from orchestrator.facts.gpu import GPUS, GpuReport
from orchestrator.facts.place import PLACE, LiveRun, PlaceReport
from orchestrator.facts.question import ask
from orchestrator.facts.system import SYSTEM, SystemReport
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Script, on_host
from orchestrator.inventory import Host
from orchestrator.render import digest, render, source
from orchestrator.units import size


@dataclass(frozen=True)
class VenvDeploy:
    """A venv of one host that is planned and not yet made."""

    host: Host
    identity: Identity
    inputs: Inputs
    system: SystemReport
    gpus: GpuReport
    place: PlaceReport
    spec: VenvSpec
    gpu_count: int

    @property
    def folder(self) -> str:
        """Where the venv is."""
        return f"{self.place.path}/venv/{self.spec.installation}"

    @property
    def _installed(self) -> bool:
        return f"{self.folder}/whole" in self.place.venvs

    @property
    def head(self) -> str:
        """What the host is, in a line."""
        disk = self.system.root_disk
        room = f"   {size(disk.free_mb << 20)} free" if disk else ""
        return f"{self.host.name}   {gpus_words(self.gpus)}   {self.system.os_name}{room}"

    @property
    def lines(self) -> tuple[str, ...]:
        """What would be done."""
        python = ".".join(map(str, self.spec.version))
        count = len(self.spec.requirements)
        more = f" + {count} package{'s' * (count != 1)}" if count else ""
        verb = "use" if self._installed else "install"
        lines = [f"  venv       {verb:<7}  Python {python}   {self.spec.tensorflow[0]}{more}"]
        lines.append(f"  folder              {self.folder}")
        settings = self.host.settings
        unused = [n for n in ("volumes", "startup", "apt_packages", "image") if getattr(settings, n)]
        if unused:
            lines.append(f"  note                {', '.join(unused)}: not for engine venv, passed over")
        return tuple(lines)

    @property
    def unchanged(self) -> Environment | None:
        """What is deployed, when nothing is to be done."""
        environment = recorded(self.place)
        same = environment and environment.engine == "venv" and environment.spec == self.spec.digest
        return environment if same and self._installed else None

    ending: tuple[LiveRun, ...] = ()  # none: a run keeps the venv that it began in

    @property
    def rendered(self) -> Iterator[tuple[str, str]]:
        """The scripts that would run, and the profile with its values masked."""
        yield "install", self._install_script().text
        yield "enter", self._enter(dict.fromkeys(self.inputs.env, "***"))

    def carry_out(self, machine: Machine, told: Told) -> Ready:
        """Install what is not there whole, prove it and write it down."""
        if not self._installed:
            told(f"install {' '.join(self.spec.tensorflow[:1] + self.spec.requirements)}")
            with machine.stream(self._install_script()) as stream:
                stream.write(exports(build_values(self.host.settings)) + (self.inputs.ca_bundle or b""))
                stream.close_stdin()
                follow(machine, stream, told, what="the installation", base=self.spec.tensorflow[0])
        with turn(machine, self.place.path):
            return self._prove(machine, told)

    def _prove(self, machine: Machine, told: Told) -> Ready:
        """Let commands in, see that it works, and write it down."""
        self._write_enter(machine)
        told("prove it")
        proof = ("python3", self._path("venv/proof.py"), self.place.path)
        seen = look(machine, Command((*self._command, *proof)))
        check(seen, gpus=self.gpu_count, uid=self.system.uid, where=self.host.name)
        environment = self._environment(seen)
        text = render(
            "container/venv_finish.sh.j2",
            place=self.place.path,
            environment_sh=environment.script(),
            environment_json=environment.text(),
            owner_json=environment.owner(),
            what=self.spec.installation,
            idle=not self.place.live,
            by=environment.by,
        )
        machine.ask(Script("finish", text), deadline=120)
        return Ready(environment, seen, self.gpu_count)

    def _path(self, name: str) -> str:
        return f"{self.place.path}/{name}"

    def _install_script(self) -> Script:
        spec = self.spec
        text = render(
            "container/venv_install.sh.j2",
            place=self.place.path,
            folder=self.folder,
            python=spec.python,
            pip=spec.pip,
            requirements=(*spec.tensorflow, *spec.requirements),
            constraints=spec.constraints,
            ca=bool(self.inputs.ca_bundle),
            proof=source("container/proof.py") or "",
        )
        return Script("install", text)

    @property
    def _command(self) -> tuple[str, ...]:
        """What a command stands behind."""
        return ("sh", f"{self.place.here}/enter")

    def _enter(self, values: Mapping[str, str]) -> str:
        return render(
            "container/enter.sh.j2",
            folder=self.folder,
            env=values,
            cuda=any(r.startswith("nvidia-") for r in self.spec.tensorflow),
            ca=f"{self.place.here}/ca.crt" if self.inputs.ca_bundle else "",
        )

    def _write_enter(self, machine: Machine) -> None:
        machine.put(self._enter(self.inputs.env).encode(), f"{self.place.here}/enter", mode=0o600)

    def _environment(self, seen: Seen) -> Environment:
        identity = self.identity
        return Environment(
            engine="venv",
            user=seen.user,
            uid=seen.uid,
            gid=seen.gid,
            home=seen.home,
            dir=self.place.path,
            place=self.place.path,
            machine=self.place.machine,
            workspace=self._path("workspace"),
            env=digest(seen.python, *seen.packages),
            python=seen.python,
            tensorflow=seen.tensorflow,
            gpus=seen.gpus if self.gpu_count else (),
            gpus_asked=self.host.settings.gpus,
            person=identity.person.name,
            project=identity.project.name,
            folder=identity.folder,
            spec=self.spec.digest,
            network="host",
            command=self._command,
            whole=f"{self.folder}/whole",
            deployed=utc_now(),
            by=caller(),
            orch=__version__,
        )


def survey_venv(
    machine: Machine, identity: Identity, environ: Mapping[str, str], *, replace: bool = False
) -> VenvDeploy:
    """Ask a host in one exec and plan its venv; nothing is changed. Raises ConfigError or HostError.

    There is nothing to `replace`: a run keeps the venv that it began in.
    """
    host = machine.host
    inputs = read_inputs(host, environ)
    values = {
        "root": host.settings.root,
        "engine": "venv",
        "place": on_host(identity.place(host)).text,
        "volumes": [],
    }
    answers = ask(machine, SYSTEM, GPUS, PLACE, values=values, deadline=LOOK_DEADLINE)
    system, gpus, place = answers.of(SYSTEM), answers.of(GPUS), answers.of(PLACE)
    check_place(host, identity, place)
    wish = wanted_gpus(host, gpus)
    count = 0 if wish == "none" else sum(not g.fault for g in gpus.gpus)
    spec = venv_spec(host, system, inputs, gpus=bool(count))
    return VenvDeploy(host, identity, inputs, system, gpus, place, spec, count)


def recorded(place: PlaceReport) -> Environment | None:
    """Return what a host says is deployed; None for nothing, or what can't be read."""
    try:
        return Environment.parse(place.environment or "")
    except ValueError:
        return None
