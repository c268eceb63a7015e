"""The crontab as text, cron's expressions, and what a firing does."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import Busy, ConfigError, OrchError, UsageError
from orchestrator.schedule import crontab, firing
from orchestrator.schedule.crontab import blocks, with_block, without_block
from orchestrator.schedule.entry import Entry, parse, program
from orchestrator.schedule.expression import check
from orchestrator.schedule.firing import Log, fire
from orchestrator.schedule.place import Last, Place

# ---- expressions

GOOD = [
    "30 2 * * *", "* * * * *", "*/5 * * * *", "0 0 1 1 *", "0,15,30-45/5 8-18 * * mon-fri", "0 4 * * 7",
    "0 4 29 2 *", "0 4 31 1,2 *", "5 4 * dec SUN", "0 0 30 2 1",
]  # fmt: skip
BAD = [
    "", "30 2 * *", "30 2 * * * *", "60 2 * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 13 *",
    "0 0 * * 8", "*/0 * * * *", "5-1 * * * *", "a * * * *", "1,,2 * * * *", "*-5 * * * *", "-1 * * * *",
    "0 0 30 2 *", "0 0 31 4,6 *", "1/ * * * *", "1.5 * * * *", "0 0 * foo *", "0 0 * * mond", "@nightly",
    "٣ * * * *",
]  # fmt: skip


@pytest.mark.parametrize("expression", GOOD)
def test_a_good_expression_stays(expression):
    assert check(f"  {expression.replace(' ', '   ')} ") == expression


@pytest.mark.parametrize("name", ["@daily", "@REBOOT", "@hourly"])
def test_nicknames(name):
    assert check(name) == name.lower()


@pytest.mark.parametrize("expression", BAD)
def test_a_bad_expression_is_one_line(expression):
    with pytest.raises(UsageError) as caught:
        check(expression)
    assert str(caught.value).startswith(f"--cron '{expression}': ")
    assert "\n" not in str(caught.value)


FIELDS = ((0, 59, ["3"]), (0, 23, ["22"]), (1, 31, ["30"]), (1, 12, ["feb", "2"]), (0, 7, ["MON", "sun-tue"]))


def field(low: int, high: int, words: list[str]) -> st.SearchStrategy[str]:
    number = st.integers(low - (low > 0), high + 1).map(str)
    span = st.builds("{}-{}".format, number, number)
    part = st.one_of(
        st.just("*"), st.sampled_from([*words, "*/2", "x"]), number, span, span.map("{}/3".format)
    )
    return st.one_of(st.just("*"), st.lists(part, min_size=1, max_size=2).map(",".join))


@given(st.tuples(*(field(*bounds) for bounds in FIELDS)))
def test_an_expression_is_judged_as_cronsim_judges_it(fields):
    cronsim = pytest.importorskip("cronsim")
    expression = " ".join(fields)
    try:
        next(cronsim.CronSim(expression, datetime(2026, 1, 1)))
        theirs = True
    except (cronsim.CronSimError, StopIteration):
        theirs = False
    try:
        ours = bool(check(expression))
    except UsageError:
        ours = False
    assert ours == theirs, expression


# ---- entries

WORDS = ("--hosts", "gpu01", "--", "python3", "train.py", "--name=50%", "it's", 'a "b"', "$HOME", "", "é")


def by_cron(line: str) -> str:
    """Return what crontab(5) hands to the shell: up to the first bare %, with \\% a %."""
    command = line.split(None, 5)[5]
    out, at = "", 0
    while at < len(command):
        if command.startswith("\\%", at):
            out, at = out + "%", at + 2
        elif command[at] == "%":
            return out
        else:
            out, at = out + command[at], at + 1
    return out


def test_the_line_gives_the_shell_the_words_as_they_are(tmp_path):
    folder = tmp_path / "100% mine"
    folder.mkdir()
    shown = tmp_path / "shown"
    shown.write_text(
        "#!/bin/sh\npwd\nprintf '%s\\n' \"$ORCH_ROOT\"\nfor w; do printf '<%s>\\n' \"$w\"; done\n"
    )
    shown.chmod(0o755)
    line = Entry("n", "30 2 * * *", str(folder), WORDS, {"ORCH_ROOT": "/a b/50%"}).line()
    command = by_cron(line).replace(shlex.join(program()), str(shown))
    said = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        str(folder),
        "/a b/50%",
        *(f"<{w}>" for w in ("schedule", "run", "n", *WORDS)),
    ]


@given(
    st.lists(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"])), max_size=4),
    st.sampled_from(["30 2 * * *", "@daily"]),
    st.dictionaries(st.sampled_from(["ORCH_ROOT", "XDG_STATE_HOME"]), st.text("ab %'", min_size=1)),
)
def test_a_line_is_read_back_as_it_was_written(words, cron, environ):
    entry = Entry("n", cron, "/home/ana/a %b", tuple(words), environ)
    assert parse("n", entry.line()) == entry


@pytest.mark.parametrize(
    "line", ["", "30 2 * * * echo hi", "MAILTO=x", "30 2 * * * cd '/x", "* * * * * cd /x; y"]
)
def test_a_line_that_a_person_changed_is_not_guessed_at(line):
    assert parse("n", line) is None


def test_a_line_break_is_refused():
    with pytest.raises(UsageError, match="line break"):
        Entry("n", "@daily", "/x", ("a\nb",)).line()


def test_the_program_is_called_by_absolute_paths():
    words = program()
    assert words[0] == "env" or words[0].startswith("/")
    said = subprocess.run(
        [*words, "--version"],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.startswith("orch")


# ---- the table

FOREIGN = st.binary(max_size=60).filter(lambda table: b"orch" not in table)


@given(FOREIGN, st.lists(st.sampled_from(["a", "b", "a.b", "c-1"]), unique=True, max_size=4))
def test_foreign_lines_are_kept_byte_for_byte(table, names):
    whole = table
    for name in names:
        whole = with_block(whole, name, f"@daily {name}")
    assert whole.startswith(table)
    assert blocks(whole) == {name: f"@daily {name}" for name in names}
    for name in reversed(names):
        whole = without_block(whole, name)
    glue = b"\n" if names and table and not table.endswith(b"\n") else b""
    assert whole == table + glue


def test_a_block_in_the_middle_goes_and_its_neighbours_stay():
    above = b"# mine\r\n\t* * * * *  x   y\n"
    below = b"\xff\xfe\n# BEGIN orch b\n@daily b\n# END orch b\nlast"
    table = above + b"# BEGIN orch a\n@daily a\n# END orch a\n" + below
    assert without_block(table, "a") == above + below
    assert without_block(table, "c") == table


def test_a_block_without_its_end_is_told_and_nothing_is_lost():
    table = b"# BEGIN orch a\n@daily a\n* * * * * foreign\n# BEGIN orch b\n@daily b\n# END orch b\n"
    with pytest.raises(ConfigError, match="# BEGIN orch a has no # END"):
        blocks(table)


def fake_crontab(folder: Path, monkeypatch, body: str) -> None:
    path = folder / "bin/crontab"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


def test_no_crontab_yet_is_an_empty_one(tmp_path, monkeypatch):
    fake_crontab(tmp_path, monkeypatch, "echo 'no crontab for ana' >&2; exit 1")
    assert crontab.read() == b""


def test_a_crontab_that_may_not_be_read_is_never_taken_for_an_empty_one(tmp_path, monkeypatch):
    fake_crontab(tmp_path, monkeypatch, "echo 'You (ana) are not allowed to use this program' >&2; exit 1")
    with pytest.raises(OrchError, match="not allowed to use this program"):
        crontab.read()
    with pytest.raises(OrchError, match="not allowed to use this program"):
        crontab.write(b"x\n")


def test_a_machine_without_crontab(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OrchError, match="there is no crontab on this machine"):
        crontab.read()


# ---- firings

SHELL = ["/bin/sh", "-c"]


@pytest.fixture
def place(tmp_path):
    return Place({"XDG_STATE_HOME": str(tmp_path)}, "nightly")


def nothing(_data: bytes) -> None:
    """Nobody watches."""


@pytest.fixture
def typed():
    """Something to read on stdin, as on a terminal."""
    saved, (there, here) = os.dup(0), os.pipe()
    os.write(here, b"typed\n")
    os.dup2(there, 0)
    yield
    os.dup2(saved, 0)
    for number in (saved, there, here):
        os.close(number)


@pytest.mark.usefixtures("typed")
def test_a_firing_logs_all_output_with_dates_and_remembers_its_status(place):
    fired = fire(place, "nightly", [*SHELL, "echo out; echo err >&2; read x; echo read=$?; exit 3"], nothing)
    assert (fired.status, fired.last_words) == (3, "read=1")
    lines = place.log.read_text().splitlines()
    assert lines[1:4] == ["out", "err", "read=1"]
    assert re.fullmatch(r"=== \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} nightly starts", lines[0])
    assert "nightly ended with status 3 after 0 s" in lines[4]
    last = place.last()
    assert last is not None
    assert last.status == 3
    assert last.started <= last.ended


def test_a_signal_is_128_and_its_number(place):
    assert fire(place, "nightly", [*SHELL, "kill -TERM $$"], nothing).status == 143


def test_a_second_firing_is_busy_and_changes_nothing(place):
    with place.held():
        with pytest.raises(Busy, match="nightly: the last one still runs") as caught:
            fire(place, "nightly", [*SHELL, "echo never"], nothing)
        assert caught.value.exit_code == 75
        assert not place.log.exists()
    assert fire(place, "nightly", [*SHELL, "true"], nothing).status == 0


def test_what_a_firing_leaves_behind_does_not_hold_the_lock(place, tmp_path):
    pid = tmp_path / "pid"
    script = f"sleep 60 </dev/null >/dev/null 2>&1 & echo $! > {pid}"
    fire(place, "nightly", [*SHELL, script], nothing)
    left = int(pid.read_text())
    try:
        os.kill(left, 0)  # it lives
        assert fire(place, "nightly", [*SHELL, "true"], nothing).status == 0
    finally:
        os.kill(left, 9)


def test_the_lock_is_free_after_a_firing_was_killed(place, tmp_path):
    code = (
        "import sys; from orchestrator.schedule.place import Place\n"
        f"with Place({{'XDG_STATE_HOME': {str(tmp_path)!r}}}, 'nightly').held():\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Busy), place.held():
            pass
        holder.kill()
    with place.held():
        pass


def test_the_log_is_bounded(place, tmp_path, monkeypatch):
    monkeypatch.setattr(firing, "LIMIT", 1000)
    path = tmp_path / "x.log"
    log = Log(path)
    for i in range(100):
        log.write(b"%04d " % i * 10 + b"\n")
    log.close()
    older = path.with_name("x.log.1")
    assert path.stat().st_size <= 1000
    assert older.stat().st_size <= 1000
    assert path.read_bytes().endswith(b"0099 \n")
    assert log.last_words.startswith("0099")


def test_a_state_folder_that_cant_be_written_is_one_line(tmp_path):
    (tmp_path / "orch").write_text("a file\n")
    with pytest.raises(OrchError, match="can't write"), Place({"XDG_STATE_HOME": str(tmp_path)}, "n").held():
        pass


def test_what_is_kept_of_the_last_firing_survives_nonsense(place):
    assert place.last() is None
    with place.held():
        place.remember(Last(1.0, 2.0, 0))
    assert place.last() == Last(1.0, 2.0, 0)
    place.log.with_name("nightly.json").write_text("{")
    assert place.last() is None
