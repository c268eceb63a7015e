"""The store of bundles that were sent from here: what comes out is what went in, in bounded room."""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from orchestrator.errors import HostError, LostConnection, OrchError
from orchestrator.run.code import kept as kept_module
from orchestrator.run.code import packs
from orchestrator.run.code.bundle import Bundle, collect
from orchestrator.run.code.download import fetch_bundle
from orchestrator.run.code.kept import keep, kept
from orchestrator.run.code.upload import upload
from tests.unit.here import Here, machine_of
from tests.unit.projects import write_all
from tests.unit.test_upload import BUSYBOX_TOOLS

PLACE = "~/.orch/ana/it's mnist"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    files: dict[str, str | bytes] = {"src/train.py": "print(1)\n", "run.sh": "#!/bin/sh\n", "none": b""}
    write_all(
        top, {**files, "same": "print(1)\n", os.fsdecode(b"new\nline \xe9"): "odd", "big": bytes(3_000_000)}
    )
    (top / "twin").write_bytes(bytes(3_000_000))
    (top / "run.sh").chmod(0o755)
    (top / "empty/deep").mkdir(parents=True)
    (top / "link").symlink_to("src/train.py")
    return top


@pytest.fixture
def bundle(top: Path, cache: Path) -> Bundle:
    return collect(top, cache=cache)


def content(bundle: Bundle) -> bytes:
    return b"".join(bundle.tar("end"))


def taken(cache: Path) -> int:
    return sum(file.stat().st_size for file in (cache / "bundles").iterdir())


def test_what_was_kept_is_the_bundle_although_its_files_are_gone(
    top: Path, cache: Path, bundle: Bundle
) -> None:
    stream = content(bundle)
    keep(bundle, cache)
    shutil.rmtree(top)
    found = kept(bundle.digest, cache)
    assert found
    assert (found.digest, found.entries, content(found)) == (bundle.digest, bundle.entries, stream)
    assert kept("0" * 64, cache) is None
    assert kept("0" * 64, cache / "nothing") is None


def test_nobody_else_may_read_it(cache: Path, bundle: Bundle) -> None:
    keep(bundle, cache)
    store = cache / "bundles"
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def test_an_edit_adds_what_was_edited_and_no_more(top: Path, cache: Path, bundle: Bundle) -> None:
    keep(bundle, cache)
    before = taken(cache)
    (top / "src/train.py").write_text("print(2)\n")
    edited = collect(top, cache=cache)
    keep(edited, cache)
    assert taken(cache) - before < 4000
    stream = content(edited)
    found = kept(edited.digest, cache)
    assert found
    assert content(found) == stream


def test_keeping_again_writes_nothing(cache: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(bundle, cache)
    monkeypatch.setattr(packs, "Packing", None)
    monkeypatch.setattr(kept_module, "Packing", None)
    keep(bundle, cache)


def test_the_longest_unused_goes_first(top: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "MOST", 8_000_000)
    digests = []
    for number in range(3):
        (top / "big").write_bytes(bytes([number]) * 3_000_000)
        bundle = collect(top, cache=cache)
        keep(bundle, cache)
        digests.append(bundle.digest)
        for age, digest in enumerate(reversed(digests)):
            if (cache / "bundles" / digest).exists():
                os.utime(cache / "bundles" / digest, (1000 - age, 1000 - age))
        if number == 1:
            assert kept(digests[0], cache)  # used now
    assert [bool(kept(digest, cache)) for digest in digests] == [True, False, True]
    assert taken(cache) < 8_000_000


def test_too_large_for_the_store_is_not_kept(
    cache: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_module, "MOST", 2_000_000)
    keep(bundle, cache)
    assert kept(bundle.digest, cache) is None


def test_a_nearly_full_disk_is_left_alone(
    cache: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_module, "SPARED", 1 << 60)
    keep(bundle, cache)
    assert not (cache / "bundles").exists()


def test_a_store_that_can_t_be_written_is_no_failure(bundle: Bundle) -> None:
    keep(bundle, Path("/dev/null/x"))
    assert kept(bundle.digest, Path("/dev/null/x")) is None


def test_a_file_that_changed_meanwhile_leaves_nothing(top: Path, cache: Path, bundle: Bundle) -> None:
    (top / "run.sh").write_text("#!/bin/zs\n")
    keep(bundle, cache)
    assert list((cache / "bundles").iterdir()) == []


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]\n", b"{}\n[]\n", b'{"pack-x": "a"}\n[[1]]\n', b"\xff\n\xff\n"]
)
def test_a_damaged_manifest_is_none(cache: Path, bundle: Bundle, damage: bytes) -> None:
    keep(bundle, cache)
    (cache / "bundles" / bundle.digest).write_bytes(damage)
    assert kept(bundle.digest, cache) is None


