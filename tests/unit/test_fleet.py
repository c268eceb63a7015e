"""Many hosts at once."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from orchestrator.errors import HostError, Unreachable
from orchestrator.hosts.base import Machine
from orchestrator.hosts.fake import FakeMachine
from orchestrator.hosts.fleet import Outcome, each
from orchestrator.inventory import Host

HOSTS = [Host(f"gpu{n:02}", "x") for n in range(1, 9)]


def test_outcomes_are_in_the_order_of_the_hosts_and_none_is_lost() -> None:
    def connect(host: Host) -> Machine:
        if host.name == "gpu03":
            raise Unreachable("connection timed out after 10 s", where=host.name)
        return FakeMachine(host)

    def work(machine: Machine) -> str:
        time.sleep(0.02 if machine.host.name == "gpu01" else 0)
        if machine.host.name == "gpu05":
            raise HostError("disk full", where=machine.host.name)
        return machine.host.name.upper()

    came: list[str] = []
    outcomes = each(HOSTS, work, connect=connect, told=lambda o: came.append(o.host.name))
    assert [o.host for o in outcomes] == HOSTS
    assert [str(o.error) for o in outcomes if o.error] == [
        "gpu03: connection timed out after 10 s",
        "gpu05: disk full",
    ]
    assert [o.value for o in outcomes if o.value] == [
        h.name.upper() for h in HOSTS if h.name not in ("gpu03", "gpu05")
    ]
    assert sorted(came) == [h.name for h in HOSTS]


def test_no_more_than_so_many_at_a_time_and_every_machine_is_closed() -> None:
    lock, machines, open_now, most = threading.Lock(), list[FakeMachine](), 0, 0

    def connect(host: Host) -> Machine:
        machines.append(FakeMachine(host))
        return machines[-1]

    def work(_: Machine) -> None:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        time.sleep(0.01)
        with lock:
            open_now -= 1

    each(HOSTS, work, connect=connect, parallel=3)
    assert most == 3
    assert [m.closed for m in machines] == [True] * len(HOSTS)


def test_a_fault_in_orch_is_loud_and_comes_after_all_have_ended() -> None:
    ended: list[str] = []

    def work(machine: Machine) -> None:
        if machine.host.name in ("gpu02", "gpu04"):
            raise ZeroDivisionError(machine.host.name)
        ended.append(machine.host.name)

    with pytest.raises(ZeroDivisionError, match="gpu02"):
        each(HOSTS, work, connect=FakeMachine)
    assert len(ended) == len(HOSTS) - 2


def test_a_host_for_which_no_file_can_be_opened_is_one_outcome() -> None:
    def work(machine: Machine) -> str:
        if machine.host.name == "gpu02":
            raise OSError(errno.EMFILE, "Too many open files")
        return "well"

    outcomes = each(HOSTS, work, connect=FakeMachine)
    assert [o.value for o in outcomes] == ["well", None, *["well"] * 6]
    assert str(outcomes[1].error).startswith("gpu02: this machine has too many open files. Raise the limit")
    with pytest.raises(OSError, match="No space"):
        each(HOSTS, lambda _: _raise(OSError(errno.ENOSPC, "No space left")), connect=FakeMachine)


def _raise(error: OSError) -> None:
    raise error


def test_no_hosts_no_outcomes() -> None:
    assert each([], lambda _: 1, connect=FakeMachine) == []


def test_an_outcome_may_be_none() -> None:
    assert each(HOSTS[:1], lambda _: None, connect=FakeMachine) == [Outcome(HOSTS[0])]


@pytest.mark.parametrize("to", ["process", "a thread that waits"])  # the system chooses
def test_ctrl_c_ends_at_once_though_a_host_hangs(to: str) -> None:
    program = textwrap.dedent("""
        import signal, sys, threading, time
        from orchestrator.hosts.fake import FakeMachine
        from orchestrator.hosts.fleet import each
        from orchestrator.inventory import Host

        class Hanging(FakeMachine):
            def close(self):
                print("closed", flush=True)

        def work(machine):
            print("working", flush=True)
            if sys.argv[1] != "process":
                time.sleep(0.5)  # until the other one waits
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            time.sleep(100)

        try:
            each([Host("gpu01", "x")], work, connect=Hanging)
        except KeyboardInterrupt:
            sys.exit(130)
    """)
    with subprocess.Popen([sys.executable, "-c", program, to], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"working\n"
        if to == "process":
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stdout.read() == b"closed\n"


def test_the_libraries_of_ssh_are_loaded_by_the_first_connection_only() -> None:
    program = (
        "import sys, orchestrator.hosts.fleet; sys.exit(bool({'paramiko', 'fabric'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
