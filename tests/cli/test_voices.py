"""Lines of several hosts: when they are shown, and which of them are shown once for many hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from orchestrator.cli import voices as room
from orchestrator.cli.voices import HOLD, Voices
from tests.cli.test_streams import alive, environment
from tests.until import until


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(room, "time", clock)
    return clock


@pytest.fixture
def voices() -> Iterator[Voices]:
    with ExitStack() as files:
        yield Voices(["gpu01", "gpu02", "gpu03"], files)


def test_a_line_is_shown_after_two_seconds_and_once_for_all_who_said_it(
    voices: Voices, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    voices.add("gpu03", b"one\ntw")
    clock.now = HOLD - 0.1
    voices.add("gpu01", b"one\n")
    voices.show_in_time()
    assert capsys.readouterr() == ("", "")
    clock.now = HOLD
    voices.show_in_time()
    assert capsys.readouterr() == ("gpu01,gpu03: one\n", "")
    voices.show_in_time()

    voices.add("gpu03", b"o\nthree")
    clock.now = 2 * HOLD
    voices.show_in_time()
    assert capsys.readouterr() == ("gpu03: two\n", "")
    voices.end("gpu03", 0)
    voices.show()
    assert capsys.readouterr() == ("gpu03: three\n", "")
    voices.show()
    assert capsys.readouterr() == ("", "")


def test_one_that_has_ended_is_shown_with_those_that_said_the_same(
    voices: Voices, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("gpu01", "gpu02", "gpu03"):
        voices.add(host, b"up\n", b"well\n")
    voices.end("gpu02", 0)
    voices.show()
    assert capsys.readouterr() == ("gpu[01-03]: up\n", "gpu[01-03]: well\n")
    voices.end("gpu01", 3)
    voices.end("gpu03", 3)
    voices.show()
    voices.show()
    assert capsys.readouterr() == ("", "orch: gpu01,gpu03: exit status 3 is the command's\n")
    assert voices.failed


def test_more_than_fits_into_memory_comes_whole(
    voices: Voices, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = b"".join(b"%d\n" % n for n in range(400_000))
    for at in range(0, len(text), 65_536):
        voices.add("gpu01", text[at : at + 65_536])
        if at == 20 * 65_536:
            voices.show()
    voices.end("gpu01", 0)
    voices.show()
    assert capfdbinary.readouterr().out.replace(b"gpu01: ", b"") == text


def started(folder: Path, line: str) -> subprocess.Popen[str]:
    (folder / "hosts.ini").write_text("[here]\nh[1:2] ansible_connection=local\n")
    words = ["exec", "--on-host", "here", "--", "sh", "-c", line]
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_line_comes_while_the_command_runs(tmp_path: Path) -> None:
    with started(
        tmp_path, f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo over"
    ) as process:
        assert process.stdout
        first = process.stdout.readline()
        (tmp_path / "go").touch()
        rest = process.stdout.read()
    assert first.endswith(": begun\n")
    assert process.returncode == 0
    assert rest.count("over") in (1, 2)  # both at once, or one later than the other


def test_who_reads_no_more_ends_the_commands(tmp_path: Path) -> None:
    line = f"trap '' PIPE; echo $$ > {tmp_path}/pid.$$; while sleep 0.1; do echo tick 2>/dev/null; done"
    with started(tmp_path, line) as process:
        assert process.stdout
        assert process.stdout.readline().endswith(": tick\n")
        process.stdout.close()
    until(lambda: not any(alive(path.suffix[1:]) for path in tmp_path.glob("pid.*")), "their end")