def test_a_pack_that_is_short_is_written_again(cache: Path, bundle: Bundle) -> None:
    keep(bundle, cache)
    pack = next((cache / "bundles").glob("pack-*"))
    os.truncate(pack, 1000)
    assert kept(bundle.digest, cache) is None
    keep(bundle, cache)
    found = kept(bundle.digest, cache)
    assert found
    assert content(found) == content(bundle)


def test_a_damaged_pack_is_said_and_forgotten(cache: Path, bundle: Bundle) -> None:
    keep(bundle, cache)
    pack = next((cache / "bundles").glob("pack-*"))
    pack.write_bytes(bytes([1]) * pack.stat().st_size)
    found = kept(bundle.digest, cache)
    assert found
    with pytest.raises(OrchError, match=rf"the copy of bundle {bundle.short} in .*bundles is damaged"):
        content(found)
    assert kept(bundle.digest, cache) is None


def test_what_a_killed_orch_left_goes_after_a_day(top: Path, cache: Path, bundle: Bundle) -> None:
    keep(bundle, cache)
    store = cache / "bundles"
    for name, age in (("pack-old", 2.0), ("part-old", 2.0), ("pack-young", 0.5)):
        (store / name).write_bytes(b"x")
        then = time.time() - age * 86400
        os.utime(store / name, (then, then))
    (top / "run.sh").write_text("other")
    keep(collect(top, cache=cache), cache)
    assert sorted(p.name for p in store.iterdir() if p.name.endswith(("old", "young"))) == ["pack-young"]
    assert kept(bundle.digest, cache)


@pytest.fixture(params=["dash", "busybox"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    return machine_of(request.param, tmp_path, BUSYBOX_TOOLS)


def test_a_bundle_comes_back_from_a_host(machine: Here, top: Path, cache: Path, bundle: Bundle) -> None:
    stream = content(bundle)
    upload(machine, PLACE, bundle)
    shutil.rmtree(top)
    found = fetch_bundle(machine, PLACE, bundle.digest, cache=cache)
    again = kept(bundle.digest, cache)
    assert again
    assert content(found) == content(again) == stream
    assert taken(cache) < 3_100_000  # what is there twice stands there once


def test_one_that_is_not_there_is_said(machine: Here, cache: Path) -> None:
    with pytest.raises(HostError, match="here: the code is not there any more"):
        fetch_bundle(machine, PLACE, "0" * 64, cache=cache)
    assert list((cache / "bundles").iterdir()) == []


def test_one_that_somebody_changed_is_refused(machine: Here, cache: Path, bundle: Bundle) -> None:
    upload(machine, PLACE, bundle)
    place = Path(machine.env["HOME"]) / PLACE[2:] / "bundles" / bundle.digest
    (place / "more").write_text("x")
    with pytest.raises(HostError, match=f"bundle {bundle.short} is not what was sent: somebody changed it"):
        fetch_bundle(machine, PLACE, bundle.digest, cache=cache)
    assert list((cache / "bundles").iterdir()) == []


def test_one_that_is_cut_off_leaves_nothing(
    machine: Here, cache: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(machine, PLACE, bundle)
    real = "exec tar $hard -cf - ."
    for kept_bytes in (0, 1, 512, 100_000, 3_000_000):
        cut = f"tar -cf - . | {{ head -c {kept_bytes}; exit 1; }}"

        def cut_short(name: str, text: str = cut, **values: str) -> str:
            from orchestrator.render import render

            return render(name, **values).replace(real, text)

        monkeypatch.setattr("orchestrator.run.code.download.render", cut_short)
        with pytest.raises(LostConnection, match="the code did not come whole"):
            fetch_bundle(machine, PLACE, bundle.digest, cache=cache)
        assert list((cache / "bundles").iterdir()) == []
