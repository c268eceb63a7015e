"""A deploy by Docker: look and plan in one exec, then build, start, prove and write down."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.container.action import KEEP, REPLACE
from orchestrator.container.deploy import LOOK_DEADLINE, Ready, changed_meanwhile, common_values, stamp
from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity
from orchestrator.container.image.build import Built, Told, build, build_base, look_at, pull
from orchestrator.container.image.context import read_source
from orchestrator.container.image.pins import Pins
from orchestrator.container.image.recipe import images_to_look_for, recipe_for
from orchestrator.container.inputs import Inputs, read_inputs
from orchestrator.container.plan import Plan
from orchestrator.container.planning import make_plan
from orchestrator.container.proof import PROOF, Seen, check, look, through_sshd
from orchestrator.container.refusals import check_engine
from orchestrator.container.run_command import setup
from orchestrator.container.since import noted
from orchestrator.container.spec import Facts, container_spec, expected_gpus
from orchestrator.container.start import Started, finish, place_keys, start, start_script, undo, undo_script
from orchestrator.container.telling import head_line, plan_lines
from orchestrator.container.turn import turn
from orchestrator.errors import OrchError
from orchestrator.facts.docker import DOCKER
from orchestrator.facts.gpu import GPUS
from orchestrator.facts.place import PLACE, LiveRun
from orchestrator.facts.question import ask
from orchestrator.facts.system import SYSTEM
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command
from orchestrator.inventory import Host
from orchestrator.units import size


@dataclass(frozen=True)
class DockerDeploy:
    """A deploy of one host that is planned and not yet done."""

    host: Host
    identity: Identity
    inputs: Inputs
    facts: Facts
    plan: Plan
    engine: tuple[str, ...]
    replacing: bool = False
    pins: Pins | None = None  # shared by the hosts that build the same

    @property
    def head(self) -> str:
        """What the host is, in a line."""
        return head_line(self.host.name, self.facts)

    @property
    def lines(self) -> tuple[str, ...]:
        """What would be done."""
        return tuple(plan_lines(self.plan))

    @property
    def unchanged(self) -> Environment | None:
        """What is deployed, when nothing is to be done."""
        return Environment.parse(self.facts.place.environment or "") if self.plan.unchanged else None

    @property
    def ending(self) -> tuple[LiveRun, ...]:
        """Runs that live in what is replaced."""
        return self.plan.live if self.plan.action == REPLACE else ()

    @property
    def rendered(self) -> Iterator[tuple[str, str]]:
        """Each file that would reach the host, and the start script; values of the environment masked."""
        source = self.plan.recipe.source
        if source:
            yield f"{source.top / source.name}, built first", source.text
            yield (
                f"{source.top}, its build context ({source.count} files, {size(source.size)})",
                source.listing(),
            )
        yield from self.plan.recipe.files.items()
        masked = dataclasses.replace(self.inputs, env=dict.fromkeys(self.inputs.env, "***"))
        for name, data in setup(self.plan, self.inputs.startup).files.items():
            yield name, data.decode("utf-8", "replace")
        yield (
            "start",
            start_script(
                self.plan, self.identity, masked, self.engine, "<digest of the image>", "<turn>"
            ).text,
        )

    def carry_out(self, machine: Machine, told: Told) -> Ready:
        """Do what is planned. Raises OrchError; the host then has what it had before."""
        plan, engine = self.plan, self.engine
        if plan.image.build:
            with turn(machine, plan.spec.place, what="build", told=told):  # the next one finds it done
                self._have_image(machine, told)
        with turn(machine, plan.spec.place, undo_script(plan, engine), told=told) as token:
            done = self._done_meanwhile(machine)
            if done:
                return Ready(done, None, 0)
            return self._tidy(machine, token) if plan.action == KEEP else self._start(machine, told, token)

    def _have_image(self, machine: Machine, told: Told) -> None:
        plan, engine, staged = self.plan, self.engine, ""
        if plan.image.pull:
            told(f"pull {plan.recipe.base}")
            pull(machine, plan, engine, told)
        if plan.image.build_base and plan.recipe.source:
            told(f"build {plan.recipe.base}")
            staged = build_base(machine, plan, plan.recipe.source, self.identity, engine, told)
        self._build(machine, told, staged)

    def _build(self, machine: Machine, told: Told, staged: str) -> None:
        plan = self.plan
        told(f"build {plan.tag}")
        if not self.pins:
            build(machine, plan, self.identity, self.engine, told, staged=staged)
            return
        with self.pins.known(lambda: told("wait for the packages that another host gets")) as known:
            if known:
                told(f"build {plan.tag} with the packages of another host")
            build(machine, plan, self.identity, self.engine, told, known or (), staged)
            if known is None:
                self.give_packages(machine)

    def give_packages(self, machine: Machine) -> None:
        """Tell the other hosts which packages the image that is here holds."""
        if self.pins:
            self.pins.give(look_at(machine, self.plan, self.engine).packages)

    def _done_meanwhile(self, machine: Machine) -> Environment | None:
        """Plan anew: a person may have thought for long, or a build taken long.

        Returns what another deploy has left, where that is what is wanted. Raises Busy where it is not.
        """
        now = look_and_plan(machine, self.identity, self.inputs, replace=self.replacing)
        if not now.unchanged and not self.plan.stands(now.plan):
            raise changed_meanwhile(self.host)
        return now.unchanged

    def _start(self, machine: Machine, told: Told, token: str) -> Ready:
        """Start, prove and write down; undone where the proof fails."""
        plan, engine = self.plan, self.engine
        built = look_at(machine, plan, engine)
        told(f"start {plan.spec.name}")
        script = start_script(plan, self.identity, self.inputs, engine, built.env, token)
        started = start(machine, plan, script)
        try:
            seen = self._prove(machine, started, told)
            environment = self._environment(built, started, seen)
            finish(machine, plan, environment, token)
        except OrchError as error:
            last = undo(machine, plan, engine)
            error.details = error.details or last.strip() or None
            raise
        return Ready(environment, seen, expected_gpus(plan.spec, self.facts.gpus))

    def _tidy(self, machine: Machine, token: str) -> Ready:
        """The container stays as it is: keys are written anew, what was replaced long ago goes."""
        environment = Environment.parse(self.facts.place.environment or "")
        place_keys(machine, self.plan)
        finish(machine, self.plan, environment, token)
        return Ready(environment, None, 0)

    def _prove(self, machine: Machine, started: Started, told: Told) -> Seen:
        plan, user = self.plan, self.plan.spec.user
        seen = None
        if machine.private_key:
            told("prove it through its own sshd")
            seen = through_sshd(machine, plan.port, user.name, [started.host_key], told)
        if seen is None:  # by the engine, where nobody has logged in to the host or nothing may be forwarded
            told("prove it")
            words = ("exec", "-u", f"{user.uid}:{user.gid}", "-w", "/workspace", started.id)
            seen = look(machine, Command((*self.engine, *words, *PROOF)))
        check(seen, gpus=expected_gpus(plan.spec, self.facts.gpus), uid=user.uid, where=self.host.name)
        return seen

    def _environment(self, built: Built, started: Started, seen: Seen) -> Environment:
        plan, spec = self.plan, self.plan.spec
        return Environment(
            engine=spec.engine,
            command=self.engine,
            container=started.id,
            name=spec.name,
            user=spec.user.name,
            uid=spec.user.uid,
            gid=spec.user.gid,
            home=spec.user.home,
            dir="/orch",
            place=spec.place,
            machine=spec.hostname,
            workspace="/workspace",
            env=built.env,
            python=seen.python,
            tensorflow=seen.tensorflow,
            torch=seen.torch,
            image=plan.recipe.base,
            image_id=started.image,
            base_id=built.base or None,
            tag=plan.tag,
            tagged=started.tagged,
            made=started.made,
            settings=noted(self.host, self.inputs),
            gpus=seen.gpus,
            gpus_asked=spec.gpus,
            port=plan.port,
            host_keys=(started.host_key,),
            network=spec.network,
            spec=spec.digest,
            **stamp(self.identity),
        )


def survey_docker(
    machine: Machine, identity: Identity, environ: Mapping[str, str], *, replace: bool = False
) -> DockerDeploy:
    """Ask a host in one exec and plan its deploy; nothing is changed.

    Raises ConfigError for settings, Refused, Busy or HostError for what the host says.
    """
    source = read_source(machine.host)
    inputs = dataclasses.replace(read_inputs(machine.host, environ), source=source)
    return look_and_plan(machine, identity, inputs, replace=replace)


def look_and_plan(machine: Machine, identity: Identity, inputs: Inputs, *, replace: bool) -> DockerDeploy:
    """Do what survey_docker does, with files that are read already."""
    host = machine.host
    facts = ask_facts(machine, identity, inputs)
    check_engine(host, facts)
    wanted = recipe_for(host, identity, facts.gpus, inputs)
    spec = container_spec(host, identity, facts, inputs, wanted.digest)
    keys = (*machine.client_keys, *inputs.keys)
    plan = make_plan(host, identity, facts, spec, wanted, keys=keys, replace=replace)
    return DockerDeploy(host, identity, inputs, facts, plan, host.settings.container_command, replace)


def ask_facts(machine: Machine, identity: Identity, inputs: Inputs) -> Facts:
    """Ask all that a plan needs to know of a host, in one exec."""
    host = machine.host
    values = {
        **common_values(host, identity.place(host)),
        "docker": host.settings.container_command,
        "images": images_to_look_for(host, identity, inputs),
    }
    answers = ask(machine, SYSTEM, GPUS, DOCKER, PLACE, values=values, deadline=LOOK_DEADLINE)
    return Facts(answers.of(SYSTEM), answers.of(GPUS), answers.of(DOCKER), answers.of(PLACE))
