"""A port here that leads to one behind a line, over real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from orchestrator.errors import Busy, HostError, LostConnection
from orchestrator.hosts import forward
from orchestrator.hosts.base import Tunnel
from orchestrator.hosts.fake import FakeMachine
from orchestrator.hosts.forward import Forward, Way, check_forwarding, listener, way_to
from tests.until import until


class There(FakeMachine):
    """A host on which somebody says `hello` on port 80, and nobody else anything."""

    alive = True
    cut = False

    def tunnel(self, port: int, address: str = "127.0.0.1") -> Tunnel:
        if self.cut:
            raise LostConnection("went", where=self.host.name)
        if port != 80:
            raise HostError(f"nothing answers at {address}:{port} there", where=self.host.name)
        ours, theirs = socket.socketpair()
        threading.Thread(target=_greet, args=(theirs,), daemon=True).start()
        return ours


def _greet(end: socket.socket) -> None:
    with end:
        end.sendall(b"hello " + end.recv(100))


class Leading:
    """A Forward that serves in a thread until the test is over."""

    def __init__(self, *machines: There, port: int = 80) -> None:
        self.told: list[str] = []
        self.left = list(machines[1:])
        self.over = False
        sock = listener(None, 0)
        self.address = sock.getsockname()
        self.forward = Forward(sock, port, Way(machines[0]), self._next, self.told.append)
        self.thread = threading.Thread(target=lambda: self.forward.serve(lambda: self.over), daemon=True)
        self.thread.start()

    def _next(self) -> Way:
        if not self.left:
            raise LostConnection("still away", where="gpu01")
        return Way(self.left.pop(0))

    def ask(self) -> bytes:
        with socket.create_connection(self.address) as sock:
            sock.sendall(b"you")
            with contextlib.suppress(ConnectionResetError):  # it was closed before `you` was read
                return b"".join(iter(lambda: sock.recv(100), b""))
            return b""


@pytest.fixture
def leading() -> Iterator[list[Leading]]:
    made: list[Leading] = []
    yield made
    for one in made:
        one.over = True
        one.thread.join(timeout=30)
        one.forward.close()


def test_bytes_go_both_ways_for_as_many_as_come(leading: list[Leading]) -> None:
    leading.append(Leading(There()))
    assert [leading[0].ask() for _ in range(3)] == [b"hello you"] * 3
    assert leading[0].told == []


@pytest.mark.parametrize("how", ["seen", "met"])
def test_a_line_that_drops_is_made_anew(leading: list[Leading], how: str) -> None:
    first, second = There(), There()
    leading.append(Leading(first, second))
    assert leading[0].ask() == b"hello you"
    first.alive, first.cut = how == "met", True
    assert leading[0].ask() == b"hello you"  # on the same port; it waited for the line
    assert leading[0].told == ["gpu01: connection lost, connecting again", "gpu01: connected again"]
    assert first.closed


def test_it_is_over_also_while_the_line_is_away(leading: list[Leading]) -> None:
    first = There()
    leading.append(Leading(first))
    first.alive = False
    until(lambda: first.closed)
    leading[0].over = True
    leading[0].thread.join(timeout=30)
    assert not leading[0].thread.is_alive()


def test_that_nobody_answers_there_is_noted(leading: list[Leading]) -> None:
    leading.append(Leading(There(), port=81))
    assert leading[0].ask() == b""
    assert leading[0].forward.refused.is_set()


def test_it_is_over_although_nobody_connects(leading: list[Leading]) -> None:
    leading.append(Leading(There()))
    leading[0].over = True
    leading[0].thread.join(timeout=30)
    assert not leading[0].thread.is_alive()


def test_closing_it_closes_the_whole_way() -> None:
    container, host = There(), There()
    Forward(listener(None, 0), 80, Way(container, host), lambda: Way(host), print).close()
    assert container.closed
    assert host.closed


def test_the_port_is_the_wished_one_else_the_preferred_else_any() -> None:
    with contextlib.ExitStack() as stack:
        taken = stack.enter_context(listener(None, 0)).getsockname()[1]
        assert stack.enter_context(listener(None, taken)).getsockname()[1] not in (taken, 0)
        with pytest.raises(Busy, match=f"port {taken} of this machine can't be had: Address already in use"):
            listener(taken, 0)
    with listener(None, taken) as sock:
        assert sock.getsockname() == ("127.0.0.1", taken)


def test_without_an_sshd_of_a_container_the_host_itself_is_the_way() -> None:
    machine = There()
    assert way_to(machine, None, user="ana", host_keys=()) == Way(machine)


def test_a_host_that_forbids_forwarding_says_so_at_once() -> None:
    check_forwarding(There(), "it")  # that port 1 is closed is no matter

    class Narrow(There):
        def tunnel(self, port: int, address: str = "127.0.0.1") -> Tunnel:
            raise HostError(forward.FORBIDDEN, where="gpu01")

    with pytest.raises(
        HostError, match=r"gpu01: its sshd forbids forwarding .*, so a TensorBoard there can't"
    ):
        check_forwarding(Narrow(), "a TensorBoard there")
