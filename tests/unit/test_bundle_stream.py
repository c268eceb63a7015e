"""The stream of a bundle: what comes out of it is what went in."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from orchestrator.run.code.bundle import Changed, collect
from tests.unit.projects import cache, grow, top, trees, write_all

__all__ = ["cache", "top"]  # fixtures


def test_a_file_that_changed_since_ends_the_stream_without_its_end(top: Path, cache: Path) -> None:
    write_all(top, {"a": "1234", "b": "1"})
    for content in ("12345", "1235", "12"):
        write_all(top, {"a": "1234"})
        found = collect(top, cache=cache)
        write_all(top, {"a": content})
        with pytest.raises(Changed, match="a changed while it was read"):
            list(found.tar("end"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees)
def test_any_tree_comes_out_of_the_stream_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[bytes, tuple[bytes, bool]]
) -> None:
    base = tmp_path_factory.mktemp("trees")
    grow(base / "one", tree, False)
    first = collect(base / "one", cache=base / "cache")
    stream = b"".join(first.tar())
    (base / "two").mkdir()
    with tarfile.open(fileobj=io.BytesIO(stream), errors="surrogateescape") as archive:
        archive.extractall(base / "two", **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
    again = collect(base / "two", cache=base / "cache2")
    assert (again.digest, b"".join(again.tar())) == (first.digest, stream)


@pytest.mark.parametrize("tar", [["tar"], ["busybox", "tar"]])
def test_the_tars_of_the_hosts_read_it(top: Path, cache: Path, tmp_path: Path, tar: list[str]) -> None:
    long = "/".join(["d" * 90] * 3) + "/" + "ñ" * 60
    write_all(top, {long: "deep", "new\nline": "1", "é": "2", "run.sh": "#!/bin/sh\n", "-rf": "3"})
    write_all(top, {os.fsdecode(b"latin\xe9"): "4"})
    (top / "run.sh").chmod(0o755)
    (top / "link").symlink_to("d" * 90 + "/" + "d" * 90)
    (top / "empty").mkdir()
    found = collect(top, cache=cache)
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run([*tar, "-xpof", "-", "-C", str(out)], input=b"".join(found.tar()), check=True)
    assert collect(out, cache=cache).digest == found.digest
    assert {oct(p.stat().st_mode & 0o777) for p in (out / "é", out / "run.sh")} == {"0o444", "0o555"}


def test_ten_thousand_files_do_not_stand_in_memory(top: Path, cache: Path) -> None:
    write_all(top, {"big": bytes(30_000_000)})
    found = collect(top, cache=cache)
    assert max(map(len, found.tar())) < 2_000_000
