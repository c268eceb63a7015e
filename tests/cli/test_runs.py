"""orch train, ps and stop on machines that only pretend: order, words and exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.container import since
from orchestrator.container.inputs import read_inputs
from orchestrator.errors import Unreachable
from orchestrator.hosts.base import Result
from orchestrator.hosts.fake import FakeMachine
from orchestrator.inventory import load
from orchestrator.run.code.bundle import collect
from orchestrator.run.code.kept import kept
from orchestrator.run.spec import RunSpec
from tests.cli.calling import Called, call
from tests.unit.test_environment import CONTAINER

RUN, OLD = "20261130-0214-nightly-7f3a", "20261129-0214-nightly-02be"
NOW = 1_796_000_000


def block(run: str, state: dict[str, Any], *, lock: str = "held", tail: str = "", host: str = "gpu01") -> str:
    spec = RunSpec(run, ("python3", "train.py"), (host,), "ana", "mnist", "9f3c", name="nightly")
    worker = {"gpus": ["GPU-a"], "boot_id": "b1"}
    lines = [
        f"run /home/ana/.orch/ana/mnist/runs/{run}",
        f"spec {spec.text()}",
        f"host {host}",
        f"worker {json.dumps(worker)}",
        f"placed {NOW - 700}",
        "size 10",
        f"state {json.dumps(state)}",
        f"lock {lock}",
        "progress ",
        "tail " + tail.replace("\n", "\036"),
        "end",
    ]
    return "\n".join(lines)


RUNNING = {"state": "running", "boot_id": "b1", "container": "c1", "started": NOW - 600, "heartbeat": NOW}
FAILED = {
    **RUNNING,
    "started": NOW - 90_000,
    "state": "failed",
    "ended": NOW - 86_400,
    "exit_code": None,
    "signal": 9,
    "cause": {"kind": "oom"},
}
HEAD = f"now {NOW}\nboot b1\nflock yes\nsupervisors {RUN} \ncontainers c1 "


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "data.bin").write_text("x")
    (tmp_path / ".orchignore").write_text("data.bin\ncache/\nconfig/\n")
    return tmp_path


def has_runs(machine: FakeMachine) -> None:
    records = "\n".join([HEAD, block(RUN, RUNNING, tail="Epoch 1/9\n"), block(OLD, FAILED, lock="free")])
    machine.answer_facts(runs=records if machine.host.name == "gpu01" else HEAD)


# ps


def test_ps_lists_the_newest_first_with_causes(project: Path) -> None:
    said = call(project, "ps", prepare=has_runs)
    assert said.status == 0
    lines = said.out.splitlines()
    assert lines[0].split() == ["RUN", "STATE", "WHERE", "WHO", "SINCE", "PROGRESS"]
    assert lines[1].split()[:6] == [RUN, "running", "gpu01", "ana", "10", "min"]
    assert lines[2].split()[:6] == [OLD, "failed", "gpu01", "ana", "1", "d"]
    assert "out of memory" in lines[2]
    assert [len(m.ran) for m in said.machines.values()] == [1, 1]


def test_ps_counts_from_when_a_lost_run_was_last_seen(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        lost = {**RUNNING, "boot_id": "another", "started": NOW - 90_000, "heartbeat": NOW - 240}
        machine.answer_facts(runs="\n".join([HEAD, block(RUN, lost, lock="free")]))

    row = call(project, "ps", "gpu01", prepare=prepare).out.splitlines()[1]
    assert row.split()[1:6] == ["lost", "gpu01", "ana", "4", "min"]


def test_ps_asks_for_the_last_day_of_the_callers_runs_unless_told_otherwise(project: Path) -> None:
    def text(*words: str) -> str:
        return call(project, "ps", "gpu01", *words, prepare=has_runs).machines["gpu01"].ran[0].text

    assert "in ana/*/runs/*/*/worker.json" in text()
    assert "-mmin -1440" in text()
    assert "-mmin" not in text("-a")
    assert "in */*/runs/*/*/worker.json" in text("-A")


def test_ps_filters_and_shapes(project: Path) -> None:
    assert call(project, "ps", "-q", prepare=has_runs).out == f"{RUN}\n{OLD}\n"
    assert call(project, "ps", "-q", "--state", "failed", prepare=has_runs).out == f"{OLD}\n"
    assert call(project, "ps", "-q", "--name", "other", prepare=has_runs).out == ""
    (running, failed) = json.loads(call(project, "ps", "--json", prepare=has_runs).out)["rows"]
    assert (running["run"], running["state"], running["exit_status"]) == (RUN, "running", None)
    assert (failed["exit_status"], failed["gpus"], failed["command"]) == (
        137,
        ["GPU-a"],
        ["python3", "train.py"],
    )


def test_ps_lists_by_tag_and_tells_the_note(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        tagged = block(RUN, RUNNING).replace('"tags": []', '"tags": ["sweep", "lr=3"]')
        tagged = tagged.replace('"note": ""', '"note": "a try"')
        machine.answer_facts(runs="\n".join([HEAD, tagged, block(OLD, FAILED, lock="free")]))

    assert call(project, "ps", "gpu01", "-q", "--tag", "lr=3", prepare=prepare).out == f"{RUN}\n"
    assert call(project, "ps", "gpu01", "-q", "--tag", "lr", prepare=prepare).out == ""
    row = json.loads(call(project, "ps", "gpu01", "--json", prepare=prepare).out)["rows"][0]
    assert (row["note"], row["tags"]) == ("a try", ["sweep", "lr=3"])


def test_ps_refuses_a_state_that_no_run_has(project: Path) -> None:
    said = call(project, "ps", "--state", "runing")
    assert said.status == 2
    assert said.err.startswith("orch: no state 'runing'. There is: starting, running, ")


def test_ps_shows_the_good_hosts_beside_a_dead_one(project: Path) -> None:
    dead = {"gpu02": Unreachable("connection timed out after 10 s", where="gpu02")}
    said = call(project, "ps", prepare=has_runs, failing=dead)
    assert said.status == 1
    assert RUN in said.out
    assert said.err == "orch: gpu02: connection timed out after 10 s\n"
    only = call(project, "ps", "gpu02", failing=dead)
    assert (only.status, only.out) == (69, "")


# stop


def stopping(answer: str) -> Any:
    def prepare(machine: FakeMachine) -> None:
        has_runs(machine)
        machine.answer("stop", out=f'answer {answer}\nstate {{"state": "stopped"}}\n')

    return prepare


def test_stop_finds_the_run_by_name_and_stops_it_where_it_is(project: Path) -> None:
    said = call(project, "stop", "nightly", "--why", "my turn", prepare=stopping("stopped"))
    assert (said.status, said.out) == (0, f"gpu01   {RUN}   stopped\n")
    script = said.machines["gpu01"].ran[-1].text
    assert f"/home/ana/.orch/ana/mnist/runs/{RUN}/gpu01" in script
    assert "my turn" in script
    assert [s.name for s in said.machines["gpu02"].ran] == ["runs"]


def test_stop_of_what_had_ended_is_no_failure(project: Path) -> None:
    said = call(project, "stop", OLD, prepare=stopping("already"))
    assert (said.status, said.out) == (0, f"gpu01   {OLD}   had ended already: stopped\n")


def test_stop_that_did_not_work_says_so(project: Path) -> None:
    said = call(project, "stop", "nightly", prepare=stopping("failed\nwhy Operation not permitted"))
    assert said.status == 1
    assert said.err == f"orch: gpu01: run {RUN} could not be stopped: Operation not permitted\n"


def test_stop_takes_the_newest_of_a_name_that_lives(project: Path) -> None:
    newer = "20261130-0300-nightly-0001"

    def prepare(machine: FakeMachine) -> None:
        records = "\n".join(
            [HEAD, block(RUN, RUNNING), block(newer, {**FAILED, "ended": NOW - 5}, lock="free")]
        )
        machine.answer_facts(runs=records if machine.host.name == "gpu01" else HEAD)
        machine.answer("stop", out='answer stopped\nstate {"state": "stopped"}\n')

    assert call(project, "stop", "nightly", prepare=prepare).out == f"gpu01   {RUN}   stopped\n"


def test_a_run_that_is_not_there(project: Path) -> None:
    said = call(project, "stop", "weekly", prepare=has_runs)
    assert said.status == 2
    assert said.err == "orch: no run 'weekly' on gpu01, gpu02. See: orch ps -a\n"


@pytest.mark.parametrize("verb", ["tail", "why"])
def test_what_can_be_done_where_the_host_of_a_run_is_silent(project: Path, verb: str) -> None:
    dead = {"gpu02": Unreachable("no route to host (port 22)", where="gpu02")}
    said = call(project, verb, "weekly", prepare=has_runs, failing=dead)
    assert said.status == 69
    assert said.err == (
        "orch: gpu02: no route to host (port 22). Its runs may go on: nobody knows until it answers. "
        "To begin anew: orch rerun weekly --hosts gpu01\n"
    )


def test_a_run_that_may_be_on_a_dead_host_is_not_called_missing(project: Path) -> None:
    dead = {"gpu02": Unreachable("connection refused (port 22)", where="gpu02")}
    said = call(project, "stop", "weekly", prepare=has_runs, failing=dead)
    assert (said.status, said.err) == (69, "orch: gpu02: connection refused (port 22)\n")


# train


def launched(how: str = "launched", more: Sequence[str] = (), **state: Any) -> Any:
    lines = [
        f"answer {how}",
        "place /home/ana/.orch/ana/mnist",
        "gpus GPU-a,GPU-b,GPU-c,GPU-e",
        "indices 0,1,2,4",
        f"state {json.dumps({**RUNNING, **state})}",
        "log ",
        *more,
    ]

    def prepare(machine: FakeMachine) -> None:
        machine.answer("launch", out="\n".join(lines))

    return prepare


def train(project: Path, *words: str, prepare: Any, host: str = "gpu01") -> Called:
    return call(
        project,
        "train",
        "--hosts",
        host,
        *words,
        "--",
        "python3",
        "train.py",
        "--epochs=100",
        prepare=prepare,
    )


def test_train_prints_the_run_and_what_to_do_next(project: Path) -> None:
    said = train(project, "-d", "--name", "nightly", prepare=launched())
    assert said.status == 0
    run = said.out.split()[1]
    assert said.out == f"run     {run} on gpu01, GPUs 0-2,4\n"
    assert said.err.splitlines()[0].startswith("code    2 files, ")
    assert said.err.splitlines()[-1] == "next:   orch tail nightly      orch ps      orch stop nightly"
    assert len(said.machines["gpu01"].ran) == 1


def test_train_says_which_settings_are_not_those_of_the_deploy(project: Path) -> None:
    def deployed(settings: dict[str, str]) -> Any:
        return launched(more=[f"environment {json.dumps({'settings': settings})}"])

    def noted() -> dict[str, str]:
        (host,) = (h for h in load([project / "hosts.ini"], environ={}).hosts if h.name == "gpu01")
        return since.noted(host, read_inputs(host, {}))

    same = train(project, "-d", prepare=deployed(noted()))
    assert "note:" not in same.err
    before = noted()
    with (project / "hosts.ini").open("a") as file:
        file.write("shm_size=16g\n")
    said = train(project, "-d", prepare=deployed(before))
    number = len((project / "hosts.ini").read_text().splitlines())
    note = f"note: changed since the deploy of gpu01: shm_size ({project}/hosts.ini:{number}). To have it: "
    assert f"{note}orch deploy --hosts gpu01" in said.err.splitlines()
    assert said.err.splitlines()[-1].startswith("next:")
    assert len(said.machines["gpu01"].ran) == 1
    assert "note:" not in train(project, "-d", "-q", prepare=deployed(before)).err
    with (project / "hosts.ini").open("a") as file:
        file.write("requirements=gone.txt\n")
    assert "gone.txt: No such file" in train(project, "-d", prepare=deployed(before)).err


def test_quiet_prints_nothing_but_the_id(project: Path) -> None:
    said = train(project, "-d", "-q", prepare=launched())
    assert said.err == ""
    assert said.out.count("\n") == 1
    assert " " not in said.out


def test_train_sends_code_that_is_not_there_and_launches_again(project: Path) -> None:
    tries: list[str] = []

    def prepare(machine: FakeMachine) -> None:
        launched()(machine)

        def first_not(asked: Any) -> Result:
            tries.append(asked.name)
            if len(tries) == 1:
                return Result(0, b"answer need-bundle\n", b"")
            done = FakeMachine()
            launched()(done)
            return done.run(asked)

        machine.answer("launch", first_not)
        machine.answer("bundle", out="there\n")

    said = train(project, "-d", prepare=prepare)
    assert said.status == 0, said.err
    assert len(tries) == 2
    assert "(new)" in said.err


def test_an_id_that_another_run_has_is_drawn_anew(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launched in a loop, two runs of a minute may draw the same four digits."""
    digits = iter(["7f3a", "7f3a", "02be"])
    drawing = SimpleNamespace(token_hex=lambda count: next(digits))
    monkeypatch.setattr("orchestrator.run.ids.secrets", drawing)
    there: set[str] = set()

    def prepare(machine: FakeMachine) -> None:
        def once(asked: Any) -> Result:
            (run,) = re.findall(r"^run=(\S+)$", asked.text, re.MULTILINE)
            if run[-4:] in there:
                return Result(0, b"answer exists\n", b"")
            there.add(run[-4:])
            done = FakeMachine()
            launched()(done)
            return done.run(asked)

        machine.answer("launch", once)

    ids = [train(project, "-d", "-q", prepare=prepare).out.split()[0] for _ in range(2)]
    assert [run[-4:] for run in ids] == ["7f3a", "02be"]
    words = {json.loads(line)["run"] for line in (project / "cache/orch/runs.jsonl").read_text().splitlines()}
    assert words == set(ids)


