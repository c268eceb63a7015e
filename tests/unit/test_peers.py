"""Several supervisors of one run: all start or none, and the end of one is the end of all."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.unit.workers import Workers, free_port, three, workers
from tests.until import until

__all__ = ["three", "workers"]  # fixtures

ON = "trap 'echo saved; exit 143' TERM; echo up; while :; do sleep 0.05; done"


def test_each_command_is_told_its_place(three: Workers) -> None:
    names = ["TF_CONFIG", "ORCH_NODE_RANK", "ORCH_NODES", "ORCH_CHIEF", "ORCH_WORKERS", "ORCH_ATTEMPT"]
    three.start("; ".join(f'printf "%s\\n" "${name}"' for name in names))
    assert [state["state"] for state in three.ends()] == ["succeeded"] * 3
    ports = [member.launch["cluster"]["port"] for member in three.members]
    addresses = [f"127.0.0.{n}:{port}" for n, port in enumerate(ports, 1)]
    for rank, member in enumerate(three.members):
        config, *others = member.log.splitlines()
        assert json.loads(config) == {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": rank},
        }
        assert others == [str(rank), "3", addresses[0], ",".join(addresses), "0"]
        assert (member.state["rank"], member.state["nodes"], member.state["workers"]) == (rank, 3, addresses)


def test_nobody_starts_before_all_are_there(workers: Workers) -> None:
    workers[0].start("echo", "started")
    until(lambda: workers[0].state.get("waiting") == ["gpu02"])
    assert (workers[0].state["state"], workers[0].log) == ("starting", "")
    workers[1].start("true")
    assert [state["state"] for state in workers.ends()] == ["succeeded"] * 2
    assert workers[0].log == "started\n"


def test_a_worker_that_waits_for_the_chief_says_so(workers: Workers) -> None:
    workers[1].start("echo", "started")
    until(lambda: workers[1].state.get("waiting") == ["gpu01"])
    workers[0].start("true")
    assert [state["state"] for state in workers.ends()] == ["succeeded"] * 2


@pytest.mark.parametrize("there", [0, 1])
def test_nobody_starts_where_one_never_comes(tmp_path: Path, there: int) -> None:
    workers = Workers(tmp_path, join=0.5)
    workers[there].start("echo", "started")
    state = workers[there].end()
    missing = f"gpu{2 - there:02}"
    assert state["state"] == "failed"
    assert state["cause"] == {"kind": "peer", "host": missing, "how": "absent", "cause": {}}
    assert workers[there].log == ""


def test_those_who_came_are_told_who_did_not(tmp_path: Path) -> None:
    workers = Workers(tmp_path, 3, join=8.0)  # two supervisors start within it
    for rank in (0, 1):
        workers[rank].start("echo", "started")
    for rank in (0, 1):
        assert workers[rank].end()["cause"]["host"] == "gpu03"
        assert workers[rank].log == ""


def test_a_stop_reaches_one_that_waits(workers: Workers) -> None:
    for waiting, other in ((0, "gpu02"), (1, "gpu01")):
        workers[waiting].start("echo", "started")
        until(lambda: workers[waiting].state.get("waiting") == [other])
        workers[waiting].stop(by="ana", why="no")
        state = workers[waiting].end()
        assert (state["state"], state["cause"]["by"], state["signal"]) == ("stopped", "ana", 15)
        assert workers[waiting].log == ""


@pytest.mark.parametrize("dies", [0, 1, 2])
def test_the_end_of_one_command_ends_all(three: Workers, dies: int) -> None:
    three.start(ON)
    three.run_all()
    os.kill(three[dies].state["child"], signal.SIGKILL)
    states = three.ends()
    assert [state["state"] for state in states] == ["failed"] * 3
    assert states[dies]["cause"] == {"kind": "signal", "signal": 9}
    for rank in {0, 1, 2} - {dies}:
        assert states[rank]["cause"] == {
            "kind": "peer",
            "host": f"gpu{dies + 1:02}",
            "how": "failed",
            "cause": {"kind": "signal", "signal": 9},
        }
        assert three[rank].log.endswith("saved\n")
    until(lambda: not three.left())


def test_what_ignores_the_end_of_another_is_killed(workers: Workers) -> None:
    workers.start("exit 3", "trap '' TERM; setsid sleep 60 & while :; do sleep 0.05; done")
    assert workers.ends()[1]["signal"] == signal.SIGKILL
    assert not workers.left()


def test_a_command_may_end_by_itself_when_another_failed(workers: Workers) -> None:
    workers.start("while [ -e ../go ]; do sleep 0.02; done; echo whole", "exit 134")
    (workers[0].folder / "go").touch()
    until(lambda: workers[1].state.get("ended"))
    (workers[0].folder / "go").unlink()
    first, second = workers.ends()
    assert (first["state"], first["exit_code"]) == ("succeeded", 0)
    assert (second["state"], second["cause"]) == ("failed", {"kind": "exit", "code": 134})


def test_the_chief_stays_until_all_have_ended(workers: Workers) -> None:
    workers.start("true", "while [ ! -e ../go ]; do sleep 0.02; done")
    until(lambda: workers[0].state.get("finished"))
    state = workers[0].state
    assert (state["state"], state["finished"]["exit_code"], state["waiting"]) == ("running", 0, ["gpu02"])
    (workers[1].folder / "go").touch()
    assert [state["state"] for state in workers.ends()] == ["succeeded"] * 2


def test_a_worker_that_has_ended_well_is_not_missed(workers: Workers) -> None:
    workers.start("while [ ! -e ../go ]; do sleep 0.02; done", "true")
    assert workers[1].end()["state"] == "succeeded"
    (workers[0].folder / "go").touch()
    assert workers[0].end()["state"] == "succeeded"


@pytest.mark.parametrize("lost", [0, 1])
def test_a_supervisor_that_is_gone_is_a_lost_worker(workers: Workers, lost: int) -> None:
    workers.start(ON)
    workers.run_all()
    workers[lost].kill_supervisor()
    state = workers[1 - lost].end()
    assert state["state"] == "failed"
    host = f"gpu{lost + 1:02}"
    assert state["cause"] == {"kind": "peer", "host": host, "how": "lost", "cause": {}, "seconds": 3}


@pytest.mark.parametrize("halted", [0, 1])
def test_a_halted_supervisor_is_a_lost_worker(workers: Workers, halted: int) -> None:
    workers.start(ON)
    workers.run_all()
    os.kill(workers[halted].state["pid"], signal.SIGSTOP)
    assert workers[1 - halted].end()["cause"]["how"] == "lost"
    os.kill(workers[halted].state["pid"], signal.SIGCONT)
    state = workers[halted].end()
    assert (state["state"], state["cause"]["how"]) == ("failed", "lost")
    assert not workers.left()


@pytest.mark.parametrize("lost", [0, 1])
def test_one_that_fails_because_another_is_gone_is_not_the_first(workers: Workers, lost: int) -> None:
    workers.start("while [ ! -e ../go ]; do sleep 0.02; done; exit 1")
    workers.run_all()
    workers[lost].kill_supervisor()
    (workers[1 - lost].folder / "go").touch()
    cause = workers[1 - lost].end()["cause"]
    assert (cause["kind"], cause["host"], cause["how"]) == ("peer", f"gpu{lost + 1:02}", "lost")
    assert cause["own"] == {"kind": "exit", "code": 1}


@pytest.mark.parametrize("asked", [0, 1])
def test_a_stop_of_one_stops_all(workers: Workers, asked: int) -> None:
    workers.start(ON)
    workers.run_all()
    workers[asked].stop(by="bob", why="my turn", grace=5)
    states = workers.ends()
    assert [state["state"] for state in states] == ["stopped"] * 2
    assert "on" not in states[asked]["cause"]
    other = states[1 - asked]["cause"]
    assert (other["kind"], other["by"], other["on"]) == ("stopped", "bob", f"gpu{asked + 1:02}")
    assert all(member.log.endswith("saved\n") for member in workers.members)


def test_a_chief_that_waits_for_the_others_can_be_stopped(workers: Workers) -> None:
    workers.start("true", ON)
    until(lambda: workers[0].state.get("finished"))
    workers[0].stop(by="ana")
    assert [state["state"] for state in workers.ends()] == ["succeeded", "stopped"]


def test_a_command_that_is_not_there_ends_all(workers: Workers) -> None:
    workers[0].start("sh", "-c", ON)
    workers[1].start("no-such-command")
    first, second = workers.ends()
    assert (second["exit_code"], second["cause"]["kind"]) == (127, "not started")
    assert first["cause"]["cause"]["message"] == "cannot run 'no-such-command': No such file or directory"


def test_a_time_that_is_over_on_all_is_no_peers_fault(workers: Workers) -> None:
    for member in workers.members:
        member.launch["timeout"] = 1.0
    workers.start(ON)
    assert {state["cause"]["kind"] for state in workers.ends()} <= {"timeout", "peer"}
    assert "timeout" in {state["cause"]["kind"] for state in workers.ends()}


def test_a_port_that_somebody_listens_on_is_left_alone(workers: Workers) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as gRPC does
        taken.bind(("127.0.0.2", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = free_port()
        workers[1].launch["cluster"].update(port=port, ports=[port, other])
        workers.start("echo $ORCH_WORKERS")
        workers.ends()
        assert workers[0].log.strip().endswith(f",127.0.0.2:{other}")


def test_no_free_port_is_said_before_anything_starts(workers: Workers) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        workers[1].launch["cluster"].update(port=port, ports=[port])
        workers.start("echo started")
        first, second = workers.ends()
    message = f"no port is free of {port}"
    assert second["cause"] == {"kind": "not started", "message": message}
    assert (first["cause"]["host"], first["cause"]["cause"]["message"]) == ("gpu02", message)
    assert (workers[0].log, workers[1].log) == ("", f"orch: {message}\n")


def test_two_runs_on_one_machine_take_two_ports(tmp_path: Path) -> None:
    runs = [Workers(tmp_path / name, 2) for name in "ab"]
    try:
        for run in runs:
            run[1].launch["cluster"]["port"] = runs[0][1].launch["cluster"]["port"]
            run.start("echo $ORCH_WORKERS; while [ ! -e ../go ]; do sleep 0.02; done")
            run.run_all()
        until(lambda: all(run[0].log for run in runs))
        first, second = (run[0].log.strip().rpartition(":")[2] for run in runs)
        assert first != second
        for run in runs:
            for member in run.members:
                (member.folder / "go").touch()
            run.ends()
    finally:
        for run in runs:
            run.kill()
