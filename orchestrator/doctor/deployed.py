"""Checks on what is deployed: whether it is still what a deploy left, and what the settings ask for."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.container.by_hand import by_hand, find
from orchestrator.container.engine import Environment
from orchestrator.container.since import changed, told
from orchestrator.doctor.check import Check, Examined, fail, ok, warn


def checks(seen: Examined) -> Iterator[Check]:
    """Check nothing where nothing is deployed."""
    if seen.unread:
        where = f"{seen.unread.where}: " if seen.unread.where else ""
        hint = seen.unread.hint or "Correct the setting, or the file."
        yield fail("settings", f"{where}{seen.unread.message}", hint)
    recorded = Environment.read(seen.place.environment)
    if not recorded:
        return
    found = (*_since(seen, recorded), *_container(seen, recorded))
    yield from found or (ok("deployed", f"{recorded.name or recorded.engine}, as it was deployed"),)


def _since(seen: Examined, recorded: Environment) -> Iterator[Check]:
    names = changed(recorded.settings, seen.noted)
    if names:
        yield warn("deployed", told(seen.host, names), f"To have it: orch deploy --hosts {seen.host.name}")


def _container(seen: Examined, recorded: Environment) -> Iterator[Check]:
    if not recorded.in_container or not recorded.name or seen.docker.trouble:
        return
    again = f"orch deploy --hosts {seen.host.name} puts it right."
    old = find(recorded.name, seen.docker.containers, recorded)
    for change in by_hand(recorded.name, old, recorded, seen.docker.images):
        yield warn("deployed", f"by hand: {change}", again)
    if old and (old.paused or not old.running):
        yield warn("deployed", f"{old.name} is {'paused' if old.paused else 'stopped'}", again)
    yield from _packages(seen)


def _packages(seen: Examined) -> Iterator[Check]:
    """Say what the container holds that its image doesn't: the next container won't have it."""
    inside = seen.changed
    unless = " (unless `startup` does it)" if seen.host.settings.startup else ""
    for what, names, setting in (("pip", inside.pip, "requirements"), ("apt", inside.apt, "apt_packages")):
        if names:
            hint = f"What shall stay belongs into {setting}; the next container has none of it{unless}."
            yield warn("packages", f"{what}, by hand in the container: {', '.join(names)}", hint)
    if inside.home:
        hint = f"They come before the image's. To be rid of them: rm -r {seen.place.path}/home/.local"
        yield warn("packages", f"pip, in the home: {', '.join(inside.home)}", hint)
    if inside.files:
        hint = "Make the container anew: orch down, orch deploy."
        yield warn("deployed", f"by hand: /usr/local/lib/orch: {', '.join(inside.files)}", hint)
