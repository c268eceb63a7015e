"""orch gpu-status on machines that only pretend."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from orchestrator.errors import HostError, LostConnection, NotPermitted, OrchError, Unreachable
from orchestrator.hosts.fake import FakeMachine

from .calling import Called, call

FIELDS = (
    "index,uuid,name,driver_version,memory.total,memory.used,utilization.gpu,"
    "temperature.gpu,power.draw,mig.mode.current"
)
A100 = """\
0, GPU-a0, NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 31744, 87, 64, 310.44, Disabled
2, GPU-a2, NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 11264, 0, 31, 52.1, Disabled
3, GPU-a3, NVIDIA A100-SXM4-40GB, 535.183.01, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], -, -
4, GPU-a4, NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 4, 0, 30, 51.9, Enabled"""
APPS = """\
GPU-a0, 410, /usr/bin/python3, 15000
GPU-a0, 411, /usr/bin/python3, 15000
GPU-a2, 77, python3, 11000"""
PROCS = """\
proc\t410\t409\tana\t720\tpython3\t
proc\t411\t409\tana\t700\tpython3\t
proc\t409\t1\tana\t721\tpython3\t\tsupervise.py\t--person\tana\t--run\t20261130-0214-nightly-7f3a
proc\t77\t1\tbob\t32400\tpython3\t"""
NONE = "cards\t0"


def smi(gpus: str = A100, apps: str = APPS, more: str = PROCS) -> str:
    lines = ["cards\t4", "smi\t/usr/bin/nvidia-smi", f"fields\t{FIELDS}"]
    lines += [f"gpu\t{line}" for line in gpus.splitlines()]
    lines += ["status\t0", *(f"app\t{line}" for line in apps.splitlines()), "apps-status\t0", more]
    return "\n".join(lines)


Answers = dict[str, str | OrchError]
Run = Callable[..., Called]


@pytest.fixture
def status(tmp_path: Path) -> Run:
    """Run the verb over hosts that answer so; a LostConnection comes when the host is asked."""

    def run(answers: Answers, *words: str) -> Called:
        (tmp_path / "hosts.ini").write_text("\n".join(answers) + "\n")

        def prepare(machine: FakeMachine) -> None:
            answer = answers[machine.host.name]
            if isinstance(answer, OrchError):
                machine.answer("gpu", answer)
            else:
                machine.answer_facts(gpu=answer)

        away = {
            name: answer
            for name, answer in answers.items()
            if isinstance(answer, OrchError) and not isinstance(answer, LostConnection)
        }
        return call(tmp_path, "gpu-status", *words, prepare=prepare, failing=away)

    return run


DEAD = Unreachable("connection timed out after 10 s", where="gpu02")


def test_every_gpu_with_who_uses_it(status: Run) -> None:
    called = status({"gpu01": smi(), "gpu02": DEAD, "cpu": NONE})
    assert called.out.replace("█", "#").replace("░", "-").splitlines() == [
        "gpu01   4 x A100-SXM4-40GB",
        "  0   87 %  |########-|   31/40 GB   64 C   310 W   ana: nightly",
        "  2    0 %  |         |   11/40 GB   31 C    52 W   bob: python3 (outside orch, 9 h)",
        "  3    -    |         |       -       -       -     fault: GPU is lost (reboot or reset)",
        "  4    MIG  |         |    0/40 GB   30 C    52 W   free",
        "gpu02   unreachable: connection timed out after 10 s",
        "cpu     no GPU (nvidia-smi not found)",
    ]
    assert (called.status, called.err) == (1, "")


def test_one_exec_per_host(status: Run) -> None:
    machines = status({"gpu01": smi(), "cpu": NONE}).machines
    assert [len(m.ran) for m in machines.values()] == [1, 1]


@pytest.mark.parametrize(
    ("answers", "words", "code"),
    [
        ({"gpu01": smi(), "cpu": NONE}, [], 0),
        ({"gpu01": smi()}, ["--check"], 1),
        ({"gpu01": smi(A100.splitlines()[0])}, ["--check"], 0),
        ({"gpu01": smi("Failed to initialize NVML: Driver/library version mismatch")}, [], 1),
        ({"gpu01": DEAD, "gpu02": DEAD}, [], 69),
        ({"gpu01": DEAD}, [], 69),
        ({"gpu01": DEAD, "cpu": NONE}, [], 1),
        ({"gpu01": NotPermitted("login refused")}, [], 77),
        ({"gpu01": HostError("no answer within 30 s"), "cpu": NONE}, [], 1),
    ],
)
def test_exit_codes(status: Run, answers: Answers, words: list[str], code: int) -> None:
    assert status(answers, *words).status == code


def test_a_driver_that_fails_is_told_with_what_to_do(status: Run) -> None:
    out = status({"gpu01": smi("Failed to initialize NVML: Driver/library version mismatch")}).out
    assert out.startswith(
        "gpu01   Failed to initialize NVML: Driver/library version mismatch. The driver was"
    )


def test_a_warning_stands_under_its_host(status: Run) -> None:
    out = status(
        {"gpu01": smi(A100.splitlines()[0] + "\nWARNING: infoROM is corrupted at gpu 0001:00:00.0")}
    ).out
    assert out.splitlines()[-1] == "  warning: infoROM is corrupted at gpu 0001:00:00.0"


def test_less_than_a_gigabyte_is_told_to_a_tenth(status: Run) -> None:
    row = "0, GPU-a, Tesla T4, 450.80.02, 15360, 593, 3, 40, 9.65, [N/A]"
    assert "|   0.6/15 GB   40 C   10 W   in use: memory is held" in status({"gpu01": smi(row, apps="")}).out


def test_json_has_null_where_a_value_is_absent(status: Run) -> None:
    called = status({"gpu01": smi(), "gpu02": DEAD, "cpu": NONE}, "--json")
    hosts: list[dict[str, Any]] = json.loads(called.out)["rows"]
    assert [(h["host"], h["state"]) for h in hosts] == [
        ("gpu01", "faulty"),
        ("gpu02", "unreachable"),
        ("cpu", "no gpu"),
    ]
    gpu, _, lost, _ = hosts[0]["gpus"]
    assert (gpu["memory_used_mb"], gpu["utilization"], gpu["free"]) == (31744, 87, False)
    assert gpu["processes"][0]["run_id"] == "20261130-0214-nightly-7f3a"
    assert (lost["memory_used_mb"], lost["utilization"], lost["free"]) == (None, None, False)
    assert lost["absent"]["memory.used"] == "[GPU is lost]"
    assert hosts[1]["problem"] == "connection timed out after 10 s"
    assert called.status == 1


def test_a_named_host_without_an_inventory(status: Run) -> None:
    assert status({"gpu01": smi(), "cpu": NONE}, "cpu").out == "cpu   no GPU (nvidia-smi not found)\n"


class Rounds:
    """A clock that lets `count` rounds of --watch pass and then is Ctrl-C."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, _seconds: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_watch_asks_again_over_the_same_connection_until_ctrl_c(
    status: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", Rounds(3))
    called = status({"cpu": NONE}, "--watch", "5")
    assert called.out.count("cpu   no GPU") == 3
    assert len(called.machines["cpu"].ran) == 3
    assert called.status == 130


