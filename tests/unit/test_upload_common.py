"""What a bundle has in common with those that are on the host is not sent again, and is never trusted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from orchestrator.errors import HostError, LostConnection
from orchestrator.run.code.bundle import Bundle, collect
from orchestrator.run.code.upload import upload
from tests.unit.here import Here, HereStream, machine_of
from tests.unit.projects import grow, trees, write_all
from tests.unit.test_upload import BUSYBOX_TOOLS, PLACE, bundles, listed
from tests.until import until

BIG = bytes(range(256)) * 4000


@pytest.fixture(params=["dash", "busybox"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    return machine_of(request.param, tmp_path, BUSYBOX_TOOLS)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    write_all(top, {f"src/it's {n}.py": f"print({n})\n" for n in range(300)})
    write_all(top, {"src/deep/er/x": "1", "big.bin": BIG, "run.sh": "#!/bin/sh\n", "-rf": "2", "none": ""})
    write_all(top, {"new\nline": "3", "back\\slash": "4", os.fsdecode(b"latin\xe9"): "5", "c\rr": "6"})
    (top / "run.sh").chmod(0o755)
    (top / "link").symlink_to("run.sh")
    (top / "empty").mkdir()
    return top


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each write to a host."""
    sent: list[int] = []
    real = HereStream.write

    def counted(self: HereStream, data: bytes) -> None:
        sent.append(len(data))
        real(self, data)

    monkeypatch.setattr(HereStream, "write", counted)
    return sent


def lines_of(bundle: Bundle) -> int:
    """About the bytes of the question: what each file costs that is not sent."""
    return sum(90 + len(os.fsencode(entry.path)) for entry in bundle.entries)


def snapshot(top: Path) -> Bundle:
    return collect(top, cache=top.parent / "cache")


def arrived(machine: Here, bundle: Bundle) -> bool:
    """Whether a bundle is on the host as it was collected; it is read anew, without any memory."""
    whole = bundles(machine) / bundle.digest
    return collect(whole, cache=Path("/dev/null/none")).digest == bundle.digest


def send(machine: Here, top: Path) -> Bundle:
    bundle = snapshot(top)
    upload(machine, PLACE, bundle)
    assert arrived(machine, bundle)
    return bundle


def edit(top: Path) -> None:
    write_all(top, {"src/it's 7.py": "print(77)\n", "src/new.py": "print(1)\n"})
    (top / "src/it's 8.py").unlink()


def test_an_edit_costs_what_was_edited(machine: Here, top: Path, wire: list[int]) -> None:
    first = send(machine, top)
    wire.clear()
    edit(top)
    second = send(machine, top)
    assert sum(wire) < lines_of(second) + 20_000
    old, new = (bundles(machine) / b.digest / "big.bin" for b in (first, second))
    assert old.stat().st_ino == new.stat().st_ino
    assert oct((new.parent / "run.sh").stat().st_mode & 0o777) == "0o555"
    assert arrived(machine, first)
    assert sorted(p.name for p in (bundles(machine) / ".files").iterdir()) == listed(machine)


def test_what_stands_at_another_path_is_not_sent(machine: Here, top: Path, wire: list[int]) -> None:
    send(machine, top)
    wire.clear()
    (top / "src").rename(top / "it's lib")
    (top / "big.bin").rename(top / "it's lib/deep/other name.bin")
    shutil.copyfile(top / "it's lib/deep/other name.bin", top / "twice.bin")
    bundle = send(machine, top)
    assert sum(wire) < lines_of(bundle) + 20_000


def test_names_that_changed_by_the_hundred_come_anew(machine: Here, tmp_path: Path, wire: list[int]) -> None:
    top = write_all(tmp_path / "many", {f"a{n}": f"{n}" * 100 for n in range(300)})
    send(machine, top)
    wire.clear()
    for n in range(300):
        (top / f"a{n}").rename(top / f"b{n}")
    send(machine, top)
    assert 100_000 < sum(wire) < 150_000


def test_many_long_names_at_another_path(machine: Here, tmp_path: Path, wire: list[int]) -> None:
    deep = "/".join(["d" * 240] * 13)
    top = write_all(tmp_path / "long", {f"a/{deep}/{n}": str(n) for n in range(800)})
    send(machine, top)
    wire.clear()
    (top / "a").rename(top / "b")
    bundle = send(machine, top)
    assert sum(wire) < lines_of(bundle) + 20_000