def test_a_host_on_which_every_id_is_taken_is_told(project: Path) -> None:
    said = train(project, "-d", prepare=lambda machine: machine.answer("launch", out="answer exists\n"))
    assert said.status == 75
    assert "exists already. Try again." in said.err
    assert len(said.machines["gpu01"].ran) == 8


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("no-environment", 1, "orch: gpu01: nothing is deployed here. First: orch deploy --hosts gpu01"),
        (
            "unreadable\nwhy /p/environment.sh",
            77,
            "orch: gpu01: /p/environment.sh can't be read by this account",
        ),
        (
            "not-ready\nwhy gone container orch-ana-mnist is gone",
            1,
            "orch: gpu01: the environment is not usable: container orch-ana-mnist is gone. Deploy again: ",
        ),
        (
            "not-ready\nwhy paused orch-ana-mnist",
            1,
            "orch: gpu01: container orch-ana-mnist is paused. On the host: docker unpause orch-ana-mnist",
        ),
        (
            "not-ready\nwhy engine Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
            1,
            "orch: gpu01: the Docker daemon does not run. As root there: systemctl start docker",
        ),
        ("not-ready\nwhy engine ", 1, "orch: gpu01: Docker does not answer: no answer within a minute"),
        (
            f"named\nwhy {RUN}",
            75,
            f"orch: gpu01: run {RUN} lives already under the name nightly. See it: orch tail {RUN}; ",
        ),
        ("busy", 75, "orch: gpu01: no free GPU for the run. See who holds what: orch gpu-status"),
        ("no-gpu\nwhy there is no GPU 7", 1, "orch: gpu01: no usable GPU: there is no GPU 7"),
        (
            "failed\nwhy mkdir: No space left on device",
            1,
            "orch: gpu01: the run could not be placed: mkdir: No space left on device. Make room there",
        ),
    ],
)
def test_a_launch_that_is_refused(project: Path, answer: str, status: int, words: str) -> None:
    named = ("--name", "nightly") if answer.startswith("named") else ()
    said = train(project, "-d", *named, prepare=lambda m: m.answer("launch", out=f"answer {answer}\n"))
    assert (said.status, said.out) == (status, "")
    assert said.err.startswith(words)
    assert said.err.count("\n") == 1


