"""A deploy by Docker, carried out as it is planned: build, start, prove and write down."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.container.action import KEEP, REPLACE
from orchestrator.container.deploy import Ready, changed_meanwhile, stamp
from orchestrator.container.docker_plan import keep_to_lock, look_and_plan
from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity
from orchestrator.container.image.build import Built, Told, build, build_base, look_at, pull, rename
from orchestrator.container.image.context import read_source
from orchestrator.container.image.locked import ImageLock, lock_image
from orchestrator.container.image.pins import Pins, pinned
from orchestrator.container.inputs import Inputs, read_inputs
from orchestrator.container.lock import Lock, Locked
from orchestrator.container.plan import Plan
from orchestrator.container.proof import PROOF, Seen, check, look, through_sshd
from orchestrator.container.run_command import setup
from orchestrator.container.since import noted
from orchestrator.container.spec import Facts, expected_gpus
from orchestrator.container.start import Started, finish, place_keys, start, start_script, undo, undo_script
from orchestrator.container.telling import head_line, plan_lines
from orchestrator.container.turn import BUILD_LOCK, turn
from orchestrator.errors import HostError, OrchError
from orchestrator.facts.place import LiveRun
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
    lock: ImageLock | None = None  # what the image has to be

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
        return self.facts.deployed if self.plan.unchanged else None

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
            with turn(
                machine, plan.spec.place, what="build", lock=BUILD_LOCK, told=told
            ):  # the next one finds it done
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
            pull(machine, plan, engine, told, self.lock.locked.base_digest if self.lock else "")
        if plan.image.build_base and plan.recipe.source:
            told(f"build {plan.recipe.base}")
            staged = build_base(machine, plan, plan.recipe.source, self.identity, engine, told)
        self._build(machine, told, staged)

    def _build(self, machine: Machine, told: Told, staged: str) -> None:
        plan = self.plan
        told(f"build {plan.tag}")
        if self.lock:
            self._build_locked(machine, told, staged, self.lock)
            return
        if not self.pins:
            build(machine, plan, self.identity, self.engine, told, staged=staged)
            return
        with self.pins.known(lambda: told("wait for the packages that another host gets")) as known:
            if known:
                told(f"build {plan.tag} with the packages of another host")
            build(machine, plan, self.identity, self.engine, told, known or (), staged)
            if known is None:
                self.give_packages(machine)

    def _build_locked(self, machine: Machine, told: Told, staged: str, lock: ImageLock) -> None:
        """Build it under another name, which it loses for its own when it is what is locked."""
        other = dataclasses.replace(self.plan, tag=f"{self.plan.tag}-locked")
        build(machine, other, self.identity, self.engine, told, pinned(lock.locked.packages), staged)
        lock.check_built(look_at(machine, other, self.engine))
        rename(machine, self.engine, other.tag, self.plan.tag)

    def give_packages(self, machine: Machine) -> None:
        """Tell the other hosts which packages the image that is here holds."""
        if self.pins:
            self.pins.give(look_at(machine, self.plan, self.engine).packages)

    def locked(self, machine: Machine, deployed: Environment) -> Locked:
        """Return what is deployed, to be locked. Raises HostError where its image is not there any more."""
        built = look_at(machine, self.plan, self.engine)
        if built.env != deployed.env:
            raise HostError(
                f"the image {self.plan.tag} is not what was deployed",
                where=self.host.name,
                hint="Deploy again.",
            )
        wanted = self.inputs.packages(jupyter=self.host.settings.jupyter)
        return lock_image(self.host, self.facts, self.plan.recipe, self.plan.tag, built, wanted)

    def _done_meanwhile(self, machine: Machine) -> Environment | None:
        """Plan anew: a person may have thought for long, or a build taken long.

        Returns what another deploy has left, where that is what is wanted. Raises Busy where it is not.
        """
        now = look_and_plan(machine, self.identity, self.inputs, replace=self.replacing, lock=self.lock)
        if now.plan.unchanged:
            return now.facts.deployed
        if not self.plan.stands(now.plan):
            raise changed_meanwhile(self.host)
        return None

    def _start(self, machine: Machine, told: Told, token: str) -> Ready:
        """Start, prove and write down; undone where the proof fails."""
        plan, engine = self.plan, self.engine
        built = look_at(machine, plan, engine)
        if self.lock:
            self.lock.check_built(built)
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
        environment = self.facts.deployed
        assert environment
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
    machine: Machine,
    identity: Identity,
    environ: Mapping[str, str],
    *,
    replace: bool = False,
    lock: Lock | None = None,
) -> DockerDeploy:
    """Ask a host in one exec and plan its deploy; nothing is changed.

    With a `lock` it is asked for the packages of an image that is there. Raises ConfigError for settings and
    for what is not as locked, Refused, Busy or HostError for what the host says.
    """
    source = read_source(machine.host)
    inputs = dataclasses.replace(read_inputs(machine.host, environ), source=source)
    planned = keep_to_lock(machine, look_and_plan(machine, identity, inputs, replace=replace, lock=lock))
    engine = machine.host.settings.container_command
    return DockerDeploy(
        machine.host,
        identity,
        inputs,
        planned.facts,
        planned.plan,
        engine,
        replacing=replace,
        lock=planned.lock,
    )
