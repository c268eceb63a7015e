"""Scripts whose caller is gone: what they say has nowhere to go (SIGPIPE), and their stdin ends early."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from orchestrator.container.inputs import Inputs
from orchestrator.container.start import start_script
from orchestrator.container.turn import LOCK
from orchestrator.hosts.command import quote
from orchestrator.hosts.files import put
from orchestrator.render import render
from tests.unit.deploys import IDENTITY, host, plan
from tests.unit.here import MACHINE, Here, HereStream, machine_of, unheard
from tests.unit.shells import program

TOOLS = [
    "awk",
    "base64",
    "cat",
    "chmod",
    "chown",
    "cut",
    "date",
    "df",
    "du",
    "env",
    "find",
    "flock",
    "grep",
    "head",
]
TOOLS += [
    "id",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "printf",
    "rm",
    "rmdir",
    "sed",
    "setsid",
    "sh",
    "sleep",
    "sort",
]
TOOLS += ["wc", "stat", "sync", "tail", "tar", "timeout", "touch", "tr", "true", "uname"]

ENGINE = """\
# An engine that knows its containers and images by files.
at=$ENGINE; mkdir -p "$at/c" "$at/i"
echo "$*" >> "$at/said"
case "$1 $2" in
    "run "*|"create "*)
        while [ $# -gt 0 ]; do [ "$1" != --cidfile ] || echo made > "$2"; shift; done
        touch "$at/c/made"; echo made ;;
    "rm "*) for name; do rm -f "$at/c/$name"; done ;;
    "inspect "*) echo "exited 1" ;;
    "image inspect") echo id ;;
    "exec "*) exit 1 ;;
    "cp "*) cd "$at" && tar -cf - said ;;
    "tag "*) touch "$at/i/$3" ;;
    "image rm") shift 2; for name; do rm "$at/i/$name"; done ;;
    "images "*) ls "$at/i" ;;
    "build "*) pwd > "$at/built"; cat > /dev/null; echo built ;;
esac
"""


@pytest.fixture(params=["sh", "dash", "busybox"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    made = machine_of(request.param, tmp_path, TOOLS)
    made.env |= {"ENGINE": str(tmp_path / "engine"), "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    return made


@pytest.fixture
def engine(tmp_path: Path) -> tuple[str, ...]:
    return (str(program(tmp_path / "bin", "engine", ENGINE)),)


@pytest.fixture
def place(machine: Here) -> Path:
    """A project's folder in which `t0ken` has the turn."""
    place = Path(machine.env["HOME"]) / "it's mnist"
    (place / "hosts" / MACHINE).mkdir(parents=True)
    (place / "hosts" / MACHINE / LOCK).write_text("t0ken 1796054273 b1 deploy by ana@laptop\n")
    return place


@pytest.mark.parametrize("locks", [True, False])
def test_a_turn_that_nobody_hears_of_is_given_back(
    machine: Here, place: Path, tmp_path: Path, locks: bool
) -> None:
    here = place / "hosts" / MACHINE
    (here / LOCK).write_text("")
    if not locks:
        program(tmp_path / "bin", "flock", "exit 71\n")
        machine.env["PATH"] = f"{tmp_path}/bin:{machine.env['PATH']}"
    text = render(
        "container/turn.sh.j2",
        place=str(place),
        lock=LOCK,
        token="t",
        words="deploy by a@b",
        patience=1,
        undo="",
    )
    unheard(machine, text)
    assert (here / LOCK).read_text() == ""
    assert not (here / f"{LOCK}.d").exists()


@pytest.mark.parametrize("sent", [b"", b"no archive", b"\0" * 512])
def test_work_that_was_to_be_brought_leaves_nothing(machine: Here, place: Path, sent: bytes) -> None:
    text = render("run/work_in.sh.j2", place=quote(str(place)), staged=".staged-1", needed_kb=1)
    unheard(machine, text, sent)
    assert list((place / "runs").iterdir()) == []


