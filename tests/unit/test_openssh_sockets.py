"""Where the sockets of ssh masters lie, and whose they must be."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.hosts import openssh_sockets
from orchestrator.hosts.limit import Limit
from orchestrator.hosts.openssh_mux import is_alive
from orchestrator.hosts.ssh_config import Route

ROUTE = Route("gpu01", "10.0.0.12", 22, "ana")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "orch-1000"
    monkeypatch.setattr(openssh_sockets, "_folder", lambda: str(path))
    return path


def test_the_folder_is_the_callers_alone(folder: Path) -> None:
    assert openssh_sockets.folder() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert openssh_sockets.folder() == str(folder)
    folder.chmod(0o750)
    with pytest.raises(ConfigError) as caught:
        openssh_sockets.folder()
    assert caught.value.exit_code == 78
    assert str(caught.value) == (
        f"{folder}: is not a folder that only you can read. Remove it, or mend its owner and mode"
    )
    assert openssh_sockets.all_kept() == []
    assert openssh_sockets.live(ROUTE) is None


def test_a_folder_that_is_a_link_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        openssh_sockets.folder()


def test_a_login_is_found_by_the_way_and_by_nothing_else(folder: Path) -> None:
    own = openssh_sockets.of_login(ROUTE)
    assert own == openssh_sockets.of_login(replace(ROUTE, name="another-name", identity_files=("/k",)))
    others = [
        replace(ROUTE, user="bob"),
        replace(ROUTE, port=2222),
        replace(ROUTE, address="10.0.0.13"),
        replace(ROUTE, jump="bastion"),
        replace(ROUTE, command="nc %h %p"),
    ]
    assert len({own, *map(openssh_sockets.of_login, others)}) == 1 + len(others)
    assert len(f"/tmp/orch-4294967295/{Path(own).name}.XXXXXXXXXXXXXXXX") < 104  # the least that a system has


@pytest.mark.parametrize(
    "words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4\0\0\0\1", b"\xff" * 64]
)
def test_what_listens_and_is_no_ssh(folder: Path, tmp_path: Path, words: bytes) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        assert not is_alive(path, Limit(1))
        sock.listen(1)
        client = socket.socket(socket.AF_UNIX)  # fills nothing: the answer lies there before the question
        client.close()
        import threading

        def answer() -> None:
            with sock.accept()[0] as peer:
                peer.sendall(words)

        thread = threading.Thread(target=answer)
        thread.start()
        assert not is_alive(path, Limit(5))
        thread.join()
    assert not is_alive(str(tmp_path), Limit(1))
    os.unlink(path)
    assert not is_alive(path, Limit(1))
