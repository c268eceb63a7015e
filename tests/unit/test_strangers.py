"""Whatever a stranger says, at the chief's port or in the chief's place, the link goes on."""

from __future__ import annotations

import json
import random
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "templates"))
from supervisor.cluster import Cluster
from supervisor.door import Door
from supervisor.member import RETRY, Member
from supervisor.restarts import Restarts
from supervisor.wire import Broken, Wire

WORDS = ["rank", "nonce", "proof", "is", "attempt"]
ODD: list[Any] = ["\ud800", "é\udfff", "", "x" * 40, None, True, False, 0, 1, -1, 1.5, 1e400, 2**70]


def value(dice: random.Random, depth: int = 0) -> Any:
    """Return something that JSON can say."""
    kind = dice.randrange(4 if depth < 4 else 1)
    if kind == 1:
        return [value(dice, depth + 1) for _ in range(dice.randrange(3))]
    if kind == 2:
        return {word: value(dice, depth + 1) for word in dice.sample(WORDS, dice.randrange(4))}
    return dice.choice(ODD)


def sayings() -> Iterator[bytes]:
    dice = random.Random(5)
    yield b'{"rank": 1, "nonce": "\\ud800", "proof": "x"}\n'
    yield b'{"rank": 1, "nonce": "x", "proof": "\\ud800"}\n'
    yield b'{"rank": 1, "proof": "x", "nonce": ' + b"[" * 450 + b"]" * 450 + b"}\n"
    for _ in range(2000):
        said = {word: value(dice) for word in dice.sample(WORDS, 4)}
        if dice.random() < 0.7:
            said["rank"] = 1
        yield json.dumps(said).encode("ascii") + b"\n"


def worker() -> Member:
    facts = {"rank": 1, "hosts": ["a", "b"], "addresses": ["a", "b"], "port": 1, "link": 2, "token": "00"}
    return Member(Cluster(facts), lambda: None, Restarts(None), 0)


def test_no_words_of_a_stranger_end_the_door() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        door = Door(listener, b"token", 2)
        for said in sayings():
            with socket.create_connection(listener.getsockname()) as stranger:
                door.look([listener])
                (guest,) = door.guests
                stranger.sendall(said)
                assert door.look([guest]) == []
                assert not door.guests


def test_no_words_of_a_false_chief_end_the_link() -> None:
    member = worker()
    for said in sayings():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            member.wire, member.proof = Wire(ours), None
            theirs.sendall(said * 2)
            with pytest.raises(Broken):
                member._turn()
            assert member.word == {}


def test_one_that_closes_at_once_is_asked_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    member, pauses = worker(), []

    def pause(sockets: list[Any], _unsent: list[Any], seconds: float) -> list[Any]:
        if not sockets:
            pauses.append(seconds)
        member.leaving = len(tries) > 2
        return sockets

    tries: list[int] = []
    monkeypatch.setattr(member, "wait", pause)
    monkeypatch.setattr(member, "_connect", lambda: closed(member, tries))
    member.keep()
    assert pauses == [RETRY] * 3


def closed(member: Member, tries: list[int]) -> bool:
    """Give it a connection of which the other side is closed."""
    tries.append(1)
    ours, theirs = socket.socketpair()
    theirs.close()
    member.wire = Wire(ours)
    return True
