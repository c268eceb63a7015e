"""What is asked of the machine and the account: the parser, and the script in real shells."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import time
from pathlib import Path

import pytest

from orchestrator.facts.disk import Disk
from orchestrator.facts.question import Section
from orchestrator.facts.system import SYSTEM, Python, SystemReport, parse

from .shells import BUSYBOX, SHELLS, ask, only_busybox, program

TEXT = """\
time\t1796054273.820943710
hostname\tgpu01
arch\tx86_64
kernel\t5.10.0-21-amd64
os-name\tUbuntu 20.04.6 LTS
os-id\tubuntu
os-version\t20.04
glibc\tglibc 2.31
boot-id\t815df4d8-b513-439b-a292-fca4cee7de86
uid\t1500
gid\t1500
user\tana
groups\tana docker
home\t/home/ana
shell\t/usr/bin/fish
cpus\t64
cpu-flags\tfpu sse2 avx avx2
memory\t263921664
memory-available\t131960832
root\t/data/orch
disk\t/data/orch\t961301832\t641000000\t60000000
tool\ttar
tool\tflock
python\t3.8.10
python-found\t/usr/bin/python3\t/usr/bin/python3.8\t3.8.10\tno
python-found\t/usr/bin/python3.8\t/usr/bin/python3.8\t3.8.10\tno
python-found\t/home/ana/.pyenv/versions/3.10.13/bin/python3\t/x/python3.10\t3.10.13\tyes
port\t0016
port\t08AE
kill-user-processes\tyes
linger\tno
selinux\t
"""


def report(text: str = TEXT) -> SystemReport:
    return parse(Section(text, 0))


def test_every_value_of_a_host() -> None:
    found = report()
    assert (found.uid, found.gid, found.user, found.groups) == (1500, 1500, "ana", ("ana", "docker"))
    assert (found.arch, found.avx, found.cpus, found.memory_mb) == ("x86_64", True, 64, 257736)
    assert (found.os_name, found.os_id, found.glibc) == ("Ubuntu 20.04.6 LTS", "ubuntu", "2.31")
    assert found.root_disk == Disk("/data/orch", 938771, 625976, 60000000)
    assert found.ports == {22, 2222}
    assert found.tools == {"tar", "flock"}
    assert found.time == pytest.approx(1796054273.82, abs=0.01)
    assert (found.kill_user_processes, found.linger, found.selinux) == (True, False, None)


def test_pythons_stand_once_and_newest_first() -> None:
    assert report().pythons == (
        Python("/home/ana/.pyenv/versions/3.10.13/bin/python3", (3, 10, 13), venv=True),
        Python("/usr/bin/python3", (3, 8, 10), venv=False),
    )


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("glibc\tglibc 2.31", "glibc", None),  # musl has no getconf GNU_LIBC_VERSION
        ("cpu-flags\tfpu sse2 avx avx2", "avx", None),
        ("memory\t263921664", "memory_mb", None),
        ("kill-user-processes\tyes", "kill_user_processes", None),
        ("time\t1796054273.820943710", "time", None),
        ("disk\t/data/orch\t961301832\t641000000\t60000000", "root_disk", None),
    ],
)
def test_what_a_host_does_not_tell_is_not_known(line: str, field: str, value: object) -> None:
    key = line.split("\t", maxsplit=1)[0]
    assert getattr(report(TEXT.replace(line, f"{key}\t")), field) is value
    assert getattr(report(TEXT.replace(line, "")), field) is value


def test_texts_of_other_systems() -> None:
    assert report(TEXT.replace("avx avx2", "")).avx is False
    assert report(TEXT.replace("x86_64", "aarch64")).avx is None
    assert report(TEXT.replace("273.820943710", "273.%N")).time == 1796054273
    btrfs = report(TEXT.replace("\t60000000", "\t-"))
    assert btrfs.root_disk is not None
    assert btrfs.root_disk.inodes_free is None


@pytest.mark.parametrize("shell", SHELLS, ids=[s[0] for s in SHELLS])
class TestScript:
    def ask(
        self, shell: list[str], *, root: str, engine: str = "docker", path: str = "", **env: str
    ) -> SystemReport:
        return ask(
            SYSTEM, shell, path=f"{path}:/usr/bin:/bin", values={"root": root, "engine": engine}, **env
        )

    def test_this_machine_and_account(self, shell: list[str], tmp_path: Path) -> None:
        before = time.time()
        found = self.ask(shell, root=str(tmp_path))
        assert (found.uid, found.gid, found.arch) == (os.getuid(), os.getgid(), platform.machine())
        assert found.cpus == len(os.sched_getaffinity(0)) or found.cpus == os.cpu_count()
        assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert found.time is not None
        assert before - 1 < found.time < time.time() + 1
        assert found.memory_mb
        assert "tar" in found.tools
        assert found.pythons == ()

    def test_a_root_that_does_not_exist_yet(self, shell: list[str], tmp_path: Path) -> None:
        found = self.ask(shell, root="~/a/b c/'d'", HOME=str(tmp_path))
        assert found.root == f"{tmp_path}/a/b c/'d'"
        assert found.root_disk is not None
        assert abs(found.root_disk.free_mb - shutil.disk_usage(tmp_path).free // 2**20) < 2000
        assert not (tmp_path / "a").exists()

    def test_listening_ports(self, shell: list[str], tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            assert port in self.ask(shell, root=str(tmp_path)).ports
        assert port not in self.ask(shell, root=str(tmp_path)).ports

    def test_pythons_that_can_and_that_can_not_make_a_venv(self, shell: list[str], tmp_path: Path) -> None:
        real = shutil.which("python3", path="/usr/bin:/bin")
        if not real:
            pytest.skip("no python3 in /usr/bin")
        bin_ = tmp_path / "bin"
        program(bin_, "python3.9", 'printf "python-found\\t$4\\t/x/3.9\\t3.9.1\\tno\\n"')
        program(bin_, "python3.8", "exit 1")
        found = self.ask(shell, root="/tmp", engine="venv", path=str(bin_), HOME=str(tmp_path)).pythons
        by_version = {p.version[:2]: p for p in found}
        assert by_version[3, 9] == Python(str(bin_ / "python3.9"), (3, 9, 1), venv=False)
        assert (3, 8) not in by_version
        assert any(p.path.startswith(("/usr/bin/python3", "/bin/python3")) for p in found)


@pytest.mark.skipif(not BUSYBOX, reason="busybox is not installed here")
def test_with_nothing_but_busybox(tmp_path: Path) -> None:
    shell, path = only_busybox(tmp_path / "busybox")
    found = ask(SYSTEM, shell, path=path, values={"root": "~/.orch", "engine": "docker"}, HOME=str(tmp_path))
    assert (found.uid, found.root) == (os.getuid(), f"{tmp_path}/.orch")
    assert found.root_disk is not None
    assert found.time is not None
    assert found.cpus
