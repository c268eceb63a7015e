"""Runs whose container or host ended under them: a dead run never looks alive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.until import until

from .lab import Fleet, Host
from .orch import Orch, make_project
from .test_endings import Place, shell

SAVING = shell("trap 'sleep 0.5; echo saved; exit' TERM; echo up; while :; do sleep 0.1; done")


@pytest.fixture(scope="module")
def deployed(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base = tmp_path_factory.mktemp("endings")
    plain = Orch(fleet, home=base / "home", cwd=make_project(base / "mnist"), account="ana")
    orch = plain.having(ORCH_ROOT="/home/ana/endings", ORCH_PROJECT="mnist")
    yield Place(orch, fleet["gpu02"], root="/home/ana/endings")
    orch("down", "--yes", "--replace", "--hosts", "gpu02", code=None)
    fleet["gpu02"].restore()


@pytest.fixture
def place(deployed: Place) -> Place:
    """With its container, whatever the test before did to that."""
    deployed.orch("deploy", "--yes", "--hosts", "gpu02")
    deployed.host.docker("start", deployed.container())
    return deployed


def running(place: Place, name: str) -> None:
    place.launch(name, SAVING)
    until(lambda: "up" in place.log(name))


def alive_again(host: Host, container: str) -> None:
    until(lambda: container in host.containers(), "the container")


def test_a_container_that_is_stopped_gives_the_training_its_grace(place: Place) -> None:
    running(place, "stopped")
    place.host.docker("stop", place.container())
    assert place.log("stopped").endswith("saved\n")
    assert place.says("stopped", "stopped", "by the stop of its container")
    place.orch("tail", "stopped", code=143)


def test_a_container_that_is_killed(place: Place) -> None:
    running(place, "killed")
    place.host.docker("kill", place.container())
    row = place.row("killed")
    assert (row["state"], row["cause"], row["inferred"]) == ("lost", "container gone: exited (137)", True)
    said = place.orch("tail", "killed", code=1)
    assert "lost: container gone: exited (137) (inferred)" in said.stderr


def test_a_container_that_its_policy_starts_again(place: Place) -> None:
    running(place, "restarted")
    name = place.container()
    pid = place.host.docker("inspect", "-f", "{{.State.Pid}}", name).strip()
    place.host.run(f"kill -KILL {pid}")
    until(lambda: place.says("restarted", "lost", "container restarted"))
    assert name in place.host.containers()
    place.orch("tail", "restarted", code=1)


def test_a_docker_daemon_that_is_restarted(place: Place) -> None:
    running(place, "daemon")
    name = place.container()
    place.host.restart_docker()
    assert place.log("daemon").endswith("saved\n")
    assert place.says("daemon", "stopped", "by the stop of its container")
    alive_again(place.host, name)


def test_a_daemon_that_does_not_answer_ends_nothing(place: Place) -> None:
    running(place, "unanswered")
    place.host.run("pkill -STOP -x dockerd")
    try:
        assert place.says("unanswered", "running", "")
    finally:
        place.host.run("pkill -CONT -x dockerd")
    place.orch("stop", "--now", "unanswered")


def test_a_host_that_is_rebooted(place: Place) -> None:
    running(place, "rebooted")
    name = place.container()
    place.host.reboot()
    row = place.row("rebooted")
    assert (row["state"], row["cause"], row["inferred"]) == ("lost", "host rebooted", True)
    said = place.orch("tail", "rebooted", code=1).stderr
    assert "lost: host rebooted (inferred)" in said
    assert "next:   orch why rebooted      orch resume rebooted" in said
    assert f"next:   orch why {row['run']}      orch resume {row['run']}" in place.orch("ps").stderr
    with place.host.unreachable():
        silent = place.orch("ps", "gpu01,gpu02", code=None).stderr
    assert f"the newest run from here: {row['run']}" in silent
    alive_again(place.host, name)
    assert place.says("rebooted", "lost", "host rebooted")


def test_a_container_without_a_python_has_no_supervisor(place: Place) -> None:
    name = place.container()
    place.host.docker("exec", "-u", "0", name, "mv", "/usr/bin/python3", "/usr/bin/python3.away")
    try:
        said = place.orch("train", "-q", "-d", "--hosts", "gpu02", "--name", "nobody", "--", "true", code=1)
    finally:
        place.host.docker("exec", "-u", "0", name, "mv", "/usr/bin/python3.away", "/usr/bin/python3")
    assert "gpu02: the supervisor did not start" in said.stderr
    assert "python3" in said.stderr
    (row,) = place.rows("nobody")
    assert (row["state"], row["inferred"]) == ("lost", True)
    assert row["cause"].startswith("its supervisor never started: ")
    assert "python3" in row["cause"]


def test_a_container_that_is_removed(place: Place) -> None:
    running(place, "removed")
    place.host.docker("rm", "-f", place.container())
    row = place.row("removed")
    assert (row["state"], row["cause"], row["inferred"]) == ("lost", "container gone: removed", True)
    place.orch("tail", "removed", code=1)
    assert "was not there any more" in place.orch("stop", "removed").stdout
