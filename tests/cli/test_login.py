"""orch login where nobody can be asked. What it does on a terminal is in tests/ssh/test_login_by_hand.py."""

from __future__ import annotations

from pathlib import Path

from tests.cli.calling import call


def test_without_a_terminal_it_says_so(tmp_path: Path) -> None:
    called = call(tmp_path, "login", "gpu01")
    assert called.status == 2
    assert called.err == "orch: orch login asks on a terminal, and there is none. Log in from one first\n"


def test_which_hosts_must_be_said(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text("gpu01\ngpu02\n")
    called = call(tmp_path, "login")
    assert called.status == 2
    assert called.err == "orch: which hosts? There are 2. Name them: --hosts gpu01,gpu02\n"


def test_check_or_end(tmp_path: Path) -> None:
    called = call(tmp_path, "login", "--check", "--end", "gpu01")
    assert (called.status, called.err) == (2, "orch: --check or --end, not both\n")


def test_this_machine_needs_none(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text("here ansible_connection=local\n")
    called = call(tmp_path, "login", "--check")
    assert (called.status, called.out) == (0, "here: this machine needs no login\n")


def test_a_host_without_a_login(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text("gpu01 ansible_host=192.0.2.1\n")
    called = call(tmp_path, "login", "--check")
    assert (called.status, called.out) == (77, "")
    assert called.err == "orch: gpu01: not logged in. orch login gpu01\n"
    ended = call(tmp_path, "login", "--end", "gpu01")
    assert (ended.status, ended.out) == (0, "0 logins ended\n")
