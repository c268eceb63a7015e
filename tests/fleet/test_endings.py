"""How runs end, each end produced for real: what `ps`, `tail`, `train --wait` and `stop` say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.until import until

from .lab import Answer, Fleet, Host
from .orch import Orch, make_project
from .test_gpu_status import pid_of

ROOT = "/data/orch"
FOREVER = "while :; do sleep 0.1; done"
ILLEGAL = """
import ctypes, mmap, platform
code = b"\\x0f\\x0b" if platform.machine() == "x86_64" else b"\\0\\0\\0\\0"
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""


def python(code: str) -> tuple[str, ...]:
    return ("python3", "-c", code)


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


def eat(megabytes: int) -> tuple[str, ...]:
    return python(f"x = b'x' * ({megabytes} << 20)")


OUT_OF_MEMORY = "oom-beside-others"

# What is launched, and the state, cause and exit status that it is to end with by itself.
TABLE: dict[str, tuple[tuple[str, ...], str, str, int]] = {
    "exit-0": (("true",), "succeeded", "", 0),
    "exit-3": (shell("exit 3"), "failed", "exit 3", 3),
    "exception": (python("raise ValueError('no such thing')"), "failed", "ValueError: no such thing", 1),
    "no-command": (
        ("no-such-program",), "failed", "cannot run 'no-such-program': No such file or directory", 127,
    ),
    "late-import": (
        python("import time; time.sleep(2); import no_such_module"), "failed",
        "ModuleNotFoundError: No module named 'no_such_module'", 1,
    ),
    "segfault": (
        python("import ctypes; ctypes.string_at(0)"), "failed",
        "signal 11 (SIGSEGV, a crash in native code)", 139,
    ),
    "illegal": (
        python(ILLEGAL), "failed", "signal 4 (SIGILL, an instruction that this CPU lacks)", 132,
    ),
    "timeout": (shell(f"trap 'echo saved; exit' TERM; {FOREVER}"), "failed", "timeout after 2s", 124),
    OUT_OF_MEMORY: (
        eat(2000), "failed",
        "out of memory: the container's 700m ran out (killed by the kernel), probably", 137,
    ),
}  # fmt: skip
# What lives until a test does something to it.
LIVING = {
    "killed": ("sleep", "600"),
    "saver": shell(f"trap 'echo saved > checkpoint; echo saved; exit' TERM; echo up; {FOREVER}"),
    "deaf": shell(f"trap '' TERM; (setsid sleep 602 &); echo up; {FOREVER}"),
    "orphan": shell("until [ -e go ]; do sleep 0.1; done; echo went on; sleep 0.5; echo to the end"),
    "parent": shell("setsid sleep 601 & exit 4"),
    "halted": ("sleep", "600"),
    "reused": ("sleep", "600"),
    "hidden": ("sleep", "600"),
    "filler": shell("until [ -e go ]; do sleep 0.1; done; cat /dev/zero > big; exit 7"),
}