def test_watch_shows_a_lost_connection_as_a_row(status: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", Rounds(1))
    answers: Answers = {"gpu01": LostConnection("the connection went", where="gpu01"), "cpu": NONE}
    called = status(answers, "--watch", "5")
    assert called.out.splitlines()[:2] == ["gpu01   connection lost", "cpu     no GPU (nvidia-smi not found)"]


def test_watch_with_json_is_a_list_a_line(status: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", Rounds(2))
    lines = status({"cpu": NONE}, "--watch", "5", "--json").out.splitlines()
    assert [json.loads(line)["rows"][0]["state"] for line in lines] == ["no gpu", "no gpu"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # pexpect, while other tests had threads
def test_watch_draws_in_place_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text("me ansible_connection=local\n")
    watching = pexpect.spawn(
        sys.executable,
        ["-m", "orchestrator", "gpu-status", "--watch", "0.2"],
        cwd=str(tmp_path),
        env={
            **os.environ,
            "TERM": "xterm",
            "HOME": str(tmp_path),
            "ORCH_INVENTORY": str(tmp_path / "hosts.ini"),
        },
        timeout=30,
    )
    for _ in range(3):
        watching.expect("every 0.2 s, Ctrl-C ends")
    watching.expect_exact("\x1b[1A")  # a line up: the block before is drawn over
    watching.sendintr()
    watching.expect(pexpect.EOF)
    assert b"\x1b[?25h" in watching.before  # the cursor is back
    watching.close()
    assert watching.exitstatus == 130
