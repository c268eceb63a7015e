"""The run that is to run again: what was asked of it, and its code, also when its host is gone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.app import App
from orchestrator.cli.launching import Code
from orchestrator.cli.runs import FoundRun, find_run
from orchestrator.errors import HostError, OrchError, Unreachable, UsageError

if TYPE_CHECKING:
    from orchestrator.inventory import Host
    from orchestrator.run.code.bundle import Bundle
    from orchestrator.run.spec import RunSpec

ARGV = "orch.argv"
"""Where the words behind `--` stand in a context's meta."""


class AgainCommand(click.Command):
    """A command that takes RUN, options in any order, and behind `--` a command for the run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Part what stands behind `--` from the rest."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[ARGV] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


def argv() -> tuple[str, ...]:
    """Return the words behind `--` of this call. Raises UsageError where they begin with an option."""
    words: tuple[str, ...] = click.get_current_context().meta[ARGV]
    if words and words[0].startswith("-"):
        raise UsageError(
            f"no command '{words[0]}'", hint="Behind -- stands the whole command, with its program."
        )
    return words


@dataclass(frozen=True)
class Earlier:
    """A run that was found: in this machine's memory, or on its hosts (`found`)."""

    spec: RunSpec
    diff: str = ""
    found: FoundRun | None = None

    def diff_of(self, app: App) -> str:
        """Return how its code differed from its commit, as far as that can be had."""
        if self.diff or not self.spec.git.get("diff") or not self.found:
            return self.diff
        worker, into = self.found.workers[0], io.BytesIO()
        try:
            app.machine(worker.host).get(f"{worker.record.folder}/code.diff", into)
        except HostError:
            return ""
        return into.getvalue().decode("utf-8", "surrogateescape")

    def code(self, app: App) -> Code:
        """Return its code: what is kept here of it, else brought from its host when another lacks it."""
        return Code(self.spec.bundle, lambda: self._bring(app))

    def _bring(self, app: App) -> Bundle:
        from orchestrator.inventory.find import cache_folder
        from orchestrator.run.code.download import fetch_bundle
        from orchestrator.run.code.kept import kept

        cache, digest = cache_folder(app.environ), self.spec.bundle
        if here := kept(digest, cache):
            return here
        errors: list[OrchError] = []
        for host, place in self._places(app):
            try:
                return fetch_bundle(app.machine(host), place, digest, cache=cache)
            except OrchError as error:
                errors.append(error)
        raise self._nowhere(errors)

    def _places(self, app: App) -> list[tuple[Host, str]]:
        """Return its hosts, as far as they are known, with the project's folder on each."""
        from orchestrator.container.identity import slug

        if self.found:
            return [(w.host, w.record.place) for w in self.found.workers]
        own = f"{slug(self.spec.person)}/{slug(self.spec.project)}"
        hosts = (h for h in app.inventory.hosts if h.name in self.spec.hosts)
        return [(h, f"{h.settings.root.rstrip('/')}/{own}") for h in hosts]

    def _nowhere(self, errors: Sequence[OrchError]) -> OrchError:
        what = f"the code of run {self.spec.run} is not kept here"
        if not errors:
            return UsageError(f"{what}, and {', '.join(self.spec.hosts)} is in no inventory")
        kind = type(errors[0]) if isinstance(errors[0], HostError) else HostError
        return kind(f"{what}, and {'; '.join(str(e) for e in errors)}", hint="Run it anew: orch train")


def find_earlier(app: App, word: str | None) -> Earlier:
    """Find a run in this machine's memory, where what was asked never changes, else on the hosts.

    Raises UsageError when there is none, a host's error when one that may have it is silent.
    """
    from orchestrator.run.find import Wanted

    remembered = _remembered(app, Wanted(word or "latest"))
    if remembered:
        check_training(remembered[0])
        spec, diff = remembered
        return Earlier(spec, diff)
    try:
        found = find_run(app, word)
    except Unreachable as error:
        error.hint = error.hint or "It was not launched from here: only its host knows what it was."
        raise
    check_training(found.spec)
    return Earlier(found.spec, found=found)


def check_training(spec: RunSpec) -> None:
    """Raise UsageError for a service: it is no run to go on with."""
    if spec.service:
        raise UsageError(
            f"run {spec.run} is a service, and no training", hint=f"To have one: orch {spec.kind}"
        )


def _remembered(app: App, wanted: Any) -> tuple[RunSpec, str] | None:
    from orchestrator.container.identity import person_of
    from orchestrator.run import seen
    from orchestrator.run.find import newest

    file = seen.file(app.environ)
    persons = {person_of(h).name for h in app.inventory.hosts}
    rows = [
        s
        for s in seen.recall(file)
        if wanted.matches(s.run, s.name, service=s.service) and (wanted.by_id or s.person in persons)
    ]
    for run in newest(wanted, [(s.run, -age, s.run) for age, s in enumerate(rows)]):
        return seen.spec_of(file, run)
    return None
