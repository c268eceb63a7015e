"""Jumps that several hosts go through: one connection for all of them, closed with the last one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from orchestrator.errors import OrchError

if TYPE_CHECKING:
    from orchestrator.hosts.openssh import OpenSshMachine
    from orchestrator.hosts.ssh import SshMachine

    Jump = SshMachine | OpenSshMachine


class Gateway:
    """A share in an open jump. `close` gives it back."""

    def __init__(self, slot: _Slot, machine: Jump) -> None:
        self.machine, self._slot, self._open = machine, slot, True

    def close(self) -> None:
        """Give the share back; the last one closes the connection."""
        if self._open:
            self._open = False
            self._slot.give_back(self.machine)


class _Slot:
    """One jump: opened by the first who needs it while the others wait, opened anew when it has died.

    Whoever waited for an opening that failed gets its error: a dead jump costs its timeout once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._machine: Jump | None = None
        self._users: dict[int, int] = {}
        self._failure: OrchError | None = None
        self._failed_at = 0.0

    def take(self, opened: Callable[[], Jump]) -> Gateway:
        asked_at = time.monotonic()
        with self._lock:
            if self._failure and self._failed_at > asked_at:
                raise self._failure
            if self._machine is None or not self._machine.alive:
                self._machine = self._opened(opened)
            key = id(self._machine)
            self._users[key] = self._users.get(key, 0) + 1
            return Gateway(self, self._machine)

    def _opened(self, opened: Callable[[], Jump]) -> Jump:
        try:
            return opened()
        except OrchError as error:
            self._failure, self._failed_at = error, time.monotonic()
            raise

    def give_back(self, machine: Jump) -> None:
        with self._lock:
            self._users[id(machine)] -= 1
            if self._users[id(machine)]:
                return
            del self._users[id(machine)]
            if self._machine is machine:
                self._machine = None
        machine.close()


_slots: dict[Hashable, _Slot] = {}
_slots_lock = threading.Lock()


def share(key: Hashable, opened: Callable[[], Jump]) -> Gateway:
    """Return a share in the jump that `key` names, opening it by `opened` when nobody has it open."""
    with _slots_lock:
        slot = _slots.setdefault(key, _Slot())
    return slot.take(opened)
