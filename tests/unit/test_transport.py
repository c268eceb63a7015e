"""What the reading thread of a connection may not wait for."""

from __future__ import annotations

import socket

import paramiko
import pytest

from orchestrator.hosts.transport import Transport


class Reading(Transport):
    """Its reading thread answers something while new keys are made."""

    def run(self) -> None:
        self.answer = paramiko.Message(b"answer")
        self._send_user_message(self.answer)


def test_the_reading_thread_speaks_when_it_has_the_new_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """To wait for them would be to wait for itself."""
    here, there = socket.socketpair()
    sent: list[paramiko.Message] = []
    with here, there:
        transport = Reading(here)
        monkeypatch.setattr(transport, "_send_message", sent.append)
        monkeypatch.setattr(paramiko.Transport, "_activate_inbound", lambda self: None)
        transport.start()
        transport.join(timeout=10)
        assert not transport.is_alive()
        assert sent == []
        transport._activate_inbound()
        assert sent == [transport.answer]
        transport._activate_inbound()
        assert sent == [transport.answer], "once"
