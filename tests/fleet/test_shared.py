"""Shared accounts: people, projects and folders that are never each other's, and one change at a time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Host
from .lab.shell import wait_until
from .orch import Orch, make_project

ROOT = "/home/ana/.orch"


@pytest.fixture(autouse=True)
def clean(gpu01: Host) -> Iterator[None]:
    gpu01.wipe()
    yield
    gpu01.wipe()


def test_people_and_projects_on_one_account_are_never_each_others(
    orch: Orch, gpu01: Host, tmp_path: Path
) -> None:
    ana, bob = orch, orch.by("bob")
    speech = orch.within(make_project(tmp_path / "speech"))
    for one in (ana, bob, speech):
        one("deploy", "--yes", "gpu01")
        one("train", "-d", "--hosts", "gpu01", "--name", "long", "--", "sleep", "3600")
    names = ["orch-ana-mnist", "orch-ana-speech", "orch-bob-mnist"]
    assert sorted(gpu01.containers()) == names

    seen = {n: inside(gpu01, n, "ls -d /orch/runs/2*; touch /home/ana/mine") for n in names}
    assert all(listed.count("\n") == 1 for listed in seen.values())
    assert len(set(seen.values())) == 3, "each has its own run, and sees no other"
    homes = gpu01.run(f"ls {ROOT}/*/*/home/mine").stdout.split()
    assert homes == [f"{ROOT}/{p}/home/mine" for p in ("ana/mnist", "ana/speech", "bob/mnist")]

    assert (len(ids(ana)), len(ids(bob)), len(ids(ana, "-A"))) == (2, 1, 3)
    bob("stop", "long")
    assert (len(ids(ana, "--state", "running")), len(ids(bob, "--state", "running"))) == (2, 0)
    bob("down", "--yes", "gpu01")
    speech("down", "--yes", "--replace", "gpu01")
    assert gpu01.containers(all=True) == ["orch-ana-mnist"]
    assert ids(ana, "--state", "running")


def inside(host: Host, container: str, line: str) -> str:
    return host.docker("exec", "-u", "1500:1500", container, "sh", "-c", line)


def ids(orch: Orch, *words: str) -> list[str]:
    return orch("ps", "-q", *words).stdout.split()


def test_one_name_in_two_folders_is_refused_and_from_two_laptops_is_one_project(
    orch: Orch, gpu01: Host, tmp_path: Path
) -> None:
    orch("deploy", "--yes", "gpu01")
    twin = orch.within(make_project(tmp_path / "twin" / "mnist"))
    refused = f"project 'mnist' is {orch.cwd}, and would also be {twin.cwd}"
    for words in (
        ("deploy", "--yes", "gpu01"),
        ("train", "-d", "--hosts", "gpu01", "--", "true"),
        ("exec", "gpu01", "--", "true"),
        ("down", "--yes", "gpu01"),
    ):
        assert refused in twin(*words, code=1).stderr, words
    before = gpu01.docker("inspect", "-f", "{{.Id}}", "orch-ana-mnist")

    laptop = twin.on("laptop2")
    assert "unchanged" in laptop("deploy", "gpu01").stdout
    laptop("train", "-d", "--hosts", "gpu01", "--name", "there", "--", "sleep", "3600")
    assert gpu01.docker("inspect", "-f", "{{.Id}}", "orch-ana-mnist") == before
    assert "there" in orch("ps").stdout
    orch("stop", "there")

    orch("down", "--yes", "gpu01")
    gone = twin("deploy", "--yes", "gpu01", code=1)
    assert refused in gone.stderr, "its home and its runs are still there"
    assert gpu01.containers(all=True) == []


def test_two_deploys_at_once_leave_one_container(orch: Orch, gpu01: Host) -> None:
    both = [orch.start("deploy", "--yes", "gpu01"), orch.on("laptop2").start("deploy", "--yes", "gpu01")]
    said = [one.communicate(timeout=240) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert sorted(out.split()[1] for out, _ in said) == ["ready", "unchanged"]
    assert any("wait for the end of a " in err and " by ana@" in err for _, err in said)
    assert gpu01.containers(all=True) == ["orch-ana-mnist"]
    assert gpu01.run(f"grep -c ' deploy create ' {ROOT}/ana/mnist/audit.log").stdout == "1\n"


def test_a_deploy_that_is_killed_in_the_middle_is_taken_back(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("#!/bin/sh\nuntil [ -e /workspace/go ]; do sleep 0.1; done\n")
    orch = orch.having(ORCH_STARTUP=str(tmp_path / "start.sh"))
    first = orch.start("deploy", "--yes", "gpu01")
    wait_until("the first starts a container", lambda: gpu01.containers() == ["orch-ana-mnist"], 120)
    second = orch.on("laptop2").start("deploy", "--yes", "gpu01")
    assert second.stderr
    line = next(line for line in second.stderr if "wait for the end of" in line)
    assert "gpu01   wait for the end of a deploy by ana@" in line
    assert " (begun " in line

    first.send_signal(signal.SIGKILL)
    first.communicate()
    gpu01.run(f"touch {ROOT}/ana/mnist/workspace/go", user="ana")
    out, err = second.communicate(timeout=240)
    assert (second.returncode, out) == (75, ""), err
    assert "what is there has changed since the plan was made. Deploy again." in err
    assert gpu01.containers(all=True) == []
    assert gpu01.run(f"ls {ROOT}/ana/mnist/hosts/gpu01/environment.json", check=False).returncode
    assert "ready in" in orch("deploy", "--yes", "gpu01").stdout


def test_a_host_that_rebooted_in_a_deploy_is_deployed_anew(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("#!/bin/sh\nuntil [ -e /workspace/go ]; do sleep 0.1; done\n")
    begun = orch.having(ORCH_STARTUP=str(tmp_path / "start.sh"))
    first = begun.start("deploy", "--yes", "gpu01")
    wait_until("the first starts a container", lambda: gpu01.containers() == ["orch-ana-mnist"], 120)
    gpu01.reboot()
    first.communicate(timeout=120)
    assert first.returncode == 69
    gpu01.run(f"touch {ROOT}/ana/mnist/workspace/go", user="ana")
    begun("deploy", "--yes", "gpu01")
    assert gpu01.containers(all=True) == ["orch-ana-mnist"]