def test_a_launch_that_is_cut_is_not_called_a_failure_of_the_run(project: Path) -> None:
    said = train(project, "-d", prepare=lambda m: m.answer("launch", out="", err="Killed\n"))
    assert said.status == 69
    assert said.err.startswith("orch: gpu01: the launch gave no answer: Killed. Run 2")
    assert said.err.endswith(" may have been started: orch ps gpu01\n")


def test_ctrl_c_in_a_launch_names_the_run_that_may_live(project: Path) -> None:
    def interrupted(asked: Any) -> Result:
        raise KeyboardInterrupt

    said = train(project, "-d", prepare=lambda m: m.answer("launch", interrupted))
    assert (said.status, said.out) == (130, "")
    assert re.fullmatch(
        r"orch: gpu01: run \d{8}-\d{4}-run-\w{4} may have been started. See: orch ps gpu01\n", said.err
    )


def test_dry_run_prints_the_line_and_reaches_nothing(project: Path) -> None:
    said = train(project, "--dry-run", prepare=launched())
    assert said.status == 0
    assert said.machines == {}
    assert said.out.startswith(
        'nohup setsid flock -w 10 "$ORCH_WORKER_DIR/lock" python3 "$ORCH_WORKER_DIR/supervise.py"'
    )
    assert said.out.endswith(
        '-- python3 train.py --epochs=100 >> "$ORCH_WORKER_DIR/training.log" 2>&1 < /dev/null\n'
    )


