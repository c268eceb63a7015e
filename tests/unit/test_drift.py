"""Each field of what is deployed changed alone is one line of plan; what belongs to no deploy is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from orchestrator.container.action import BESIDE, CREATE, KEEP, REPLACE, UNPAUSE
from orchestrator.container.by_hand import old_name
from orchestrator.container.difference import Difference, differences
from orchestrator.container.direct.venv_spec import VenvSpec, venv_spec
from orchestrator.container.engine import Environment
from orchestrator.container.identity import Identity, Person, Project
from orchestrator.container.inputs import Inputs
from orchestrator.container.plan import ImageSteps
from orchestrator.container.planning import make_plan
from orchestrator.container.since import AT_ONCE, DEPLOYED, changed, noted, told
from orchestrator.container.spec import ContainerSpec, Facts
from orchestrator.container.telling import plan_lines
from orchestrator.facts.docker import Container, Image
from orchestrator.facts.place import LiveRun
from orchestrator.facts.system import Python
from orchestrator.inventory import Settings, Volume
from orchestrator.inventory.settings import SETTINGS

from .deploys import BASE, IDENTITY, deployed, facts, gpus, host, plan, running, spec_of
from .test_environment import CONTAINER

NAME = IDENTITY.container
CA = Inputs(ca_bundle=b"-----BEGIN")
OTHER = Identity(Person("ana", "ana"), Project("other", "other", IDENTITY.project.folder))

# field of the spec -> the setting, inputs or facts that change it, and the line
ALONE: dict[str, tuple[dict[str, Any], Inputs, Facts, str]] = {
    "image": ({"image": "nvcr.io/tf:22.06"}, Inputs(), facts(), f"image {BASE} -> nvcr.io/tf:22.06"),
    "recipe": ({}, CA, facts(), "recipe what the image was built of -> as it is now"),
    "packages": ({}, Inputs(requirements=("wandb",)), facts(), "packages none -> wandb"),
    "apt_packages": ({"apt_packages": ("ffmpeg",)}, Inputs(), facts(), "apt_packages none -> ffmpeg"),
    "user": ({"container_user": "lab"}, Inputs(), facts(), "user ana (1001:1001) -> lab (1001:1001)"),
    "gpus": ({"gpus": "none"}, Inputs(), facts(), "gpus all -> none"),
    "shm_size": ({"shm_size": "16g"}, Inputs(), facts(), "shm_size 8g -> 16g"),
    "memory": ({"memory": "64g"}, Inputs(), facts(), "memory default -> 64g"),
    "cpus": ({"cpus": "4"}, Inputs(), facts(), "cpus default -> 4"),
    "network": ({"network": "host"}, Inputs(), facts(), "network bridge -> host"),
    "ssh_port": ({"ssh_port": 2300}, Inputs(), facts(), "ssh_port default -> 2300"),
    "publish": ({"publish": ("6006",)}, Inputs(), facts(), "publish none -> 6006"),
    "cluster": ({"cluster_ports": "9000-9010"}, Inputs(), facts(), "cluster default -> 0.0.0.0:9000-9010"),
    "volumes": ({"volumes": (Volume("/d", "/d"),)}, Inputs(), facts(), "volumes none -> /d:/d"),
    "hostname": ({}, Inputs(), facts(place__machine="gpu1"), "hostname gpu01 -> gpu1"),
    "place": (
        {"root": "/data"},
        Inputs(),
        facts(place__path="/data/ana/mnist"),
        "place /home/ana/.orch/ana/mnist -> /data/ana/mnist",
    ),
    "env": ({}, Inputs(env={"A": "1"}), facts(), "env A unset -> set"),
    "startup": ({}, Inputs(startup=b"echo"), facts(), "startup none -> new text"),
    "jupyter": ({"jupyter": True}, Inputs(), facts(), "jupyter no -> yes"),
    "options": (
        {},
        Inputs(),
        facts(system__selinux="Enforcing"),
        "options none -> --security-opt=label=disable",
    ),
}
TOLD_OTHERWISE = {
    "name": "another name is another project's container",
    "engine": "another engine has options of its own, which come with it",
    "source": "its files are named, by the lines of `build` (test_plan)",
}


def test_every_field_of_the_spec_is_here() -> None:
    assert {f.name for f in fields(ContainerSpec)} == ALONE.keys() | TOLD_OTHERWISE.keys()


@pytest.mark.parametrize("field", ALONE)
def test_a_field_changed_alone_is_one_line(field: str) -> None:
    settings, inputs, known, line = ALONE[field]
    before = replace(known, gpus=gpus(2)) if field == "gpus" else facts()
    now = replace(known, gpus=gpus(2)) if field == "gpus" else known
    own = {"image": BASE} if field == "gpus" else {}  # -gpu would come with them
    container = running(host(**own), before)
    found = plan(host(**{**own, **settings}), deployed(container, now), inputs)
    assert [str(change) for change in found.changes] == [line]
    assert found.action == REPLACE
    assert sum("->" in shown for shown in plan_lines(found)) == 1 + (field == "volumes")


def test_another_engine_is_named() -> None:
    found = plan(host(), deployed(running(host()), facts(docker__kind="podman")))
    assert "engine docker -> podman" in [str(change) for change in found.changes]


def test_a_project_of_another_name_has_another_container() -> None:
    known = deployed(running(host()))
    spec, wanted = spec_of(host(), known, Inputs())
    found = make_plan(host(), OTHER, known, replace(spec, name=OTHER.container), wanted)
    assert (found.action, found.changes, found.old) == (CREATE, (), None)


# Settings

VALUES: dict[str, Any] = {
    "project": "x",  # the same one of this test: only the name of the setting is looked at
    "person": "x",
    "root": "/elsewhere",
    "engine_command": ("sudo", "docker"),
    "secret": ("WANDB_API_KEY",),
    "host_key_policy": "strict",
    "transport": "openssh",
    "remote_path": ("/opt/bin",),
    "parallel": 4,
    "timeout": 60.0,
    "http_proxy": "http://proxy:3128",
    "https_proxy": "http://proxy:3128",
    "no_proxy": "localhost",
}


def test_every_setting_is_one_that_a_deploy_puts_into_effect_or_that_counts_at_once() -> None:
    assert not DEPLOYED & AT_ONCE
    assert SETTINGS.keys() == DEPLOYED | AT_ONCE
    assert VALUES.keys() == AT_ONCE


@pytest.mark.parametrize("name", sorted(AT_ONCE))
def test_a_setting_that_belongs_to_no_deploy_changes_nothing(name: str) -> None:
    assert getattr(Settings(), name) != VALUES[name]
    changes = host(**{name: VALUES[name]})
    found = plan(changes, deployed(running(host())))
    assert (found.action, found.changes, found.unchanged) == (KEEP, (), True)
    assert list(plan_lines(found)) == []
    assert changed(noted(host(), Inputs()), noted(changes, Inputs())) == ()


def test_what_has_changed_since_the_deploy_is_named_with_its_place() -> None:
    was = noted(host(), Inputs(requirements=("numpy",), env={"A": "1"}))
    now = host(shm_size="16g", env={"B": "2"})
    names = changed(was, noted(now, Inputs(requirements=("numpy",), env={"A": "1", "B": "2"})))
    assert names == ("env", "shm_size")
    assert (
        told(now, names) == "changed since the deploy of gpu01: env (hosts.ini:11), shm_size (hosts.ini:10)"
    )
    assert changed(was, noted(host(), Inputs(requirements=("numpy<2",), env={"A": "2"}))) == (
        "env_file",
        "requirements",
    )
    assert changed({}, was) == (), "what an older orch did not note is not compared"
    assert "1" not in was.values(), "no value of the environment is written down"


def test_auto_is_the_same_whatever_it_was_settled_to() -> None:
    settled = replace(host(engine="podman"), picked="podman (no docker there)")
    assert changed(noted(settled, Inputs()), noted(host(engine="auto"), Inputs())) == ()


# By hand on the host

MADE = {
    "memory": 0,
    "cpus": 0,
    "cpuset": "",
    "pids": None,
    "restart": "unless-stopped",
    "networks": ["bridge", ""],
}


def recorded(container: Container, tag: str = "t", **more: Any) -> Environment:
    return replace(
        CONTAINER,
        person="ana",
        container=container.id,
        name=NAME,
        made=MADE,
        tag=tag,
        tagged="sha256:aa",
        **more,
    )


def found_by_hand(container: Container | None = None, **change: Any) -> Any:
    """The plan where the container is as it was recorded but for `change`."""
    mine = running(host(), made=MADE)
    known = deployed(replace(mine, **change) if container is None else container)
    environment = recorded(mine).text()
    return plan(host(), replace(known, place=replace(known.place, environment=environment)))


def test_nothing_was_changed_by_hand() -> None:
    found = found_by_hand()
    assert (found.by_hand, found.unchanged) == ((), True)


BY_HAND: list[tuple[Mapping[str, Any], str]] = [
    ({"memory": 2 << 30}, "memory no limit -> 2.1 GB"),
    ({"cpus": 1_500_000_000}, "cpus no limit -> 1.5"),
    ({"cpuset": "0,1"}, "cpuset none -> 0,1"),
    ({"pids": 100}, "pids no limit -> 100"),
    ({"restart": "no"}, "restart unless-stopped -> no"),
    ({"networks": [""]}, "networks bridge -> none"),
]


@pytest.mark.parametrize(("change", "line"), BY_HAND)
def test_what_was_changed_in_the_container_is_named_and_put_right(
    change: Mapping[str, Any], line: str
) -> None:
    found = found_by_hand(made={**MADE, **change})
    assert (found.action, found.changes) == (REPLACE, ())
    assert f"                      by hand: {line}" in list(plan_lines(found))


def test_a_container_that_stands_still_has_no_networks() -> None:
    assert found_by_hand(made={**MADE, "networks": [""]}, running=False).by_hand == ()


def test_a_renamed_container_is_found_and_replaced() -> None:
    found = found_by_hand(name="mine")
    assert (found.action, [str(d) for d in found.by_hand]) == (REPLACE, [f"name {NAME} -> mine"])
    assert found.old
    assert found.old.name == "mine"


def test_what_orch_itself_put_aside_is_not_renamed_by_hand() -> None:
    mine = running(host(), made=MADE)
    assert found_by_hand(name=old_name(NAME, mine.id)).action == CREATE


def test_a_removed_container_is_named() -> None:
    mine = running(host())
    known = facts(place__environment=recorded(mine, deployed="2026-11-30T02:14:07Z").text())
    found = plan(host(), known)
    assert found.action == CREATE
    assert f"container: {'c' * 12}, deployed 2026-11-30T02:14:07Z, is gone" in "".join(plan_lines(found))


def test_another_image_under_the_tag_is_named() -> None:
    mine = running(host(), made=MADE)
    _, wanted = spec_of(host(), facts(), Inputs())
    tag = wanted.tag(IDENTITY)
    known = deployed(mine)
    place = replace(known.place, environment=recorded(mine, tag).text())

    def planned(image: str) -> Any:
        there = {tag: Image(image, "amd64", {"orch.recipe": wanted.digest})}
        return plan(host(), replace(known, place=place, docker=replace(known.docker, images=there)))

    assert planned("sha256:aa").unchanged
    assert [str(d) for d in planned("sha256:bb").by_hand] == [f"image: {tag} is another image now"]


def test_a_plan_stands_when_its_own_build_takes_the_tag() -> None:
    mine = running(host(), made={**MADE, "memory": 1})
    before = plan(host(), deployed(mine, environment=recorded(mine, "").text()))
    told = Difference("image", words="another image now")
    assert replace(before, by_hand=(told, *before.by_hand)).stands(before)
    after = replace(before, by_hand=(told, *before.by_hand))
    assert before.stands(after)  # it builds
    assert not replace(before, image=ImageSteps()).stands(after)


def test_a_paused_container_goes_on() -> None:
    assert found_by_hand(paused=True).action == UNPAUSE


def test_a_run_keeps_what_was_changed_by_hand_until_its_end() -> None:
    mine = running(host(), made={**MADE, "memory": 1 << 30})
    live = LiveRun("20261130-0214-nightly-7f3a", mine.id)
    known = deployed(mine, live=(live,), environment=recorded(mine).text())
    assert plan(host(), known).action == BESIDE


def test_an_older_record_is_not_compared() -> None:
    mine = running(host(), made={**MADE, "memory": 1 << 30})
    environment = json.dumps({**asdict(recorded(mine)), "made": {}})
    assert plan(host(), deployed(mine, environment=environment)).unchanged


# A venv

PYTHON = Python("/usr/bin/python3.10", (3, 10, 4))
VENV_HOST = facts(
    system__pythons=(PYTHON, Python("/opt/python3.9", (3, 9, 1))),
    system__os_id="debian",
    system__os_version="12",
    system__uv="uv",
).system
VENV: dict[str, tuple[dict[str, Any], Inputs, dict[str, Any], set[str]]] = {
    "python": ({"python": "/opt/python3.9"}, Inputs(), {}, {"python", "version"}),
    "tensorflow": ({"tensorflow": "2.9.1"}, Inputs(), {}, {"tensorflow"}),
    "constraints": ({"tensorflow": "2.12.0"}, Inputs(), {}, {"constraints", "tensorflow"}),
    "requirements": ({}, Inputs(requirements=("wandb",)), {}, {"requirements"}),
    "platform": ({}, Inputs(), {"os_version": "13"}, {"platform"}),
    "pip": ({}, Inputs(), {"pythons": (replace(PYTHON, venv=False),)}, {"pip"}),
    "activate": ({"activate": "module load cuda"}, Inputs(), {}, {"activate"}),
    "gpus": ({"gpus": "none"}, Inputs(), {}, {"gpus"}),
    "ca_bundle": ({}, CA, {}, {"ca_bundle"}),
    "env": ({}, Inputs(env={"A": "1"}), {}, {"env A"}),
}


def venv(settings: dict[str, Any], inputs: Inputs, system: dict[str, Any]) -> dict[str, Any]:
    on = host(engine="venv", **settings)
    made = venv_spec(on, replace(VENV_HOST, **system), inputs, gpus=False)
    text: dict[str, Any] = json.loads(json.dumps(asdict(made)))
    return text


def test_every_field_of_a_venv_is_here() -> None:
    others = {"version", "locked"}  # the one goes with the Python, the other is told as a note
    assert {f.name for f in fields(VenvSpec)} == VENV.keys() | others


@pytest.mark.parametrize("field", VENV)
def test_a_field_of_a_venv_changed_alone_is_one_line(field: str) -> None:
    settings, inputs, system, names = VENV[field]
    before = venv({}, Inputs(), {})
    assert {d.field for d in differences(before, venv(settings, inputs, system))} == names
    assert differences(before, venv({}, Inputs(), {})) == ()
