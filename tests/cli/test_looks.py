"""What a person sees: the width of the terminal, colours, and many hosts that say the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli import colour
from orchestrator.cli.table import columns, cut, width, wrapped
from orchestrator.errors import Unreachable
from tests.cli.calling import call
from tests.cli.some_runs import has_runs
from tests.cli.test_deploy import BASE, DOCKER, answers
from tests.cli.test_doctor import NO_DOCKER, well

HOSTS = [f"gpu{n:02}" for n in range(1, 21)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts.ini").write_text("gpu[01:20]\n[all:vars]\nperson=ana\nproject=mnist\n")
    return tmp_path


def looks(project: Path, *words: str, room: int = 0) -> str:
    """What a verb prints on a terminal of so many columns, or into a pipe."""
    facts = well(docker=NO_DOCKER)
    prepare = has_runs if words[0] == "ps" else lambda machine: machine.answer_facts(**facts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(room))
        patch.setenv("NO_COLOR", "1")
        return call(project, *words, prepare=prepare, terminal=room > 0).out


@pytest.mark.parametrize(
    "words", [("ps", "-a"), ("gpu-status",), ("hosts",), ("hosts", "-v"), ("doctor", "gpu01")]
)
def test_no_line_is_wider_than_the_terminal(project: Path, words: tuple[str, ...]) -> None:
    whole, narrow = looks(project, *words), looks(project, *words, room=60)
    assert [
        ln for ln in narrow.splitlines() if width(ln) > 60 and "https://" not in ln
    ] == []  # no link breaks
    assert looks(project, *words, room=200) == whole
    assert len(narrow.splitlines()) == len(whole.splitlines()) or words[0] == "doctor"


def test_doctor_wraps_under_its_words(project: Path) -> None:
    """What to do is never cut off."""
    lines = looks(project, "doctor", "gpu01", room=60).splitlines()
    at = next(n for n, line in enumerate(lines) if "-> Install Docker" in line)
    assert lines[at + 1].index(lines[at + 1].strip()) == lines[at].index("Install")
    said = " ".join(line.strip() for line in lines[at : at + 4])
    assert "engine = venv." in said


def test_a_plan_goes_on_under_its_words(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    words, prepare = ("deploy", "--dry-run", "gpu01"), answers(f"{DOCKER}\n{BASE}")
    whole, narrow = (call(project, *words, prepare=prepare, terminal=on).out for on in (False, True))
    assert max(map(len, whole.splitlines())) > 60 >= max(map(len, narrow.splitlines()))
    rejoined = re.sub(r"\n {22}", "   ", narrow)
    assert rejoined.split() == whole.split()
    at = next(n for n, line in enumerate(narrow.splitlines()) if line.startswith("  container"))
    assert re.match(r" {22}\S", narrow.splitlines()[at + 1])


def test_east_asian_names_are_aligned() -> None:
    head, first, second = columns(("A", "B"), [("大数据", "x"), ("gpu", "y")])
    assert (head, first, second) == ("A       B", "大数据  x", "gpu     y")


@given(st.text(), st.integers(5, 40))
def test_a_cut_line_fits_and_is_a_beginning(text: str, room: int) -> None:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(room)
    try:
        line = cut(text)
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    assert width(line) <= room
    assert text.startswith(line.removesuffix("~")) or line == text


def test_a_text_is_wrapped_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert wrapped("a " * 60, 10) == "a " * 60
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = wrapped("word " * 12, 10).split("\n")
    assert [len(line) <= 40 for line in lines] == [True] * len(lines)
    assert lines[1].startswith(" " * 10 + "word")
    assert wrapped("word " * 12, 30) == "word " * 12


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, None),
        ({"TERM": "xterm"}, None),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, None),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({"FORCE_COLOR": "0"}, None),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR": "0"}, False),
        ({"CLICOLOR": "1"}, None),
        ({"TERM": "dumb"}, False),
    ],
)
def test_what_the_environment_says_of_colours(environ: dict[str, str], said: bool | None) -> None:
    assert colour.wanted(environ) is said


@pytest.mark.parametrize(("environ", "coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_colours_into_a_pipe_only_where_they_are_asked_for(
    tmp_path: Path, environ: dict[str, str], coloured: bool
) -> None:
    (tmp_path / "hosts.ini").write_text("here ansible_connection=local\n")
    words = [sys.executable, "-m", "orchestrator", "doctor"]
    env = {"HOME": str(tmp_path), "PYTHONPATH": os.getcwd(), "PATH": os.environ["PATH"], **environ}
    done = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert ("\x1b[" in done.stdout) is coloured
    assert "here" in done.stdout


def test_gpu_status_says_once_what_many_hosts_say(project: Path) -> None:
    away = {name: Unreachable("timed out", where=name, hint=f"Try: ssh {name}") for name in HOSTS[4:]}
    said = call(
        project, "gpu-status", prepare=lambda m: m.answer_facts(gpu="cards\t0"), failing=away
    ).out.splitlines()
    assert len(said) == 2
    assert re.fullmatch(r"gpu\[01-04\]   no GPU .*", said[0])
    assert said[1] == "gpu[05-20]   unreachable: timed out. Try: ssh gpu[05-20]"


def test_doctor_says_once_what_many_hosts_say_with_their_names(project: Path) -> None:
    away = {n: Unreachable("timed out", where=n, hint=f"Try: ssh {n}") for n in HOSTS}
    lines = call(project, "doctor", failing=away).out.splitlines()
    assert lines[0] == "gpu[01-20]   1 to fix"
    assert [ln for ln in lines if "Try: ssh gpu[01-20]" in ln]


def test_the_same_plan_for_many_hosts_is_told_once(project: Path) -> None:
    said = call(project, "deploy", "--dry-run", "all", prepare=answers(f"{DOCKER}\n{BASE}"))
    lines = said.out.splitlines()
    assert lines[0].startswith("gpu[01-20]   no GPU")
    assert said.out.count("container  create") == 1