def test_a_file_that_is_not_sent_is_warned_about(project: Path) -> None:
    said = call(
        project,
        "train",
        "-d",
        "--hosts",
        "gpu01",
        "--",
        "python3",
        "train.py",
        "--data=data.bin",
        prepare=launched(),
    )
    assert "warning: data.bin is here but is not sent" in said.err


def test_two_hosts_are_one_too_many(project: Path) -> None:
    said = train(project, "-d", prepare=launched(), host="gpu01,gpu02")
    assert (said.status, said.machines) == (2, {})
    assert said.err == (
        "orch: gpu01,gpu02 is 2 hosts, a run takes one. The first that has room: "
        "--hosts gpu01,gpu02 --nodes 1; or name one: --hosts gpu01\n"
    )
    assert train(project, "-d", "--nodes", "2", prepare=launched()).status == 2


def test_the_first_candidate_with_room_is_taken(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        if machine.host.name == "gpu01":
            machine.answer("launch", out="answer busy\n")
        else:
            launched()(machine)

    said = train(project, "-d", "--nodes", "1", prepare=prepare, host="all")
    assert said.status == 0
    assert "on gpu02" in said.out
    assert said.err.startswith("gpu01: no free GPU for the run, so the next one\n")
    busy = train(
        project, "-d", "--nodes", "1", prepare=lambda m: m.answer("launch", out="answer busy\n"), host="all"
    )
    assert busy.status == 75


def test_a_run_that_is_remembered_here_and_has_no_record_any_more(project: Path) -> None:
    run = train(project, "-d", "--name", "weekly", prepare=launched()).out.split()[1]
    for words in (("why", "weekly"), ("stop", run)):
        said = call(project, *words, prepare=has_runs)
        assert said.status == 1
        gone, again = f"there is no record of run {run} any more", f"orch rerun {run}"
        assert said.err == f"orch: gpu01: {gone}. The same from its start: {again}\n"

    def lives(machine: FakeMachine) -> None:
        machine.answer_facts(runs=f"{HEAD}\nrun /home/ana/.orch/{run}\ngone ana\nend")
        machine.answer("stop", out="answer stopped\n")

    assert call(project, "stop", "weekly", prepare=lives).out == f"gpu01   {run}   stopped\n"
    (row,) = json.loads(call(project, "ps", "gpu01", "--json", prepare=lives).out)["rows"]
    assert (row["run"], row["state"], row["cause"]) == (run, "running", "its record was deleted under it")


def test_the_code_that_was_sent_is_kept_here(project: Path) -> None:
    said = call(project, "train", "-d", "--hosts", "gpu01", "--", "python3", "train.py", prepare=launched())
    assert said.status == 0
    cache = project / "cache" / "orch"
    sent = kept(collect(project, cache=cache).digest, cache)
    assert sent
    assert sent.holds("train.py")


def test_which_host_is_asked_when_there_are_several(project: Path) -> None:
    said = call(project, "train", "-d", "--", "true")
    assert (said.status, said.err) == (2, "orch: which hosts? There are 2. Name them: --hosts gpu01,gpu02\n")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (
            ("gpu01", "--", "python3", "train.py"),
            "orch: gpu01 is a host, not a command. orch train --hosts gpu01 -- python3",
        ),
        (
            ("--hosts", "gpu01", "--", "train.py", "--x"),
            "train.py is no program. orch train -- python3 train.py --x",
        ),
        (
            ("--hosts", "gpu01", "--epochs=3"),
            "What belongs to your command stands after --",
        ),
        (("--host", "gpu01", "--", "true"), "no option --host. Did you mean --hosts?"),
    ],
)
def test_a_word_that_is_a_slip_makes_no_run(project: Path, words: tuple[str, ...], what: str) -> None:
    said = call(project, "train", "-d", *words, prepare=launched())
    assert (said.status, said.machines) == (2, {})
    assert what in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--name", "a b"), "not one word"),
        (("--gpus", "many"), "a count, all or none"),
        (("--note", "two\nlines"), "not one line of at most 500 characters"),
        (("--tag", "two words"), "not one word"),
        (("--env", "1=2"), "not a variable's name"),
        (("--env", "NOT_SET_HERE"), "not set here"),
        (("--max-size", "lots"), "not a size"),
        (("-d", "--wait"), "exclude each other"),
    ],
)
def test_words_that_make_no_sense(project: Path, words: tuple[str, ...], what: str) -> None:
    said = train(project, *words, prepare=launched())
    assert (said.status, said.machines) == (2, {})
    assert what in said.err


