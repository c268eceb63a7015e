"""orch exec on one host and on many: words, folding, exit codes, and what Ctrl-C ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import LostConnection, NotPermitted, Unreachable
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from orchestrator.inventory import Host
from tests.cli.calling import call
from tests.cli.test_streams import alive, environment
from tests.until import until

HOSTS = [f"gpu{n:02}" for n in range(1, 21)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("[lab]\ngpu[01:20]\n[all:vars]\nperson=ana\nproject=mnist\n")
    return tmp_path


def saying(out: str = "up\n", *, but: dict[str, Result] = {}):
    def prepare(machine: FakeMachine) -> None:
        machine.answer(re.compile("uptime"), but.get(machine.host.name, Result(0, out.encode(), b"")))

    return prepare


def test_what_all_say_is_said_once(project: Path) -> None:
    said = call(project, "exec", "--hosts", "lab", "--on-host", "--", "uptime", prepare=saying())
    assert (said.status, said.out, said.err) == (0, "gpu[01-20]: up\n", "")
    assert set(said.machines) == set(HOSTS)
    assert all(machine.streams[0].stdin_closed for machine in said.machines.values())


@pytest.mark.parametrize("word", ["lab", "gpu[01-20]", "gpu01..20", "all", "gpu*", ",".join(HOSTS)])
def test_hosts_may_be_the_first_word(project: Path, word: str) -> None:
    assert call(project, "exec", "--on-host", word, "uptime", prepare=saying()).out == "gpu[01-20]: up\n"


def test_hosts_that_differ_have_lines_of_their_own(project: Path) -> None:
    other = {"gpu03": Result(0, b"a\nno end", b""), "gpu07": Result(3, b"", b"bad \xff\n")}
    said = call(project, "exec", "--on-host", "lab", "uptime", prepare=saying(but=other))
    assert said.status == 1
    assert said.out == "gpu[01-02,04-06,08-20]: up\ngpu03: a\ngpu03: no end\n"
    assert said.err == "gpu07: bad \ufffd\norch: gpu07: exit status 3 is the command's\n"


def test_the_same_failure_of_many_hosts_is_one_line(project: Path) -> None:
    away = {name: Unreachable("timed out after 10 s", where=name) for name in HOSTS[:5]}
    away["gpu09"] = NotPermitted("no key fits", where="gpu09", hint="Try: ssh gpu09")
    said = call(project, "exec", "--on-host", "lab", "uptime", prepare=saying(), failing=away)
    assert (said.status, said.out) == (1, "gpu[06-08,10-20]: up\n")
    assert said.err == ("orch: gpu[01-05]: timed out after 10 s\norch: gpu09: no key fits. Try: ssh gpu09\n")
    everyone = {name: Unreachable("timed out", where=name, hint=f"Try: ssh {name}") for name in HOSTS}
    said = call(project, "ps", failing=everyone)
    assert (said.status, said.err) == (69, "orch: gpu[01-20]: timed out. Try: ssh gpu[01-20]\n")


def test_a_connection_that_goes_is_no_end(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        machine.answer(re.compile("uptime"), LostConnection("it went", where=machine.host.name))

    said = call(project, "exec", "--on-host", "gpu01,gpu02", "uptime", prepare=prepare)
    assert said.err == "orch: gpu01,gpu02: it went. The command may still run there.\n"


@pytest.mark.parametrize("flag", ["-i", "-t", "-it"])
def test_many_hosts_share_no_stdin_and_no_terminal(project: Path, flag: str) -> None:
    said = call(project, "exec", flag, "--on-host", "lab", "uptime")
    assert (said.status, said.err) == (2, "orch: -i and -t take one host, not 20. Name one.\n")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("gpu01",), "no command for 'gpu01'. Host first, then the command: orch exec gpu01 -- nvidia-smi"),
        (("--hosts", "lab"), "no command for 'lab'. Host first,"),
        ((), "no command. Host first,"),
        (
            ("gpu01", "--on-host", "--", "ls"),
            "Options stand before the host: orch exec --on-host gpu01 -- CMD",
        ),
    ],
)
def test_words_that_make_no_sense(project: Path, words: tuple[str, ...], what: str) -> None:
    said = call(project, "exec", *words)
    assert said.status == 2
    assert what in said.err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_ends_orch_ends_it_on_all_hosts(tmp_path: Path, number: signal.Signals, status: int) -> None:
    (tmp_path / "hosts.ini").write_text("[here]\nh[1:3] ansible_connection=local\n")
    line = f"echo $$ > {tmp_path}/pid.$$; exec sleep 300"
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "exec", "--on-host", "here", "--", "sh", "-c", line],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until(lambda: len([p for p in tmp_path.glob("pid.*") if p.read_text()]) == 3, "their begin")
    process.send_signal(number)
    assert process.communicate(timeout=60)[0] == b""
    assert process.returncode == status
    pids = [path.suffix[1:] for path in tmp_path.glob("pid.*")]
    assert len(pids) == 3
    until(lambda: not any(map(alive, pids)), "their end")


@pytest.fixture
def bench(project: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A host of ~/.ssh/config that no inventory has."""
    monkeypatch.setenv("HOME", str(project))
    (project / ".ssh").mkdir()
    (project / ".ssh" / "config").write_text("Host bench\n  HostName 192.0.2.1\n")
    return "bench"


