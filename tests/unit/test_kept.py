"""Connections that are kept between questions."""

from __future__ import annotations

import pytest

from orchestrator.errors import LostConnection
from orchestrator.hosts.command import Script
from orchestrator.hosts.fake import FakeMachine
from orchestrator.hosts.kept import Kept
from orchestrator.inventory import Host

HOST = Host("gpu01", "gpu01")
ASK = Script("ask", "true")


@pytest.fixture
def opened() -> list[FakeMachine]:
    return []


@pytest.fixture
def kept(opened: list[FakeMachine]) -> Kept:
    def connect(host: Host) -> FakeMachine:
        opened.append(FakeMachine(host))
        opened[-1].answer("ask", out="yes")
        return opened[-1]

    return Kept(connect)


def test_one_connection_serves_all_questions(kept: Kept, opened: list[FakeMachine]) -> None:
    for _ in range(3):
        with kept.connect(HOST) as machine:
            assert machine.run(ASK).text == "yes"
    assert [(len(m.ran), m.closed) for m in opened] == [(3, False)]
    kept.close()
    assert opened[0].closed


def test_a_connection_that_failed_is_closed_and_replaced(kept: Kept, opened: list[FakeMachine]) -> None:
    with kept.connect(HOST) as machine:
        opened[0].answer("ask", LostConnection("gone"))
        with pytest.raises(LostConnection):
            machine.run(ASK)
    assert opened[0].closed
    with kept.connect(HOST) as machine:
        assert machine.run(ASK).text == "yes"
    assert len(opened) == 2
