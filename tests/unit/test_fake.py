"""The pretended machine, which other tests lean on."""

from __future__ import annotations

import io
import re

import pytest

from orchestrator.errors import HostError, LostConnection
from orchestrator.facts.question import Fact, Section, question
from orchestrator.hosts.base import Result, Terminal
from orchestrator.hosts.command import Command, Script
from orchestrator.hosts.fake import FakeMachine


def test_answers_by_name_and_by_text_the_last_one_first() -> None:
    machine = FakeMachine()
    machine.answer("launch", out="ok\n")
    machine.answer(re.compile("docker ps"), err="permission denied", status=1)
    assert machine.run(Script("launch", "x")).text == "ok\n"
    assert machine.run(Script("x", "sudo docker ps -q")).complaint == "permission denied"
    machine.answer("launch", LostConnection("gone", where="gpu01"))
    with pytest.raises(LostConnection):
        machine.run(Script("launch", "x"))
    machine.answer("launch", lambda asked: Result(7, b"", b""))
    assert machine.run(Script("launch", "x")).status == 7
    assert [s.name for s in machine.ran] == ["launch", "x", "launch", "launch"]


def test_what_it_was_not_told_is_an_error_that_names_it() -> None:
    with pytest.raises(AssertionError, match=r"gpu01 was asked what it has no answer to: ps\nls /x"):
        FakeMachine().run(Script("ps", "ls /x"))
    assert FakeMachine(otherwise=Result(0, b"", b"")).run(Script("ps", "ls")).status == 0


def test_streams_keep_what_was_sent() -> None:
    machine = FakeMachine()
    machine.answer(re.compile("^cat"), out=b"a" * 10, err="why", status=3)
    with machine.stream(Command.of("cat"), terminal=Terminal()) as stream:
        stream.write(b"in")
        stream.close_stdin()
        stream.resize(100, 40)
        assert (stream.read(6), stream.read(6), stream.read(6)) == (b"aaaaaa", b"aaaa", b"")
        assert (stream.read_error(), stream.read_error()) == (b"why", b"")
        assert stream.status() == 3
    kept = machine.streams[0]
    assert (kept.written, kept.stdin_closed, kept.sizes, kept.closed) == (b"in", True, [(100, 40)], True)


def test_files() -> None:
    machine = FakeMachine()
    machine.put(b"x", "~/a", mode=0o644)
    machine.put(io.BytesIO(b"y"), "~/b")
    into = io.BytesIO()
    machine.get("~/b", into)
    assert into.getvalue() == b"y"
    assert machine.modes == {"~/a": 0o644, "~/b": 0o600}
    with pytest.raises(HostError, match="/nope can't be read"):
        machine.get("/nope", into)
    with pytest.raises(HostError, match="nothing answers"):
        machine.tunnel(22)


def test_facts_are_answered_section_by_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.facts.question.render", lambda name, **_: "true")
    first, second = (Fact(name, "", lambda section: section) for name in ("gpu", "docker"))
    asked = question(first, second)
    machine = FakeMachine()
    machine.answer_facts(gpu="0, A100", docker=("no docker", 127))
    sections = asked.sections(machine.run(asked.script).text)
    assert sections == {"gpu": Section("0, A100", 0), "docker": Section("no docker", 127)}
