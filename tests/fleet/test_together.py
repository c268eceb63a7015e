"""One run on two real hosts, by published ports of containers and by the hosts' network."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.until import until

from . import small
from .lab import Fleet, Host
from .orch import Orch, make_project

BOTH = "gpu01,gpu02"
ROOT = "/home/ana/together"
SPAN = (21100, 21107)
BRIDGE = {"ORCH_PROJECT": "bridged", "ORCH_CLUSTER_PORTS": f"{SPAN[0]}-{SPAN[1]}"}
NETWORK = {"ORCH_PROJECT": "hosted", "ORCH_NETWORK": "host"}


@pytest.fixture(scope="module")
def person(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Orch:
    """Ana with a small image on both hosts, and a project of two workers that talk."""
    base = tmp_path_factory.mktemp("together")
    orch = Orch(fleet, home=base / "home", cwd=make_project(base / "mnist"), account="ana")
    shutil.copyfile(Path(__file__).with_name("peers.py"), orch.cwd / "peers.py")
    archive = small.archive(fleet["gpu01"])
    for host in fleet.hosts.values():
        host.docker("load", "-i", archive)
    return orch.having(ORCH_IMAGE=small.IMAGE, ORCH_ROOT=ROOT)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """By the hosts' network only what is another thing there: a deploy of it takes a while."""
    if "deployed" in metafunc.fixturenames:
        networks = {"bridge": BRIDGE, "host": NETWORK} if metafunc.function in BY_BOTH else {"bridge": BRIDGE}
        metafunc.parametrize("deployed", networks.values(), ids=list(networks), indirect=True, scope="module")


@pytest.fixture(scope="module")
def deployed(person: Orch, request: pytest.FixtureRequest) -> Iterator[Orch]:
    orch = person.having(**request.param)
    orch("deploy", "--yes", "--hosts", BOTH, timeout=600)
    yield orch
    orch("down", "--yes", "--replace", "--hosts", BOTH, code=None)


@pytest.fixture
def two(deployed: Orch, gpu01: Host, gpu02: Host) -> Iterator[Orch]:
    """Both hosts; what a test left running ends with it."""
    yield deployed
    living = deployed("ps", "-q", "--state", "running", code=None).stdout.split()
    living += deployed("ps", "-q", "--state", "starting", code=None).stdout.split()
    if living:
        deployed("stop", "--now", *living, code=None)


def train(orch: Orch, *words: str, code: int | None = 0, options: tuple[str, ...] = ("-d",)) -> str:
    """Launch it; return the run's id."""
    done = orch("train", *options, "--hosts", BOTH, "--", "python3", "peers.py", *words, code=code)
    return done.stdout.split()[1]


def workers(orch: Orch, run: str) -> dict[str, dict[str, object]]:
    rows = json.loads(orch("ps", "-a", "--json", code=None).stdout)["rows"]
    return {row["host"]: row for row in rows if row["run"] == run}


def folders(host: Host) -> list[str]:
    """The runs that a host has a record of."""
    return host.run(f"ls {ROOT}/ana/*/runs", check=False).stdout.split()


def alive(host: Host) -> str:
    """The processes of runs that a host has."""
    return host.run("pgrep -af 'supervise[.]py|peers[.]py'", check=False).stdout


def test_two_workers_meet_and_end(two: Orch, gpu01: Host, gpu02: Host) -> None:
    done = two("train", "--wait", "--name", "meet", "--hosts", BOTH, "--", "python3", "peers.py")
    run = done.stdout.split()[1]
    assert done.stdout.startswith(f"run     {run} on gpu01, gpu02\n")
    assert re.search(r"^gpu01 \| worker 0 at \S+ heard: hello from 1$", done.stdout, re.MULTILINE)
    assert re.search(r"^gpu02 \| worker 1 at \S+ heard: hello from 0$", done.stdout, re.MULTILINE)
    ends = re.findall(r"worker \d at (\S+):(\d+)", done.stdout)
    assert {address for address, _ in ends} == {gpu01.address, gpu02.address}
    if two.env["ORCH_PROJECT"] == "bridged":
        assert all(SPAN[0] <= int(port) <= SPAN[1] for _, port in ends)
    (row,) = [line for line in two("ps").stdout.splitlines() if line.startswith(run)]
    assert row.split()[1:3] == ["succeeded", BOTH]
    two("fetch", run, "--to", "got")
    assert (two.cwd / "got/gpu01/result").read_text() == "0 hello from 1\n"
    assert (two.cwd / "got/gpu02/result").read_text() == "0 hello from 0\n"
    shutil.rmtree(two.cwd / "got")


def test_the_run_ends_as_the_worker_that_failed_first(two: Orch, gpu01: Host, gpu02: Host) -> None:
    run = train(two, "fail", "1")
    until(lambda: all(row["ended"] for row in workers(two, run).values()), "the end of both")
    found = workers(two, run)
    assert (found["gpu02"]["state"], found["gpu02"]["exit_status"]) == ("failed", 3)
    assert found["gpu01"]["state"] == "failed"
    assert "gpu02" in str(found["gpu01"]["cause"])
    (row,) = [line for line in two("ps").stdout.splitlines() if line.startswith(run)]
    assert "gpu02: exit 3" in row
    tailed = two("tail", run, code=3)
    assert "failed on gpu02" in tailed.stderr.splitlines()[-1]
    assert two("why", run).stdout.startswith(f"{run}   failed on gpu02")
    assert not alive(gpu01) + alive(gpu02)


