"""Large files over real SSH that is cut: they go on by themselves, both ways, over both transports."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.until import until

from .lab import Host
from .orch import Orch
from .test_files import cut_sessions

SIZE = 300_000_000
THERE = "home/ana/big"


@pytest.fixture(autouse=True)
def nothing_left(gpu01: Host) -> Iterator[None]:
    yield
    gpu01.run("rm -rf /home/ana/big*", check=False)


def largest(folder: Path) -> Callable[[], bool]:
    """Whether a part of a file in a folder has grown to a third of all."""

    def grown() -> bool:
        parts = [p for p in folder.rglob("*") if ".orch-part-" in str(p) and p.is_file()]
        return any(SIZE // 3 < p.stat().st_size < SIZE for p in parts)

    return grown


def ended(going: subprocess.Popen[str]) -> str:
    _, said = going.communicate(timeout=120)
    assert going.returncode == 0, said
    return said


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_a_large_file_comes_and_goes_across_a_cut(
    orch: Orch, gpu01: Host, tmp_path: Path, transport: str
) -> None:
    over, content = orch.having(ORCH_TRANSPORT=transport), os.urandom(SIZE)
    (tmp_path / "big").write_bytes(content)
    going = over.start("cp", tmp_path / "big", "gpu01:big")
    until(largest(gpu01.disk / "home/ana"), "a third of it there", 60)
    cut_sessions(gpu01)
    assert "connected again, going on" in ended(going)
    assert (gpu01.disk / THERE).read_bytes() == content
    back = tmp_path / "back"
    back.mkdir()
    coming = over.start("cp", "gpu01:big", back)
    until(largest(back), "a third of it here", 60)
    cut_sessions(gpu01)
    assert "connected again, going on" in ended(coming)
    assert [p.name for p in back.iterdir()] == ["big"]
    assert (back / "big").read_bytes() == content


def test_what_may_not_be_read_is_named_and_the_rest_comes(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    gpu01.run("mkdir big && echo 1 > big/a && echo 2 > big/b", user="ana")
    gpu01.run("chown root /home/ana/big/b && chmod 600 /home/ana/big/b")
    said = orch("cp", "gpu01:big", tmp_path / "got", code=1).stderr
    assert said.splitlines()[-1] == ("gpu01   not fetched: b (tar: ./b: Cannot open: Permission denied)")
    assert (tmp_path / "got" / "a").read_text() == "1\n"
