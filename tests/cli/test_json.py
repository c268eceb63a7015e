"""--json of every listing, held against docs/json.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import VERBS, cli
from orchestrator.errors import LostConnection, Unreachable
from orchestrator.hosts.fake import FakeMachine
from tests.cli.calling import call
from tests.cli.run_folders import RunFolders
from tests.cli.some_runs import has_runs
from tests.cli.test_deploy import BASE, DOCKER, answers
from tests.cli.test_doctor import Run, doctor, well  # noqa: F401
from tests.cli.test_files import Lab, lab  # noqa: F401
from tests.cli.test_gpu_status import smi, status  # noqa: F401
from tests.cli.test_image import prepare as has_images
from tests.cli.test_schedule import added, table  # noqa: F401
from tests.cli.test_why import BAD, GOOD, with_a_failure

PAGE = Path(__file__).parents[2] / "docs/json.md"
GONE = {"gpu02": Unreachable("timed out", where="gpu02", hint="Try: ssh gpu02")}
FAILURE = {"host": "gpu02", "error": "timed out", "hint": "Try: ssh gpu02", "exit_code": 69}
TYPES: dict[str, Any] = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "list": list,
    "map": dict,
    "object": dict,
    "null": type(None),
}


def shape(listing: str) -> dict[str, str]:
    """The keys of a listing and their types, as the page has them."""
    section = re.search(rf"^## {listing}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"docs/json.md has no {listing}"
    return dict(re.findall(r"^\| ([a-z_\[\]{}.]+) \| ([a-z ]+) \|", section[1], re.MULTILINE)[1:])


def fits(value: object, types: str) -> bool:
    if isinstance(value, bool):
        return types == "boolean"
    if types.startswith("list of string") and isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return any(isinstance(value, TYPES[name.partition(" of")[0]]) for name in types.split(" or "))


def paths(value: object, known: dict[str, str], at: str = "") -> Iterator[tuple[str, object]]:
    """Every key below a row with its value; members of lists and maps are `[]` and `{}`."""
    if isinstance(value, dict):
        is_map = known.get(at) == "map"
        for key, member in value.items():
            path = f"{at}{{}}" if is_map else f"{at}.{key}".lstrip(".")
            if path in known or not is_map:
                yield path, member
            yield from paths(member, known, path)
    elif isinstance(value, list):
        for member in value:
            yield from paths(member, known, f"{at}[]")


def check(listing: str, out: str, *, failures: int = 0) -> list[dict[str, Any]]:
    """Hold output against the page: each key is there, is told, and has its type. Returns the rows."""
    found = json.loads(out)
    assert list(found) == ["version", "listing", "rows", "failures"]
    assert (found["version"], found["listing"], len(found["failures"])) == (1, listing, failures)
    for name, rows in ((listing, found["rows"]), ("failures", found["failures"])):
        known = shape(name)
        assert len(known) >= 3
        top = [key for key in known if not re.search(r"[\[{.]", key)]
        for row in rows:
            assert sorted(row) == sorted(top)
            for path, value in paths(row, known):
                assert path in known, f"{listing}: {path} is not told in docs/json.md"
                assert fits(value, known[path]), f"{listing}: {path} = {value!r} is no {known[path]}"
    seen = {path for row in found["rows"] for path, _ in paths(row, shape(listing))}
    assert seen == set(shape(listing)), f"never seen: {set(shape(listing)) - seen}"
    return list(found["rows"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n[all:vars]\nperson=ana\nproject=mnist\n")
    return tmp_path


def test_hosts(project: Path) -> None:
    rows = check("hosts", call(project, "hosts", "--json").out)
    assert [row["host"] for row in rows] == ["gpu01", "gpu02"]


def test_ps(project: Path) -> None:
    said = call(project, "ps", "-a", "--json", prepare=has_runs, failing=GONE)
    assert len(check("ps", said.out, failures=1)) == 2
    assert json.loads(said.out)["failures"] == [FAILURE]
    assert (said.status, said.err) == (1, "orch: gpu02: timed out. Try: ssh gpu02\n")


def test_why(tmp_path: Path) -> None:
    host = RunFolders(tmp_path)
    with_a_failure(host)
    host.silent = GONE
    rows = check("why", host("why", "--json", "--hosts", "gpu01,gpu02", code=None).out)
    assert rows[0]["run"] == BAD


def test_diff(tmp_path: Path) -> None:
    host = RunFolders(tmp_path)
    with_a_failure(host)
    for run in (GOOD, BAD):
        place = host.root("gpu01") / "ana/mnist/runs" / run / "gpu01"
        (place / "progress.jsonl").write_text('{"epoch": 5, "time": 1, "loss": 0.25}\n')
    (row,) = check("diff", host("diff", "--json", GOOD, BAD).out)
    assert row["before"]["metrics"] == {"epoch": 5, "loss": 0.25}


@pytest.mark.parametrize("verb", ["why nightly", "ls nightly", "diff nightly weekly"])
def test_a_run_of_a_host_that_is_silent(project: Path, verb: str) -> None:
    def prepare(machine: FakeMachine) -> None:
        machine.answer_facts(runs="now 5")

    said = call(project, *verb.split(), "--json", prepare=prepare, failing=GONE)
    found = json.loads(said.out)
    assert (found["listing"], found["rows"], found["failures"][0]["error"]) == (
        verb.split(maxsplit=1)[0],
        [],
        "timed out",
    )
    assert said.status == found["failures"][0]["exit_code"] == 69
    assert said.err.startswith("orch: gpu02: timed out. ")
    said = call(project, *verb.split(), "--json", prepare=prepare)
    assert (said.status, said.out) == (2, "")


def test_doctor(doctor: Run) -> None:  # noqa: F811
    said = doctor({"a": well(), "b": GONE["gpu02"]}, "--json")
    assert [row["ok"] for row in check("doctor", said.out, failures=1)] == [True, False]


def test_gpu_status(status: Run) -> None:  # noqa: F811
    answers = {"gpu01": smi(), "gpu02": GONE["gpu02"], "gpu03": LostConnection("went", where="gpu03")}
    rows = check("gpu-status", status(answers, "--json").out, failures=2)
    assert [row["state"] for row in rows] == ["faulty", "unreachable", "failed"]


def test_ls(lab: Lab) -> None:  # noqa: F811
    assert len(check("ls", lab("ls", "--json", "nightly")[1])) == 3


def test_schedule(table: Path, tmp_path: Path) -> None:  # noqa: F811
    added(tmp_path, "--hosts", "gpu01", "--", "true")
    call(tmp_path, "schedule", "run", "nightly")  # it fails, which is a firing too
    said = call(tmp_path, "schedule", "list", "--json", environ={"XDG_STATE_HOME": str(tmp_path / "state")})
    (row,) = check("schedule", said.out)
    assert row["last"]["status"] == 2


def test_deploy(project: Path) -> None:
    said = call(
        project, "deploy", "--dry-run", "--json", "all", prepare=answers(f"{DOCKER}\n{BASE}"), failing=GONE
    )
    (row,) = check("deploy", said.out, failures=1)
    assert row["plan"][0].startswith("image      build")
    refused = call(project, "deploy", "--json", "gpu01")
    assert (refused.status, refused.err) == (2, "orch: --json prints a plan. Add --dry-run.\n")


def test_image_ls(project: Path) -> None:
    said = call(project, "image", "ls", "--json", "-A", prepare=has_images(), failing=GONE)
    assert len(check("image ls", said.out, failures=1)) == 5


def test_every_verb_with_json_has_its_section() -> None:
    for verb in VERBS:
        command: Any = cli.get_command(None, verb)  # type: ignore[arg-type]
        inner = getattr(command, "commands", {"": command})
        for name, sub in inner.items():
            if any("--json" in p.opts for p in sub.params):
                assert shape(verb if name in ("", "list") else f"{verb} {name}"), (verb, name)