def test_files_that_changed_places_are_not_sent(machine: Here, top: Path, wire: list[int]) -> None:
    send(machine, top)
    wire.clear()
    (top / "big.bin").rename(top / "x")
    (top / "src/it's 7.py").rename(top / "big.bin")
    (top / "x").rename(top / "src/it's 7.py")
    bundle = send(machine, top)
    assert sum(wire) < lines_of(bundle) + 20_000


def test_an_executable_is_another_file(machine: Here, top: Path) -> None:
    send(machine, top)
    (top / "run.sh").chmod(0o644)
    (top / "big.bin").chmod(0o755)
    bundle = send(machine, top)
    assert (bundles(machine) / bundle.digest / "big.bin").stat().st_mode & 0o777 == 0o555


def test_what_went_and_came_back_is_found_in_an_older_bundle(
    machine: Here, top: Path, wire: list[int]
) -> None:
    send(machine, top)
    (top / "big.bin").rename(top.parent / "big.bin")
    send(machine, top)
    wire.clear()
    (top.parent / "big.bin").rename(top / "big.bin")
    edit(top)
    bundle = send(machine, top)
    assert sum(wire) < lines_of(bundle) + 20_000


def in_place(bundle: Path) -> None:
    (bundle / "big.bin").chmod(0o644)
    (bundle / "big.bin").write_bytes(BIG[::-1])


def gone(bundle: Path) -> None:
    (bundle / "big.bin").unlink()


def shorter(bundle: Path) -> None:
    (bundle / "src/it's 9.py").chmod(0o644)
    (bundle / "src/it's 9.py").write_text("")


@pytest.mark.parametrize("harm", [in_place, gone, shorter])
def test_a_bundle_that_somebody_changed_does_no_harm(
    machine: Here, top: Path, harm: Callable[[Path], None]
) -> None:
    first = send(machine, top)
    harm(bundles(machine) / first.digest)
    edit(top)
    second = send(machine, top)
    assert [p.name for p in (bundles(machine) / ".files").iterdir()] == [second.digest]


def test_without_a_way_to_check_everything_is_sent(tmp_path: Path, top: Path) -> None:
    machine = machine_of("busybox", tmp_path, [tool for tool in BUSYBOX_TOOLS if tool != "sha256sum"])
    first = send(machine, top)
    in_place(bundles(machine) / first.digest)
    edit(top)
    send(machine, top)


def test_what_an_older_orch_sent_is_left_alone(machine: Here, top: Path) -> None:
    first = send(machine, top)
    shutil.rmtree(bundles(machine) / ".files")
    edit(top)
    second = send(machine, top)
    assert listed(machine) == sorted([first.digest, second.digest])


def test_lines_of_a_bundle_that_is_gone_go_too(machine: Here, top: Path, wire: list[int]) -> None:
    first = send(machine, top)
    wire.clear()
    shutil.rmtree(bundles(machine) / first.digest)
    edit(top)
    second = send(machine, top)
    assert [p.name for p in (bundles(machine) / ".files").iterdir()] == [second.digest]
    assert wire[0] not in wire[1:]  # asked once


def wrapped(machine: Here, folder: Path, tool: str, text: str) -> Here:
    """The same machine, with another program for one of its tools; `$real` in its text is the real one."""
    folder.mkdir(exist_ok=True)
    program = folder / tool
    program.write_text(f"#!/bin/sh\nreal={shutil.which(tool)}\n{text}\n")
    program.chmod(0o755)
    return Here(Path(machine.env["HOME"]), "dash", path=f"{folder}:{os.environ['PATH']}")


def test_where_the_disk_has_no_links_files_are_copied(tmp_path: Path, top: Path, wire: list[int]) -> None:
    plain = machine_of("dash", tmp_path, ())
    first = send(plain, top)
    wire.clear()
    machine = wrapped(plain, tmp_path / "own", "ln", "exit 1")
    edit(top)
    (top / "src/deep").rename(top / "deep")
    second = send(machine, top)
    assert sum(wire) < lines_of(second) + 20_000
    old, new = (bundles(machine) / b.digest / "big.bin" for b in (first, second))
    assert old.stat().st_ino != new.stat().st_ino
    assert old.stat().st_mtime == new.stat().st_mtime