def test_a_container_that_does_not_start_is_taken_back(
    machine: Here, engine: tuple[str, ...], place: Path
) -> None:
    planned = plan(host())
    text = start_script(planned, IDENTITY, Inputs(), engine, "e1", "t0ken").text
    unheard(machine, text.replace(f"place={planned.spec.place}\n", f"place={quote(str(place))}\n"))
    said = (Path(machine.env["ENGINE"]) / "said").read_text()
    assert "\nexec made" in said
    assert list((Path(machine.env["ENGINE"]) / "c").iterdir()) == []
    assert list(Path(machine.env["TMPDIR"]).iterdir()) == []


def test_looking_into_an_image_leaves_no_container(machine: Here, engine: tuple[str, ...]) -> None:
    text = render("container/packages.sh.j2", engine=engine, tag="t:1", packages="/packages.txt")
    unheard(machine, text.replace("|| exit 1\nmade", "; made"))  # else it ends before there is one
    assert "rm made" in (Path(machine.env["ENGINE"]) / "said").read_text()
    assert list((Path(machine.env["ENGINE"]) / "c").iterdir()) == []


def build(engine: tuple[str, ...], **values: object) -> str:
    given = {"staged": "", "stale": "", "base": "", "file": "", **values}
    return render("container/build.sh.j2", engine=engine, tag="t:1", labels=[], args=[], **given)


def test_a_build_leaves_no_folder(machine: Here, engine: tuple[str, ...]) -> None:
    unheard(machine, build(engine, file="Dockerfile"), b"\n")
    where = Path((Path(machine.env["ENGINE"]) / "built").read_text().strip())
    assert where.parent == Path(machine.env["TMPDIR"])
    assert not where.exists()


def test_what_builds_left_that_were_killed_goes_with_the_next(machine: Here, engine: tuple[str, ...]) -> None:
    """Between the build of a team's own image and its name, which only who sent all of it gives."""
    images = Path(machine.env["ENGINE"]) / "i"
    images.mkdir(parents=True)
    base, stale = "ana-base:0123456789ab", "(^|/)ana-base:[0-9a-f]+-[0-9a-f]{8}$"
    others = [
        "ana-base:ba9876543210",
        "ana-base:ba9876543210-locked",
        "bob-ana-base:01-01234567",
        "ana:0-01234567",
    ]
    for name in (*others, f"{base}-01234567", "ana-base:ba9876543210-89abcdef", f"{base}-00000000"):
        (images / name).touch()
    text = build(engine, staged=f"{base}-00000000", stale=stale, base=base, **{"from": base})
    unheard(machine, text, b"\n")
    assert sorted(p.name for p in images.iterdir()) == sorted([*others, base])


def test_a_prune_that_breaks_off_leaves_whole_runs_and_no_dangling_link(machine: Here, place: Path) -> None:
    runs = place / "runs"
    for run in ("1", "2", "3"):
        (runs / run / "gpu01").mkdir(parents=True)
        (runs / run / "spec.json").write_text(json.dumps({"bundle": "b"}))
    (runs / "latest").symlink_to("1")
    for name, age in ((".staged-old", 2), (".staged-new", 0), (".withdrawn-old", 2)):
        (runs / name).mkdir()
        os.utime(runs / name, (time.time() - age * 86400,) * 2)
    text = render(
        "run/prune.sh.j2",
        place=quote(str(place)),
        runs=["1", "2"],
        spared=60,
        by="a@b",
        token="t0ken",
        turn=LOCK,
    )
    assert unheard(machine, text) != 0
    assert sorted(p.name for p in runs.iterdir()) == [".staged-new", "2", "3", "latest"]
    assert (runs / "latest").resolve().name in ("2", "3")
    assert [line.split()[2:] for line in (place / "audit.log").read_text().splitlines()] == [["prune", "1"]]


def test_a_file_that_did_not_come_whole_is_not_there(
    machine: Here, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(self: HereStream, data: bytes) -> None:
        self.stdout.close()
        self.stdin.write(data[:4])
        self.stdin.close()
        self.process.wait(timeout=60)
        raise KeyboardInterrupt

    monkeypatch.setattr(HereStream, "write", cut)
    with pytest.raises(KeyboardInterrupt):
        put(machine, b"all of it", str(place / "file"), 0o600)
    assert not list(place.glob("file*"))
