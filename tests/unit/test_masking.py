"""A hidden value is in no text for people, however a script quotes it."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.hosts import masking
from orchestrator.hosts.command import Command, Secret
from orchestrator.hosts.masking import hide, hide_environment, masked
from orchestrator.render import render


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_hidden", set())


@given(st.text(min_size=4).filter(lambda t: t.strip() and set(t) - set("*'\"\\ ")))
def test_no_way_of_quoting_shows_it(value: str) -> None:
    masking._hidden.clear()
    hide(value)
    quoted = shlex.quote(value)
    for text in (
        value,
        json.dumps({"k": value}),
        json.dumps({"k": value}, ensure_ascii=False),
        quoted,
        shlex.quote(json.dumps({"k": value})),
        shlex.quote(f"sh -c {quoted}"),
        shlex.quote(shlex.quote(f"sh -c {quoted}")),
        Command.of("sh", "-c", Secret(value)).shell(),
        render("container/keys.sh.j2", place=value, keys=value, user={"uid": 1, "gid": 1, "name": value}),
    ):
        shown = masked(f"before {text} after")
        assert "***" in shown
        assert value.strip() not in shown.replace("***", "")


def test_what_is_hidden_of_an_environment() -> None:
    hide_environment({"EPOCHS": "100", "PIN_TOKEN": "42", "URL": "postgres://u:p@h", "API_KEY": ""})
    assert masked("100 42 postgres://u:p@h/x") == "100 *** ***/x"