STEPS = ("head", "ls", "cp", "xargs", "tar", "sha256sum", "timeout", "mv", "rm")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("tool", STEPS)
def test_killed_at_any_step_nothing_half_made_looks_whole(
    tmp_path: Path, top: Path, tool: str, when: str
) -> None:
    plain = machine_of("dash", tmp_path, ())
    first = send(plain, top)
    edit(top)
    (top / "src/deep").rename(top / "deep")
    bundle = snapshot(top)
    kill = "kill -KILL 0"
    machine = wrapped(plain, tmp_path / "own", tool, kill if when == "before" else f'"$real" "$@"; {kill}')
    with pytest.raises((LostConnection, HostError)):
        upload(machine, PLACE, bundle)
    assert all(arrived(machine, b) for b in (first, bundle) if b.digest in listed(machine))
    assert first.digest in listed(machine)
    upload(plain, PLACE, bundle)
    assert arrived(plain, bundle)


def test_a_client_that_is_killed_leaves_nothing(tmp_path: Path, top: Path) -> None:
    machine = machine_of("dash", tmp_path, ())
    send(machine, top)
    edit(top)
    bundle = snapshot(top)
    code = (
        "import os, signal, sys; from pathlib import Path; from tests.unit.here import Here;"
        "from orchestrator.run.code.bundle import Bundle, collect;"
        "from orchestrator.run.code.upload import upload\n"
        "real = Bundle.tar\n"
        "def cut(self, end, here):\n"
        "    for piece in real(self, end, here):\n"
        "        yield piece[:int(sys.argv[4])]\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "Bundle.tar = cut\n"
        "found = collect(Path(sys.argv[3]), cache=Path('/dev/null/none'))\n"
        "upload(Here(Path(sys.argv[1]), 'dash'), sys.argv[2], found)"
    )
    for kept in (0, 1000):
        words = [sys.executable, "-c", code, machine.env["HOME"], PLACE, str(top), str(kept)]
        done = subprocess.run(words, check=False, cwd=Path(__file__).parents[2])
        assert done.returncode == -signal.SIGKILL
        until(lambda: not list(bundles(machine).glob(".part-*")))
        assert bundle.digest not in listed(machine)


def test_overlapping_uploads_at_once(machine: Here, top: Path, tmp_path: Path) -> None:
    send(machine, top)
    others = []
    for number in range(3):
        other = tmp_path / f"other{number}"
        shutil.copytree(top, other, symlinks=True)
        write_all(other, {"mine.py": str(number // 2), "src/it's 3.py": str(number // 2)})
        others.append(snapshot(other))
    errors: list[BaseException] = []
    barrier = threading.Barrier(3)

    def one(bundle: Bundle) -> None:
        try:
            barrier.wait()
            upload(machine, PLACE, bundle)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(bundle,)) for bundle in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(arrived(machine, bundle) for bundle in others)
    assert len(listed(machine)) == 3
    assert not list(bundles(machine).glob(".part-*"))


def test_a_disk_with_room_for_the_edit_alone_is_enough(machine: Here, top: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small disk needs root, to mount one")
    place = bundles(machine)
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "orch-test", place], check=True)
    try:
        send(machine, top)
        edit(top)
        send(machine, top)
        (top / "more.bin").write_bytes(bytes(3_000_000))
        with pytest.raises(HostError, match=r"no space left on device: the code needs 3\.0 MB, 1\.8 MB free"):
            send(machine, top)
        assert len(listed(machine)) == 2
    finally:
        subprocess.run(["umount", place], check=True)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=trees, after=trees)
def test_any_tree_arrives_whatever_is_there(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[bytes, tuple[bytes, bool]],
    after: dict[bytes, tuple[bytes, bool]],
) -> None:
    base = tmp_path_factory.mktemp("pairs")
    machine = machine_of("dash", base, ())
    grow(base / "one", before, False)
    grow(base / "two", {**after, **dict(list(before.items())[:3])}, False)
    send(machine, base / "one")
    send(machine, base / "two")
