"""The chief's port: strangers are sent away and hold nothing up, and only the run's own token opens it."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import Any

from tests.unit.workers import Workers, workers
from tests.until import until

__all__ = ["workers"]  # a fixture


def knock(run: Workers) -> socket.socket:
    return socket.create_connection(("127.0.0.1", run.cluster["link"]), 5)


def listens(run: Workers) -> bool:
    try:
        knock(run).close()
    except ConnectionRefusedError:
        return False
    return True


def waits(run: Workers) -> None:
    run[0].start("true")
    until(lambda: listens(run))


def heard(connection: socket.socket) -> list[dict[str, Any]]:
    """Return what is said until the other side closes."""
    text = b""
    try:
        while more := connection.recv(4096):
            text += more
    except ConnectionResetError:
        pass
    return [json.loads(line) for line in text.splitlines()]


def begins(run: Workers) -> None:
    """The second worker comes, and all is well."""
    run[1].start("true")
    assert [state["state"] for state in run.ends()] == ["succeeded"] * 2


def test_who_says_nothing_is_sent_away_and_holds_up_nobody(workers: Workers) -> None:
    waits(workers)
    with ExitStack() as stack:
        strangers = [stack.enter_context(knock(workers)) for _ in range(100)]  # more than are kept
        begins(workers)
        assert {tuple(word) for stranger in strangers for word in heard(stranger)} == {("nonce",)}


def test_who_does_not_know_the_token_hears_nothing_of_the_run(workers: Workers) -> None:
    waits(workers)
    for said in (
        b'{"rank": 1, "nonce": "x", "proof": "y"}\n',
        b'{"rank": 1}\n',
        b'{"rank": 0}\n',
        b'{"rank": 1, "nonce": "\\ud800", "proof": "x"}\n',
        b'{"rank": [1]}\n',
        b"[]\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"\xff\n",
        b"x" * 5000,
    ):
        with knock(workers) as stranger:
            stranger.sendall(said)
            (nonce,) = heard(stranger)
            assert list(nonce) == ["nonce"]
    begins(workers)


def test_a_chief_that_does_not_know_the_token_is_none(workers: Workers) -> None:
    with socket.create_server(("127.0.0.1", workers.cluster["link"])) as false:
        workers[1].start("echo", "started")
        for _ in range(2):  # it tries again
            member, _ = false.accept()
            with member:
                member.sendall(b'{"nonce": "a"}\n')
                said = json.loads(member.recv(4096))
                member.sendall(b'{"proof": "b"}\n{"is": "go", "attempt": 0, "ports": [1, 2]}\n')
                assert heard(member) == []
            assert (said["rank"], "token" in said) == (1, False)
    assert workers[1].log == ""
    workers[0].start("true")
    assert [state["state"] for state in workers.ends()] == ["succeeded"] * 2


def test_one_that_accepts_and_says_nothing_is_not_waited_for(workers: Workers) -> None:
    with socket.create_server(("127.0.0.1", workers.cluster["link"])) as silent:
        workers[1].start("true")
        first, _ = silent.accept()
        assert heard(first) == []
        first.close()
    workers[0].start("true")
    assert [state["state"] for state in workers.ends()] == ["succeeded"] * 2


def test_a_link_port_that_is_taken_for_good_is_said(workers: Workers) -> None:
    with socket.create_server(("127.0.0.1", workers.cluster["link"])):
        workers[0].launch["cluster"]["join"] = 0.5
        workers[0].start("true")
        cause = workers[0].end()["cause"]
    assert cause["kind"] == "not started"
    assert cause["message"].startswith(
        f"cannot listen on port {workers.cluster['link']} for the other workers"
    )


def test_a_link_port_that_becomes_free_is_taken(workers: Workers) -> None:
    with socket.create_server(("127.0.0.1", workers.cluster["link"])):
        workers[0].start("true")
        until(lambda: workers[0].state.get("waiting") == ["gpu02"])
    begins(workers)


def test_the_chief_listens_where_its_address_is_not_its_own(workers: Workers) -> None:
    """As in a container behind a bridge: its host's address leads to it, and it can't listen on that."""
    for member in workers.members:
        member.launch["cluster"]["addresses"] = ["192.0.2.1", "127.0.0.2"]
    workers[0].start("true")
    until(lambda: listens(workers))
    workers[1].launch["cluster"]["addresses"] = ["127.0.0.1", "127.0.0.2"]
    begins(workers)


def test_the_chief_listens_everywhere_where_its_address_is_a_name(workers: Workers) -> None:
    """On its own host the name may lead to another address than on the others."""
    workers[0].launch["cluster"]["addresses"] = ["localhost", "127.0.0.3"]
    workers[1].launch["cluster"]["addresses"] = ["127.0.0.2", "127.0.0.3"]
    workers[0].start("true")
    until(lambda: listens(workers))
    begins(workers)


def test_a_link_over_ipv6(workers: Workers) -> None:
    for member in workers.members:
        member.launch["cluster"]["addresses"] = ["::1", "::1"]
    workers.start("echo $ORCH_CHIEF")
    assert [state["state"] for state in workers.ends()] == ["succeeded"] * 2
    assert workers[1].log == f"[::1]:{workers[0].launch['cluster']['port']}\n"