# exec, stop


def test_exec_in_a_run_is_where_its_command_runs(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        record = block(RUN, RUNNING).replace('"sub": ""', '"sub": "src/a b"')
        machine.answer_facts(runs=f"{HEAD}\n{record}" if machine.host.name == "gpu01" else HEAD)
        machine.answer("environment", out=f"answer there\nenvironment {CONTAINER.text()}\n")
        machine.answer(re.compile("^docker exec"), Result(3, b"02.ckpt\n", b""))

    said = call(project, "exec", "nightly", "--", "ls", "checkpoints", prepare=prepare)
    (asked,) = said.machines["gpu01"].streamed
    assert f"-w '/orch/runs/{RUN}/gpu01/work/src/a b' c0ffee env ORCH_RUN_DIR=" in str(asked)


def test_stop_ends_the_others_when_one_word_is_wrong(project: Path) -> None:
    def prepare(machine: FakeMachine) -> None:
        has_runs(machine)
        machine.answer("stop", out=f"answer stopped\nstate {json.dumps({**RUNNING, 'state': 'stopped'})}\n")

    said = call(project, "stop", "weekly", RUN, prepare=prepare)
    assert (said.status, said.out) == (2, f"gpu01   {RUN}   stopped\n")
    assert said.err == "orch: no run 'weekly' on gpu01, gpu02. See: orch ps -a\n"


# The command line as such


@pytest.mark.parametrize(
    ("verb", "guess"),
    [("up", "deploy"), ("run", "train"), ("kill", "stop"), ("tial", "tail"), ("gpu-stats", "gpu-status")],
)
def test_a_verb_of_another_tool(project: Path, verb: str, guess: str) -> None:
    said = call(project, verb)
    assert (said.status, said.err) == (2, f"orch: no verb '{verb}'. Did you mean 'orch {guess}'?\n")


def test_a_verb_unlike_any(project: Path) -> None:
    assert call(project, "xyzzy").err == "orch: no verb 'xyzzy'.\n"