class Place:
    """A container on gpu01 with 700 MB, its records on a small disk, and the runs in it by their names."""

    def __init__(self, orch: Orch, host: Host, root: str = ROOT) -> None:
        self.orch, self.host, self.root = orch, host, root
        self.runs: dict[str, str] = {}
        self.waited: dict[str, int] = {}  # the exit status of `train --wait`

    def launch(self, name: str, argv: tuple[str, ...], *options: str, how: str = "-d") -> None:
        said = self.orch(
            "train", "-q", how, "--hosts", self.host.name, "--name", name, *options, "--", *argv, code=None
        )
        found = re.search(r"\d{8}-\d{4}-[a-z0-9-]+-[0-9a-f]{4}", said.stdout)
        assert found, said
        self.runs[name] = found[0]
        if how == "--wait":
            self.waited[name] = said.returncode

    def row(self, name: str, orch: Orch | None = None) -> dict[str, Any]:
        """What `ps --json` says of a run."""
        (row,) = (row for row in self.rows(orch=orch) if row["run"] == self.runs[name])
        return row

    def rows(self, name: str | None = None, orch: Orch | None = None) -> list[dict[str, Any]]:
        said = (orch or self.orch)("ps", "-a", "-A", self.host.name, "--json").stdout
        return [row for row in json.loads(said)["rows"] if name in (None, row["name"])]

    def container(self) -> str:
        """The name of the container."""
        (name,) = (c for c in self.host.containers(all=True) if c.startswith("orch-ana-mnist"))
        return name

    def says(self, name: str, state: str, cause: str) -> bool:
        row = self.row(name)
        return (row["state"], row["cause"]) == (state, cause)

    def folder(self, name: str) -> str:
        return f"{self.root}/ana/mnist/runs/{self.runs[name]}/{self.host.name}"

    def state(self, name: str) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.host.run(f"cat {self.folder(name)}/state.json").stdout)
        return state

    def log(self, name: str) -> str:
        return self.host.run(f"cat {self.folder(name)}/training.log").stdout

    def supervisor(self, name: str) -> str:
        """Its pid on the host."""
        line = f"python3 [^ ]*supervise.py --person ana --run {self.runs[name]} -- .*"
        (pid,) = self.host.run(f"pgrep -x -f '{line}'").stdout.split()
        return pid

    def forget_kills(self, name: str) -> None:
        """Wait for two heartbeats: a kill for memory before them is nothing to do with its end."""
        for _ in range(2):
            beat = self.state(name)["heartbeat"]
            until(lambda beat=beat: self.state(name)["heartbeat"] > beat, "a heartbeat")  # type: ignore[misc]

    def members(self, name: str) -> str:
        """The pids on the host of all that the run started."""
        found = self.host.run(
            f"grep -l -a -s 'ORCH_RUN_ID={self.runs[name]}' /proc/[0-9]*/environ | cut -d / -f 3", check=False
        )
        return " ".join(found.stdout.split())


GPU = "0, GPU-a0, NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 3, 0, 31, 52.10, Disabled\n"


def who_holds(run: str) -> str:
    """Return what a driver would say while each process of a run has memory of a GPU."""
    pids = f"grep -l -a -s 'ORCH_RUN_ID={run}' /proc/[0-9]*/environ | cut -d / -f 3"
    return f'{pids} | while read -r pid; do echo "GPU-a0, $pid, python3, 1000"; done'


def gpu_users(place: Place) -> list[tuple[int, str]]:
    """The processes on the GPU, each with its run."""
    said = place.orch("gpu-status", place.host.name, "--json").stdout
    (gpu,) = json.loads(said)["rows"][0]["gpus"]
    assert gpu["free"] == (not gpu["processes"])
    return [(process["pid"], process["run_id"]) for process in gpu["processes"]]


@pytest.fixture(scope="module")
def orch(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Orch:
    base = tmp_path_factory.mktemp("endings")
    plain = Orch(fleet, home=base / "home", cwd=make_project(base / "mnist"), account="ana")
    return plain.having(ORCH_ROOT=ROOT, ORCH_MEMORY="700m", ORCH_PROJECT="mnist")


@pytest.fixture(scope="module")
def place(orch: Orch, fleet: Fleet) -> Iterator[Place]:
    """The runs of both tables, launched at once; those of TABLE have ended."""
    host = fleet["gpu01"]
    with host.small_disk("/data", "64m"):
        orch("deploy", "--yes", "--hosts", "gpu01")
        place = Place(orch, host)
        said = orch("train", "--wait", "--hosts", "gpu01", "--name", "oom", "--", *eat(2000), code=137)
        assert "failed after" in said.stderr
        assert ": out of memory: the container's 700m ran out (killed by the kernel)   (exit" in said.stderr
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: place.launch(name, LIVING[name]), LIVING))
            # One for memory is told of by those that end about the same time: it comes last.
            for names in ([n for n in TABLE if n != OUT_OF_MEMORY], [OUT_OF_MEMORY]):
                list(
                    pool.map(
                        lambda name: place.launch(name, TABLE[name][0], *_more(name), how="--wait"), names
                    )
                )
                until(lambda names=names: all(place.state(n).get("ended") for n in names), "their ends")  # type: ignore[misc]
        yield place
        host.run("pkill -CONT -f supervise.py", check=False)
        orch("down", "--yes", "--replace", "--hosts", "gpu01", code=None)
    host.restore()


