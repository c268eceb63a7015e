"""Lists of files on a host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.errors import HostError
from orchestrator.files.listing import Item, list_files, parse
from tests.unit.here import Here
from tests.unit.transfer.trees import ODD, put


def test_a_listing_tells_kind_size_mode_and_time(machine: Here, there: Path) -> None:
    for name in ODD:
        put(there / "d" / name, "abc", 1_600_000_001)
    (there / "d" / "run.sh").write_text("")
    (there / "d" / "run.sh").chmod(0o750)
    (there / "d" / "link").symlink_to("run.sh")
    (there / "d" / "sub").mkdir()
    os.mkfifo(there / "d" / "fifo")
    put(there / "d" / "sub" / "deep", "x")
    answer = list_files(
        machine, [("~/there/d", None), ("~/there/d", 1), ("~/there/d/é", None), ("~/no", None)]
    )
    whole, shallow, one, missing = answer.roots
    items = {item.path: item for item in whole.items}
    assert set(items) == {"", *ODD, "run.sh", "link", "sub", "sub/deep", "fifo"}
    assert {i.path for i in whole.items} - {i.path for i in shallow.items} == {"sub/deep"}
    assert items["é"] == Item("é", "file", 0o644, 3, 1_600_000_001)
    assert (items["run.sh"].mode, items["run.sh"].executable) == (0o750, True)
    assert [items[n].kind for n in ("link", "sub", "fifo", "")] == ["link", "dir", "other", "dir"]
    assert [(i.path, i.size) for i in one.items] == [("", 3)]
    assert (missing.kind, missing.items) == ("missing", ())


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", ".."])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(HostError, match="makes no sense"):
        parse(f"//root dir\n//81a4 1 1 1 1 ./{name}\n".encode(), "gpu01")
