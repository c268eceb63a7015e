"""Callers on Linux, macOS and WSL: what depends on the system stands in one module, and works there."""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.hosts import platform
from orchestrator.hosts.platform import ready

ROOM = Path(platform.__file__)
PACKAGE = ROOM.parents[1]

_LINUX = """
    memfd_create pipe2 splice sendfile posix_fallocate posix_fadvise sched_setaffinity sched_getaffinity
    getrandom pidfd_open eventfd O_TMPFILE O_PATH O_DIRECT O_LARGEFILE O_NOATIME O_RSYNC setresuid getresuid
    setresgid fdatasync copy_file_range getxattr setxattr listxattr prlimit unshare setns
    TCP_USER_TIMEOUT TCP_KEEPIDLE TCP_QUICKACK TCP_CORK TCP_DEFER_ACCEPT SO_BINDTODEVICE SO_PEERCRED
    SO_PASSCRED SO_DOMAIN SO_PROTOCOL SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK AF_PACKET AF_VSOCK MSG_NOSIGNAL
    MSG_CMSG_CLOEXEC MSG_ERRQUEUE
    poll epoll POLLRDHUP SIGPWR SIGSTKFLT SIGRTMIN SIGRTMAX SIGPOLL SIGCLD sigtimedwait sigwaitinfo
    F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_NOTIFY F_SETLEASE PR_SET_PDEATHSIG kqueue kevent
"""
LINUX_ONLY = set(_LINUX.split())
"""Names of os, socket, select, signal and fcntl that macOS lacks, that it has broken, or that only it has."""

MODULES = {"os", "socket", "select", "signal", "fcntl", "resource"}
PROGRAMS = {"/bin/sh", "ssh", "ssh-keygen", "klist", "crontab", "git", "docker"}
"""Programs that orch itself runs on the caller's machine, with options that they have everywhere."""


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != ROOM]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_other_module_depends_on_the_callers_system(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    notes = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree)
        if hasattr(node, "body") and _can(node)
    }
    found = [text for text in said if isinstance(text, str) and text not in notes and "/proc/" in text]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES:
            found += [node.attr] if node.attr in LINUX_ONLY else []
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            found += [alias.name for alias in node.names if alias.name in LINUX_ONLY]
        if isinstance(node, ast.Attribute) and node.attr == "platform" and isinstance(node.value, ast.Name):
            found += ["sys.platform"] if node.value.id == "sys" else []
    assert not found, f"goes into {ROOM.relative_to(PACKAGE)}: {found}"


def _can(node: ast.AST) -> bool:
    return isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))


def test_only_programs_that_every_caller_has_are_run_here() -> None:
    started = {
        word.value
        for path in [*modules(), ROOM]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen")
        for word in ast.walk(node.args[0])
        if isinstance(word, ast.Constant)
        and isinstance(node.args[0], ast.List)
        and word is node.args[0].elts[0]
    }
    assert started <= PROGRAMS


@pytest.fixture(params=["linux", "darwin"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Wait as on each of the systems."""
    monkeypatch.setattr(sys, "platform", request.param)
    return str(request.param)


def test_waiting_tells_what_can_be_read_written_or_has_ended(system: str) -> None:
    (out, into), (other, held) = os.pipe(), os.pipe()
    try:
        assert ready({out, other}, seconds=0) == set()
        assert ready({out}, {into}, 5) == {into}
        os.write(into, b"x")
        assert ready({out, other}, seconds=5) == {out}
        os.read(out, 1)
        os.close(into)
        assert ready({out, other}) == {out}
    finally:
        for number in (out, other, held):
            os.close(number)


def test_waiting_knows_terminals(system: str) -> None:
    ours, theirs = os.openpty()
    try:
        assert ready({ours, theirs}, seconds=0) == set()
        os.write(theirs, b"x")
        assert ready({ours}, seconds=5) == {ours}
        os.write(ours, b"y\n")
        assert ready({theirs}, {ours}, 5) == {ours, theirs}
    finally:
        os.close(ours)
        os.close(theirs)


def test_waiting_takes_numbers_that_select_does_not(system: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1100:
        pytest.skip(f"only {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    out, into = os.pipe()
    os.dup2(out, 1050)
    try:
        os.write(into, b"x")
        assert ready({1050}, seconds=5) == {1050}
    finally:
        for number in (out, into, 1050):
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("soft", "hard", "now"), [(256, 4096, 612), (256, 300, 300), (1024, 4096, 1024)])
def test_the_limit_of_open_files_is_raised_for_many_hosts(soft: int, hard: int, now: int) -> None:
    code = (
        "import resource; from orchestrator.hosts.platform import room_for; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); room_for(64); "
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"({now}, {hard})\n"