def _more(name: str) -> tuple[str, ...]:
    return ("--timeout", "2s") if name == "timeout" else ()


@pytest.mark.parametrize("name", TABLE)
def test_an_end_by_itself(place: Place, name: str) -> None:
    _, state, cause, status = TABLE[name]
    row = place.row(name)
    assert (row["state"], row["cause"], row["exit_status"]) == (state, cause, status)
    assert place.waited[name] == status
    assert not row["inferred"]
    assert row["ended"] >= row["started"]
    said = place.orch("tail", name, code=status).stderr
    assert f"{place.runs[name]} {state} after " in said
    assert (f": {cause}" in said) == bool(cause)
    look = json.loads(place.host.run(f"cat {place.folder(name)}/end.json").stdout)
    assert look["memory_limit"] == 700 << 20
    assert look["disk_total"] == 64 << 20
    if name == "timeout":
        assert place.log(name).endswith("saved\n")


def test_a_kill_from_outside(place: Place) -> None:
    place.forget_kills("killed")
    place.host.run(f"kill -KILL {place.members('killed')}")
    place.orch("tail", "killed", code=137)
    assert place.says("killed", "failed", "signal 9 (SIGKILL, killed from outside)")


def test_a_stop_by_somebody_while_the_training_saves(place: Place) -> None:
    until(lambda: "up" in place.log("saver"))
    waiting = place.orch.start("tail", "saver")
    place.orch("stop", "saver", "--why", "my turn")
    assert "stopped after" in waiting.communicate(timeout=120)[1]
    assert waiting.returncode == 143
    row = place.row("saver")
    assert (row["state"], row["exit_status"]) == ("stopped", 143)
    assert re.fullmatch(r"by \S+@\S+: my turn", row["cause"])
    assert place.host.run(f"cat {place.folder('saver')}/work/checkpoint").stdout == "saved\n"
    place.orch("tail", "saver", code=143)


def test_a_stop_of_one_that_ignores_it_leaves_no_child(place: Place) -> None:
    until(lambda: "up" in place.log("deaf"))
    assert "602" in place.host.run("pgrep -a sleep").stdout
    place.host.set_gpus(
        [Answer(GPU, match="*--query-gpu=*"), Answer("", shell=who_holds(place.runs["deaf"]))]
    )
    held = gpu_users(place)
    assert (pid_of(place.host, "sleep 602"), None) in held, "its child has a session of its own"
    assert place.runs["deaf"] in [run for _, run in held]
    said = place.orch("stop", "deaf", "--grace", "1").stdout
    assert said.endswith("stopped (killed after 1 s)\n")
    assert gpu_users(place) == []
    place.host.no_gpus()
    assert place.row("deaf")["state"] == "stopped"
    assert place.members("deaf") == ""
    assert "602" not in place.host.run("pgrep -a sleep").stdout


def test_a_command_outlives_its_supervisor(place: Place) -> None:
    place.host.run(f"kill -KILL {place.supervisor('orphan')}")
    until(lambda: place.says("orphan", "running", "its supervisor is gone, the command still runs"))
    watching = place.orch.start("tail", "orphan")
    place.host.run(f"touch {place.folder('orphan')}/work/go")
    shown, said = watching.communicate(timeout=120)
    assert shown.endswith("went on\nto the end\n")
    assert "lost: supervisor gone (inferred)" in said
    assert watching.returncode == 1
    row = place.row("orphan")
    assert (row["state"], row["inferred"], row["exit_status"]) == ("lost", True, None)


def test_a_child_outlives_the_command_and_is_named_and_ended(place: Place) -> None:
    row = place.row("parent")
    assert (row["state"], row["exit_status"]) == ("failed", 4)
    assert re.fullmatch(r"exit 4; a child of it still runs: \d+ sleep 601", row["cause"])
    said = place.orch("stop", "parent").stdout
    assert "had ended already: failed; a child of it still ran, and was ended" in said
    assert place.says("parent", "failed", "exit 4")
    assert place.members("parent") == ""
    assert "601" not in place.host.run("pgrep -a sleep").stdout