def without_runs(machine: FakeMachine) -> None:
    machine.answer_facts(runs="")
    machine.answer(re.compile(r"uptime\Z"), Result(0, b"", b""))


@pytest.mark.parametrize("words", [["bench"], ["--hosts", "bench"], ["--hosts", "other"], ["ana@other"]])
def test_a_host_that_only_ssh_knows(project: Path, bench: str, words: list[str]) -> None:
    said = call(project, "exec", "--on-host", *words, "--", "uptime", prepare=without_runs)
    assert str(said.machines[words[-1]].streamed[0]).endswith(" uptime")


def test_a_host_of_ssh_whose_name_is_like_a_known_one(project: Path, bench: str) -> None:
    with (project / ".ssh" / "config").open("a") as file:
        file.write("Host gpu21\n  HostName 192.0.2.2\n")
    said = call(project, "exec", "--on-host", "--hosts", "gpu21", "--", "uptime", prepare=without_runs)
    assert list(said.machines) == ["gpu21"]
    said = call(project, "exec", "--on-host", "--hosts", "gpu22", "--", "uptime")
    assert said.err.startswith("orch: no host gpu22 in ")


def test_what_neither_hosts_nor_runs_nor_ssh_know_is_no_run(project: Path, bench: str) -> None:
    said = call(project, "exec", "--on-host", "nightly", "--", "uptime", prepare=without_runs)
    assert said.err.startswith("orch: no run 'nightly' on ")


def test_a_file_of_a_host_that_only_ssh_knows(project: Path, bench: str) -> None:
    from orchestrator.cli.app import App
    from orchestrator.cli.places import find_place

    def connect(host: Host) -> FakeMachine:
        machine = FakeMachine(host)
        without_runs(machine)
        return machine

    place = find_place(App(connect=connect, environ={"HOME": str(project)}, cwd=project), "bench:data")
    assert place
    assert (place.machine.host.name, place.path) == ("bench", "~/data")


def test_a_line_for_a_shell_is_told_where_one_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(machine: FakeMachine) -> None:
        machine.answer(re.compile("uptime"), Result(127, b"", b""))

    monkeypatch.setattr("orchestrator.hosts.terminal.interact", lambda stream, **options: stream.status())
    said = call(project, "exec", "--on-host", "gpu01", "--", "uptime | wc -l", prepare=prepare)
    assert said.status == 127
    assert said.err.endswith("next:   orch ssh --on-host gpu01 -- LINE      (exec has no shell)\n")
    said = call(project, "exec", "--on-host", "gpu01", "--", "uptime", prepare=prepare)
    assert said.err.endswith("exit status 127 is the command's\n")
