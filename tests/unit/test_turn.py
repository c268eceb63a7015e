"""Turns on the host: a change alone, launches together, neither while the other."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import threading
import time
from pathlib import Path

import pytest

from orchestrator.container import turn as room
from orchestrator.container.ready import NoEnvironment
from orchestrator.container.turn import LOCK, turn
from orchestrator.errors import Busy, HostError
from orchestrator.hosts.command import Script
from orchestrator.render import render
from tests.unit.here import MACHINE
from tests.unit.run_place import Place, place
from tests.until import until

__all__ = ["place"]  # a fixture

NO_LOCKS = "#!/bin/sh\necho 'flock: 9: No locks available' >&2\nexit 71\n"


def free(place: Place) -> bool:
    with (place.here / LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs in front of the machine's. Nobody sleeps for a second between two tries."""
    tools = tmp_path / "impatient"
    tools.mkdir()
    (tools / "sleep").write_text("#!/bin/sh\n[ $1 = 1 ] || exec /bin/sleep $1\n")
    (tools / "sleep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tools


def without_locks(tools: Path) -> None:
    (tools / "flock").write_text(NO_LOCKS)
    (tools / "flock").chmod(0o755)


@pytest.mark.parametrize("locks", [True, False])
def test_a_change_has_its_turn_alone_and_gives_it_back(place: Place, tools: Path, locks: bool) -> None:
    if not locks:
        without_locks(tools)
    heard: list[str] = []
    with turn(place.machine, str(place.folder)):
        assert not locks or not free(place)
        with pytest.raises(Busy, match=r"a deploy by \S+@\S+ \(begun \d+ s ago\) is going on"):
            with turn(place.machine, str(place.folder), told=heard.append):
                pass
    assert re.fullmatch(r"wait for the end of a deploy by \S+@\S+ \(begun \d+ s ago\)", heard[0])
    assert len(heard) == 1
    until(lambda: (place.here / LOCK).read_text() == "")
    with turn(place.machine, str(place.folder), what="down"):
        assert " down by " in (place.here / LOCK).read_text()
    until(lambda: not (place.here / f"{LOCK}.d").exists())


def test_a_turn_that_is_waited_for_comes(place: Place, tools: Path) -> None:
    (tools / "sleep").unlink()
    first = turn(place.machine, str(place.folder))
    first.__enter__()
    heard: list[str] = []

    def told(line: str) -> None:
        heard.append(line)
        first.__exit__(None, None, None)

    with turn(place.machine, str(place.folder), told=told):
        assert heard


def test_a_change_that_has_only_just_begun_is_named_too(place: Place, tools: Path) -> None:
    said = shlex.quote(f"token {int(time.time())} - deploy by ana@laptop")
    name = f"echo {said} > {shlex.quote(str(place.here / LOCK))}"
    (tools / "sleep").write_text(f"#!/bin/sh\n[ $1 = 1 ] || exec /bin/sleep $1\n{name}\n")
    heard: list[str] = []
    with (place.here / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Busy), turn(place.machine, str(place.folder), told=heard.append):
            pass
    assert [re.sub(r"\d+ s", "N s", line) for line in heard] == [
        "wait for the end of a deploy by ana@laptop (begun N s ago)"
    ]


def test_launches_are_told_from_changes(place: Place) -> None:
    with turn(place.machine, str(place.folder)):
        pass
    until(lambda: free(place))
    with (place.here / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with pytest.raises(Busy, match="a launch is going on"):
            with turn(place.machine, str(place.folder)):
                pass


def test_a_change_that_is_broken_off_is_undone_once_its_start_is_over(place: Place) -> None:
    undone = place.folder / "undone"
    undo = Script("undo", f"echo undone >> {shlex.quote(str(undone))}")
    with turn(place.machine, str(place.folder), undo):
        pass
    until(lambda: free(place))
    assert not undone.exists()

    with (place.here / f"{LOCK}.start").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        # as a cut line does: the stream ends, and nobody says `done`
        broken = turn(place.machine, str(place.folder), undo)
        token = broken.__enter__()
        assert shown(place, token) == 0
        broken.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        until(lambda: (place.here / LOCK).read_text() == "")
        assert not free(place)
        assert not undone.exists()
    until(undone.exists)
    until(lambda: free(place))
    assert shown(place, token) == 1


def shown(place: Place, token: str) -> int:
    """The status of a script of a change that shows its token; what else it waits for is left out."""
    text = render("container/held.sh.j2", turn=LOCK, token=token).replace("flock 7 2>/dev/null", "")
    line = f"here={shlex.quote(str(place.here))}\n{text}"
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False).returncode


def test_one_that_is_heard_keeps_its_turn_and_one_that_is_not_loses_it(
    place: Place, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`timeout` here ends after three seconds what is to be ended after a minute."""
    (tools / "timeout").write_text('#!/bin/sh\n[ "$3" = 60 ] || exec /usr/bin/timeout "$@"\n'
                                   'shift 3\nexec /usr/bin/timeout -s KILL 3 "$@"\n')  # fmt: skip
    (tools / "timeout").chmod(0o755)
    monkeypatch.setattr(room, "HEARTBEAT", 0.2)
    undone = place.folder / "undone"
    undo = Script("undo", f"echo > {shlex.quote(str(undone))}")
    with turn(place.machine, str(place.folder), undo) as token:
        time.sleep(6.5)  # more than twice what silence may last
        assert shown(place, token) == 0
        assert not undone.exists()
    until(lambda: free(place))
    assert not undone.exists()
    monkeypatch.setattr(room, "HEARTBEAT", 600.0)
    with turn(place.machine, str(place.folder), undo) as token:
        until(undone.exists)
        assert shown(place, token) == 1
    until(lambda: free(place))


@pytest.mark.parametrize(("boot", "minutes", "taken"), [(True, 0, True), (True, 3, False), (False, 0, False)])
def test_what_was_left_behind_where_there_are_no_locks(
    place: Place, tools: Path, boot: bool, minutes: int, taken: bool
) -> None:
    without_locks(tools)
    now = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    began = time.time() - 60 * minutes
    (place.here / LOCK).write_text(f"t {began:.0f} {now if boot else 'another'} deploy by bob@desk\n")
    (place.here / f"{LOCK}.d").mkdir()
    os.utime(place.here / f"{LOCK}.d", (began, began))
    if taken:
        with pytest.raises(Busy, match="a deploy by bob@desk"):
            with turn(place.machine, str(place.folder)):
                pass
        with pytest.raises(Busy, match="a deploy by bob@desk"):
            place.launch("true")
    else:
        with turn(place.machine, str(place.folder)):
            pass


def test_where_no_turn_can_be_had(place: Place) -> None:
    file = place.root / "file"
    file.touch()
    with pytest.raises(HostError, match=r"gpu01: .*[Nn]ot a directory"):
        with turn(place.machine, f"{file}/p"):
            pass


def test_what_the_shell_says_of_a_lock_that_can_not_be_written_begins_with_what_is_wrong(
    place: Place,
) -> None:
    lock = place.folder / "hosts" / MACHINE / LOCK
    lock.unlink(missing_ok=True)
    lock.mkdir(parents=True)
    with pytest.raises(HostError, match=r"^gpu01: (?!\S*sh: ).*[Ii]s a directory"):
        with turn(place.machine, str(place.folder)):
            pass


def test_nothing_is_launched_during_a_change(place: Place) -> None:
    with turn(place.machine, str(place.folder)):
        with pytest.raises(Busy, match=r"a deploy by .*@.* \(begun \d+ s ago\) is going on"):
            place.launch("true")
        assert not (place.folder / "runs").exists()
    assert place.launch("sleep", "60").state["state"] == "running"


def test_a_run_keeps_no_turn(place: Place) -> None:
    with turn(place.machine, str(place.folder)):
        pass
    place.launch("sleep", "60")
    assert free(place)


@pytest.mark.parametrize("gone", [True, False])
def test_a_launch_that_waited_finds_what_is_there_then(place: Place, tools: Path, gone: bool) -> None:
    waits, env = place.root / "waits", shlex.quote(str(place.here / "environment.sh"))
    changed = f"sed 's/^orch_env=.*/orch_env=another/' {env} > {env}.n && mv {env}.n {env}"
    program = f"[ $1 = 1 ] || exec /bin/sleep $1\ntouch '{waits}'\nexec /bin/sleep 1\n"
    (tools / "sleep").write_text(f"#!/bin/sh\n{program}")
    said: list[object] = []

    def train() -> None:
        try:
            said.append(place.launch("true", watch=20).spec.orch_env)
        except NoEnvironment as error:
            said.append(type(error))

    with turn(place.machine, str(place.folder)):
        launch = threading.Thread(target=train)
        launch.start()
        until(waits.exists)
        subprocess.run(["sh", "-c", f"rm {env}" if gone else changed], check=True)
    launch.join()
    assert said == [NoEnvironment if gone else "another"]