def test_a_pid_that_somebody_else_has_now(place: Place) -> None:
    """The dead supervisor's and the dead command's pids are given to processes of other people."""
    state, init = (
        place.state("reused"),
        place.host.docker("inspect", "-f", "{{.State.Pid}}", place.container()),
    )
    place.host.run(f"kill -KILL {place.supervisor('reused')} {place.members('reused')}")
    until(lambda: not place.members("reused"))
    for number, pid in enumerate((state["pid"], state["child"])):
        take = f"echo $(({pid} - 1)) >/proc/sys/kernel/ns_last_pid; sleep 99{number} & test $! = {pid}"
        until(lambda take=take: place.host.run(  # type: ignore[misc]
            f"nsenter -t {init.strip()} -p setsid sh -c '{take}' >/dev/null 2>&1 </dev/null", check=False
        ).returncode == 0, "the pid")  # fmt: skip
    try:
        assert place.says("reused", "lost", "supervisor gone")
        assert "was not there any more" in place.orch("stop", "reused").stdout
        left = place.host.run("pgrep -a sleep").stdout
        assert "990" in left
        assert "991" in left
    finally:
        place.host.run("pkill -f 'sleep 99[01]'")


def test_a_record_that_another_account_may_not_read(place: Place) -> None:
    bob = place.orch.by("bob").using("bob")
    assert place.row("hidden", bob)["command"] == ["sleep", "600"]
    folder = place.folder("hidden").rpartition("/")[0]
    place.host.run(f"chmod 700 {folder}")
    row = place.row("hidden", bob)
    assert (row["state"], row["cause"]) == (
        "running", "judged by process: this account may not read its record",
    )  # fmt: skip
    place.orch("stop", "--now", "hidden")
    row = place.row("hidden", bob)
    assert (row["state"], row["cause"], row["inferred"]) == (
        "lost", "this account may not read its record", True,
    )  # fmt: skip
    assert place.row("hidden")["state"] == "stopped"


def test_the_memory_of_the_host_runs_out(place: Place) -> None:
    with place.host.memory_of(200 << 20):
        said = place.orch(
            "train", "--wait", "--hosts", "gpu01", "--name", "host-oom", "--", *eat(450), code=137
        )
    assert "out of memory: the host's ran out (killed by the kernel)" in said.stderr


def test_a_clock_that_was_set_back(place: Place) -> None:
    place.launch("clock", ("sleep", "600"))
    place.launch("clock-dead", ("sleep", "600"))
    place.host.run(f"kill -KILL {place.supervisor('clock-dead')} {place.members('clock-dead')}")
    with place.host.clock_set_back(3600):
        row = place.row("clock")
        assert (row["state"], row["cause"], row["age_seconds"]) == ("running", "", 0)
        until(lambda: place.says("clock-dead", "lost", "supervisor gone"))
        place.orch("stop", "clock", "--grace", "5")
        assert place.row("clock")["state"] == "stopped"


def test_a_disk_that_a_run_has_filled(place: Place) -> None:
    place.forget_kills("filler")
    place.host.run(f"touch {place.folder('filler')}/work/go")
    place.orch("tail", "filler", code=7)
    assert place.says("filler", "failed", "exit 7")
    assert " 100% " in place.host.run("df /data").stdout
    place.host.run(f"rm {place.folder('filler')}/work/big")


def test_a_heart_that_beats_no_more(place: Place) -> None:
    """One that is halted is told at once; one whose container is paused, when beats are missing."""
    place.host.run(f"kill -STOP {place.supervisor('halted')}")
    until(lambda: place.says("halted", "running", "its supervisor is halted"))
    place.host.run(f"kill -CONT {place.supervisor('halted')}")
    container = place.container()
    place.host.docker("pause", container)
    try:
        until(lambda: place.says("halted", "running", "its container is paused"), "that", seconds=90)
    finally:
        place.host.docker("unpause", container)
    until(lambda: place.says("halted", "running", ""))
