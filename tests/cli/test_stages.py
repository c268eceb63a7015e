"""What a deploy shows of its builds: live lines on a terminal, a line per step elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from orchestrator.cli.app import App
from orchestrator.cli.stages import Stages

SENT = "  sending the build context: 1 MB of 2 MB"
SAID = (
    "build orch/ana-mnist:1",
    "  Step 1/2 : FROM x",
    "   ---> 1",
    SENT,
    "  Step 2/2 : RUN y",
    "  hello",
    "note: z",
)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(App, "say", staticmethod(lines.append))
    return lines


def test_elsewhere_each_step_is_a_line(said: list[str]) -> None:
    tell = Stages(App(), None).teller("gpu01")
    for line in SAID:
        tell(line)
    assert said == [
        "gpu01   build orch/ana-mnist:1",
        "gpu01   step 1/2  FROM x",
        "gpu01   step 2/2  RUN y",
        "gpu01   note: z",
    ]


def test_on_a_terminal_a_host_has_one_line_that_is_drawn_anew(said: list[str]) -> None:
    screen = io.StringIO()
    stages = Stages(App(), screen)
    tell, other = stages.teller("gpu01"), stages.teller("gpu02")
    tell("build orch/ana-mnist:1")
    stages.draw()
    tell(SENT)
    stages.draw()
    tell("  Step 2/2 : RUN y")
    other("pull tf:1")
    stages.draw()
    stages.done("gpu01")
    with stages.aside():
        screen.write("gpu01   ready\n")
    stages.draw()
    drawn = re.sub(r" +\d s", " N s", screen.getvalue())
    assert drawn == (
        "gpu01 N s   build orch/ana-mnist:1\n"
        "\x1b[1A\x1b[Jgpu01 N s   sending the build context: 1 MB of 2 MB\n"
        "\x1b[1A\x1b[Jgpu01 N s   step 2/2  RUN y\ngpu02 N s   pull tf:1\n"
        "\x1b[2A\x1b[Jgpu01   ready\n"
        "gpu02 N s   pull tf:1\n"
    )
    assert said == []


def test_a_line_never_wraps(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    screen = io.StringIO()
    stages = Stages(App(), screen)
    stages.teller("gpu01")("build orch/a-very-long-name-of-an-image:1")
    stages.draw()
    assert len(screen.getvalue()) == 30


def test_what_must_be_read_stays(said: list[str]) -> None:
    stages = Stages(App(), io.StringIO())
    stages.teller("gpu01")("note: nobody can log in")
    assert said == ["gpu01   note: nobody can log in"]
