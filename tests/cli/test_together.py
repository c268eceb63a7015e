"""orch train on several hosts that only pretend: the order of things, all or none, and what is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import LostConnection, Unreachable
from tests.cli.hosts_together import Lab, all_ways, private, usual_launch


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_two_hosts_are_looked_at_tried_and_launched_on(lab: Lab) -> None:
    said = lab.train("--name", "two")
    assert said.status == 0, said.err
    run = said.out.split()[1]
    assert said.out == f"run     {run} on gpu01, gpu02, GPUs 0-2,4 each\n"
    steps = [script for script, _ in lab.did]
    assert list(dict.fromkeys(steps)) == ["look", "reach", "launch", "met"]
    assert all(lab.order_of(step) == ["gpu01", "gpu02"] for step in ("look", "reach", "launch", "met"))
    assert "reach   each of 2 hosts reaches each" in said.err
    assert said.err.splitlines()[-1] == "next:   orch tail two      orch ps      orch stop two"


def test_each_worker_is_told_of_the_others(lab: Lab) -> None:
    said = lab.train()
    chief, other = (private(said, host) for host in ("gpu01", "gpu02"))
    assert chief["cluster"]["hosts"] == other["cluster"]["hosts"] == ["gpu01", "gpu02"]
    assert chief["cluster"]["addresses"] == ["10.0.0.1", "10.0.0.2"]
    assert (chief["cluster"]["rank"], other["cluster"]["rank"]) == (0, 1)
    assert chief["cluster"]["token"] == other["cluster"]["token"]
    assert len(chief["cluster"]["token"]) == 64
    assert chief["cluster"]["link"] == other["cluster"]["link"] != chief["cluster"]["port"]
    assert chief["env"]["NCCL_SOCKET_IFNAME"].removeprefix("=") == "eth0"
    assert chief["env"]["ORCH_RUN_ID"] == other["env"]["ORCH_RUN_ID"]


def test_ranks_are_as_the_hosts_are_named(lab: Lab) -> None:
    said = lab.train(hosts="gpu02,gpu01")
    assert private(said, "gpu02")["cluster"]["rank"] == 0
    assert "on gpu02, gpu01" in said.out


def test_the_token_is_nowhere_to_be_read(lab: Lab) -> None:
    said = lab.train("-vv")
    token = private(said, "gpu01")["cluster"]["token"]
    assert token not in said.err + said.out
    assert token not in "".join(p.read_text() for p in (lab.folder / "cache").rglob("*") if p.is_file())


def test_where_one_host_refuses_the_others_are_taken_back(lab: Lab) -> None:
    lab.says["gpu02", "launch"] = "answer busy\n"
    said = lab.train()
    assert (said.status, said.out) == (75, "")
    assert said.err.splitlines()[-1] == (
        "orch: gpu02: no free GPU for the run (taken back on gpu01). "
        "See who holds what: orch gpu-status; or take part in one with --share."
    )
    assert lab.order_of("withdraw") == ["gpu01"]
    assert lab.order_of("met") == []
    assert not (lab.folder / "cache/orch/runs.jsonl").exists()


def test_a_host_that_could_not_place_it_has_nothing_to_take_back(lab: Lab) -> None:
    lab.says["gpu02", "launch"] = "answer failed\nwhy mkdir: Permission denied\n"
    said = lab.train()
    assert said.status == 1
    assert "the run could not be placed: mkdir: Permission denied (taken back on gpu01)" in said.err
    assert lab.order_of("withdraw") == ["gpu01"]


def test_a_host_that_dies_between_the_look_and_the_launch(lab: Lab) -> None:
    lab.says["gpu02", "launch"] = LostConnection("the connection was closed", where="gpu02")
    lab.says["gpu02", "withdraw"] = Unreachable("no route to host", where="gpu02")
    said = lab.train(again=True)
    assert (said.status, said.out) == (69, "")
    (line,) = [line for line in said.err.splitlines() if line.startswith("orch: ")]
    assert line.startswith("orch: gpu02: the connection was closed (taken back on gpu01). Run 2")
    assert line.endswith(
        " may have been started on gpu02, and ends by itself there within minutes: orch ps gpu02"
    )
    assert lab.order_of("withdraw") == ["gpu01", "gpu02"]


def test_a_host_that_was_silent_is_taken_back_when_it_answers_again(lab: Lab) -> None:
    lab.says["gpu02", "launch"] = LostConnection("the connection was closed", where="gpu02")
    said = lab.train(again=True)
    assert said.status == 69
    assert "orch: gpu02: the connection was closed (taken back on gpu01, gpu02). Try again.\n" in said.err
    script = said.machines["gpu02"].ran[-1]
    assert (script.name, ".withdrawn-" in script.text) == ("withdraw", True)
    assert ".withdrawn-" not in said.machines["gpu01"].ran[-1].text


def test_an_id_that_a_run_has_on_one_host_is_drawn_anew_for_all(lab: Lab) -> None:
    answers = iter(["answer exists\n"])

    def once(asked: Any) -> str:
        return next(answers, usual_launch())

    lab.says["gpu02", "launch"] = once
    said = lab.train()
    assert said.status == 0, said.err
    assert lab.order_of("launch") == ["gpu01", "gpu01", "gpu02", "gpu02"]
    assert lab.order_of("withdraw") == ["gpu01"]
    assert private(said, "gpu01")["env"]["ORCH_RUN_ID"] == private(said, "gpu02")["env"]["ORCH_RUN_ID"]


def test_nothing_is_launched_where_the_environments_differ(lab: Lab) -> None:
    lab.says["gpu02", "look"] = lab.look("gpu02", env="e2")
    said = lab.train()
    assert (said.status, lab.order_of("launch"), lab.order_of("reach")) == (1, [], [])
    assert "its environment is not that of gpu01" in said.err
    assert lab.train("--skip-checks").status == 0
    assert lab.order_of("reach") == []


def test_packages_that_only_one_home_has_are_told(lab: Lab) -> None:
    """As `orch jupyter --install` puts them there."""
    lab.says["gpu01", "look"] = lab.look("gpu01", packages=["numpy==1.22.4"])
    lab.says["gpu02", "look"] = lab.look("gpu02", packages=["jupyterlab==3.6", "numpy==1.22.4"])
    said = lab.train()
    assert said.status == 0, said.err
    assert "note: gpu02 has other packages by hand: jupyterlab 3.6 (gpu01: none)\n" in said.err


def test_nothing_is_launched_where_one_can_t_reach_another(lab: Lab) -> None:
    lab.says["gpu01", "reach"] = lambda asked: all_ways(asked).replace('"ok"', '"timeout"')
    said = lab.train()
    assert (said.status, lab.order_of("launch")) == (1, [])
    assert re.search(r"^orch: gpu01: can't reach gpu02 at 10\.0\.0\.2:2000\d by eth0: timed out", said.err)


def test_nothing_is_launched_where_nothing_is_deployed(lab: Lab) -> None:
    lab.says["gpu02", "look"] = "answer no-environment\n"
    said = lab.train()
    assert (said.status, [script for script, _ in lab.did]) == (1, ["look", "look"])
    assert said.err == "orch: gpu02: nothing is deployed here. First: orch deploy --hosts gpu02\n"


def test_code_goes_to_those_that_lack_it(lab: Lab) -> None:
    for host in ("gpu01", "gpu02"):
        lab.says[host, "look"] = lab.look(host, bundle="no")
    said = lab.train()
    assert said.status == 0, said.err
    assert sorted(host for host, machine in said.machines.items() if machine.streamed) == ["gpu01", "gpu02"]
    assert "(new)" in said.err


@pytest.mark.parametrize("step", ["look", "reach", "launch", "met"])
def test_ctrl_c_leaves_nothing_or_says_what_may_run(lab: Lab, step: str) -> None:
    lab.says["gpu02", step] = lambda asked: KeyboardInterrupt()
    said = lab.train()
    assert (said.status, said.out) == (130, "")
    words = {
        "launch": "was taken back: nothing runs",
        "met": "was launched, and its workers may have begun. See: orch ps gpu01,gpu02",
    }
    assert words.get(step, "") in said.err
    assert lab.order_of("withdraw") == (["gpu01", "gpu02"] if step == "launch" else [])
    if step in ("look", "reach"):
        assert lab.order_of("launch") == []


def test_a_group_has_to_be_told_how_many(lab: Lab) -> None:
    said = lab.train(hosts="lab")
    assert (said.status, lab.did) == (2, [])
    assert said.err == (
        "orch: lab is 3 hosts: say how many of them the run takes. All: --hosts lab --nodes all; "
        "the first that has room: --hosts lab --nodes 1\n"
    )
    assert lab.train("--nodes", "4", hosts="lab").status == 2
    assert lab.train("--nodes", "two", hosts="lab").status == 2
    assert "on gpu01, gpu02, gpu03, GPUs" in lab.train("--nodes", "all", hosts="lab").out


def test_of_a_group_those_with_room_are_taken(lab: Lab) -> None:
    lab.says["gpu01", "launch"] = "answer busy\n"
    said = lab.train("--nodes", "2", hosts="lab")
    assert said.status == 0, said.err
    assert "on gpu02, gpu03, GPUs" in said.out
    assert "gpu01: no free GPU for the run (taken back on gpu02), so the next one" in said.err
    lab.says["gpu02", "look"] = Unreachable("no route to host", where="gpu02")
    assert lab.train("--nodes", "2", hosts="lab").status == 75


def test_a_cluster_of_one_s_own_is_refused(lab: Lab) -> None:
    said = lab.train("--env", "TF_CONFIG={}")
    assert (said.status, lab.did) == (2, [])
    assert said.err == (
        "orch: TF_CONFIG of a run on several hosts is made by orch. "
        "Leave it out: every worker gets its own.\n"
    )


def test_a_dry_run_shows_the_cluster(lab: Lab) -> None:
    said = lab.train("--dry-run")
    assert (said.status, lab.did) == (0, [])
    assert " on gpu01, gpu02, in work\n" in said.err
    assert "worker 1   gpu02   10.0.0.2   any free port" in said.out
    (config,) = [line for line in said.out.splitlines() if '"index": 1' in line]
    assert json.loads(config.strip().removeprefix("TF_CONFIG="))["cluster"]["worker"] == [
        "10.0.0.1:PORT",
        "10.0.0.2:PORT",
    ]


def test_restarts_are_asked_for(lab: Lab) -> None:
    said = lab.train("--max-restarts", "3", "--retry-on", "lost,exit")
    assert private(said, "gpu02")["restarts"] == {"max": 3, "on": ["lost", "exit"]}
    assert private(lab.train("--max-restarts", "1"), "gpu01")["restarts"]["on"] == ["lost", "nccl", "gpu"]
    assert "restarts" not in private(lab.train(), "gpu01")
    assert lab.train("--retry-on", "lost").err.startswith("orch: --retry-on goes with --max-restarts")
    assert "no cause 'luck'" in lab.train("--max-restarts", "1", "--retry-on", "luck").err