def test_all_workers_start_again_after_a_failure_that_is_named(two: Orch) -> None:
    words = ("--wait", "--max-restarts", "1", "--retry-on", "exit", "--hosts", BOTH)
    done = two("train", *words, "--", "python3", "peers.py", "once", "1")
    for host, other in (("gpu01", 1), ("gpu02", 0)):
        mine = [line for line in done.stdout.splitlines() if line.startswith(f"{host} | ")]
        assert sum(line.endswith(f"heard: hello from {other}") for line in mine) == 2
        assert any("orch: restart 1 of 1" in line for line in mine)
    assert re.search(r"^run +\S+ succeeded after", done.stderr, re.MULTILINE)


def test_stop_ends_all_of_it(two: Orch, gpu01: Host, gpu02: Host) -> None:
    run = train(two, "hold")
    assert {row["state"] for row in workers(two, run).values()} == {"running"}
    stopped = two("stop", run).stdout.splitlines()
    assert [line.split()[0] for line in stopped] == ["gpu01", "gpu02"]
    assert {row["state"] for row in workers(two, run).values()} == {"stopped"}
    assert not alive(gpu01) + alive(gpu02)


def test_where_one_host_is_gone_the_other_is_stopped(two: Orch, gpu01: Host, gpu02: Host) -> None:
    run = train(two, "hold")
    with gpu02.unreachable():
        done = two("stop", run, code=1)
        assert done.stdout.startswith(f"gpu01   {run}   stopped")
        assert "orch: gpu02: " in done.stderr
    until(lambda: not alive(gpu02), "the end of the other")


def test_a_host_that_is_gone_for_good_ends_the_run_and_who_watches_it(
    two: Orch, gpu01: Host, gpu02: Host
) -> None:
    run = train(two, "hold")
    watching = two.start("tail", run)
    assert watching.stdout
    while not watching.stdout.readline().startswith("gpu02 | "):
        assert watching.poll() is None
    with gpu02.unreachable():
        _, err = watching.communicate(timeout=150)
        assert watching.returncode not in (0, 130)
        assert "orch: gpu02: the run ended without it: its log is not whole here" in err
        assert re.search(r"^run +\S+ failed on gpu01 .*gpu02 lost", err, re.MULTILINE)
    until(lambda: not alive(gpu01) + alive(gpu02), "the end of all of it")


def test_where_one_refuses_nothing_stays_on_the_other(two: Orch, gpu01: Host, gpu02: Host) -> None:
    before = [folders(host) for host in (gpu01, gpu02)]
    runs = f"{ROOT}/ana/{two.env['ORCH_PROJECT']}/runs"
    gpu02.run(f"mkdir -p {runs} && chown -R root {runs} && chmod 555 {runs}")
    try:
        done = two("train", "-d", "--hosts", BOTH, "--", "python3", "peers.py", code=1)
    finally:
        gpu02.run(f"chown -R ana {runs} && chmod 755 {runs}")
    assert done.stdout == ""
    assert re.search(r"^orch: gpu02: the run could not be placed: .*\(taken back on gpu01", done.stderr, re.M)
    assert [folders(host) for host in (gpu01, gpu02)] == before
    assert not alive(gpu01) + alive(gpu02)


def test_a_port_that_is_taken_is_passed_over(two: Orch, gpu01: Host, gpu02: Host) -> None:
    """Another run has its own, whatever this one has."""
    first = train(two, "hold", options=("-d", "--name", "one"))
    second = train(two, "hold", options=("-d", "--name", "two"))
    for host in (gpu01, gpu02):
        ports = [
            str(json.loads(host.run(f"cat {row['folder']}/{host.name}/state.json").stdout)["workers"])
            for row in (workers(two, run)[host.name] for run in (first, second))
        ]
        assert len(set(ports)) == 2
    two("stop", "--now", first, second)


def test_ctrl_c_before_it_runs_leaves_nothing(two: Orch, gpu01: Host, gpu02: Host) -> None:
    """The chief's supervisor waits for the other one, whose launch waits for the lock of names."""
    before = [folders(host) for host in (gpu01, gpu02)]
    lock = f"{ROOT}/ana/{two.env['ORCH_PROJECT']}/.names.lock"
    line = f"setsid flock {lock} sleep 600 >/dev/null 2>&1 </dev/null & echo $!"
    holder = gpu02.run(line, user="ana").stdout.strip()
    words = ("-d", "--name", "held", "--hosts", BOTH, "--", "python3", "peers.py", "hold")
    process = two.start("train", *words)
    until(lambda: bool(alive(gpu01)) or process.poll() is not None, "the chief's supervisor")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    gpu02.run(f"kill -- -{holder}")
    assert (process.returncode, out) == (130, ""), err
    assert err.splitlines()[-1].endswith(" was taken back: nothing runs")
    until(lambda: not alive(gpu01) + alive(gpu02), "the end of all of it")
    until(lambda: [folders(host) for host in (gpu01, gpu02)] == before, "the end of the records")


def test_each_worker_goes_on_with_what_it_had(two: Orch, gpu01: Host, gpu02: Host) -> None:
    run = train(two, options=("--wait",))
    again = two("resume", run, "--wait", "--hosts", "gpu02,gpu01", "--same-code").stdout
    resumed = again.split()[1]
    assert re.search(r"^gpu02 \| worker 0 at \S+ heard: hello from 1$", again, re.MULTILINE)
    result = f"{ROOT}/ana/*/runs/{resumed}/gpu02/work/result"
    assert gpu02.run(f"cat {result}").stdout.splitlines()[-1] == "0 hello from 1"
    assert two("rerun", run, "--wait").stdout.splitlines()[0].endswith(" on gpu01, gpu02")


BY_BOTH = (
    test_two_workers_meet_and_end,
    test_all_workers_start_again_after_a_failure_that_is_named,
    test_a_port_that_is_taken_is_passed_over,
)
