"""What doctor says of what is deployed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.doctor import Level
from orchestrator.errors import ConfigError
from orchestrator.facts.changed import ChangedReport
from orchestrator.facts.docker import Container

from .test_doctor import WELL, find, seen
from .test_environment import CONTAINER

MINE = Container("c0ffee", "orch-ana-mnist", "sha256:aa", True, 0, {"orch.person": "Ana"}, made={"memory": 0})


def there(container: Container | None = MINE, **change: Any) -> Any:
    recorded = replace(CONTAINER, made={"memory": 0}, settings={"shm_size": "8"})
    place = replace(WELL.place, environment=recorded.text())
    docker = replace(WELL.docker, containers=(container,) if container else ())
    return replace(seen(), place=place, docker=docker, noted={"shm_size": "8"}, **change)


def test_what_is_as_it_was_deployed() -> None:
    assert find(there(), "deployed").message == "orch-ana-mnist, as it was deployed"
    assert find(there(), "deployed").level is Level.OK


NOT_AS_IT_WAS = [
    (there(replace(MINE, made={"memory": 1 << 30})), "by hand: memory no limit -> 1.1 GB"),
    (there(replace(MINE, name="mine")), "by hand: name orch-ana-mnist -> mine"),
    (there(None), "by hand: container: c0ffee, deployed , is gone"),
    (there(replace(MINE, paused=True)), "orch-ana-mnist is paused"),
    (there(replace(MINE, running=False)), "orch-ana-mnist is stopped"),
    (there(changed=ChangedReport(files=("entrypoint",))), "by hand: /usr/local/lib/orch: entrypoint"),
]


@pytest.mark.parametrize(("examined", "words"), NOT_AS_IT_WAS, ids=[w for _, w in NOT_AS_IT_WAS])
def test_what_is_not_as_it_was_deployed(examined: Any, words: str) -> None:
    check = find(examined, "deployed")
    assert (check.level, check.message) == (Level.WARN, words)
    assert "deploy" in (check.hint or "")


def test_packages_that_no_image_has() -> None:
    assert find(there(changed=ChangedReport(pip=("+wandb-0.17",))), "packages").message == (
        "pip, by hand in the container: +wandb-0.17"
    )
    apt = find(there(changed=ChangedReport(apt=("+hello",))), "packages")
    assert "apt_packages" in (apt.hint or "")
    home = find(there(changed=ChangedReport(home=("rich-13.7",))), "packages")
    assert home.message == "pip, in the home: rich-13.7"


def test_settings_that_have_changed_since() -> None:
    examined = replace(there(), noted={"shm_size": "16"})
    examined = replace(examined, host=replace(examined.host, sources={"shm_size": "hosts.ini:12"}))
    check = find(examined, "deployed")
    assert check.message == "changed since the deploy of gpu01: shm_size (hosts.ini:12)"
    assert check.hint == "To have it: orch deploy --hosts gpu01"


def test_a_setting_whose_file_is_gone() -> None:
    unread = ConfigError("requirements: /x.txt: No such file or directory", where="hosts.ini:4")
    check = find(replace(seen(), unread=unread), "settings")
    assert check.level is Level.FAIL
    assert check.message == "hosts.ini:4: requirements: /x.txt: No such file or directory"
