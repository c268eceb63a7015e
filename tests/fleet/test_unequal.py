"""Environments of two hosts that differ: the run says in what, and what it says to do makes them equal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .lab import Fleet, Host
from .orch import Orch, make_project
from .package_index import package_index
from .small import IMAGE, archive
from .test_images import each_host

BOTH = "gpu01,gpu02"
RUN = ("train", "--wait", "--hosts", BOTH, "--", "true")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "unequal")


def told(orch: Orch) -> str:
    """The one line by which the run is refused."""
    (line,) = (line for line in orch(*RUN, code=1).stderr.splitlines() if line.startswith("orch: "))
    return line


def done_as_told(orch: Orch, line: str) -> None:
    """Do what the line says: each `orch ...` in it."""
    found = re.findall(r"orch ((?:image lock|deploy)(?: [\w.,-]*\w)*?)(?=, then|; or)", line)
    assert found
    for words in found:
        orch(*words.split(), *(["--yes"] if words.startswith("deploy") else []), timeout=600)


def test_packages_of_two_days_and_settings_of_two_kinds(
    orch: Orch, fleet: Fleet, gpu01: Host, gpu02: Host, tmp_path: Path
) -> None:
    """One recipe that was built on two days; then one host has another requirement, and then not any more."""
    there = archive(gpu01)
    for host in (gpu01, gpu02):
        host.docker("load", "-q", "-i", there)
    with package_index(gpu01) as url:
        wanted = tmp_path / "wanted.txt"
        wanted.write_text(f"--trusted-host {gpu01.address}\ndemo\n")
        lines = {"gpu01": f"pip_index={url}/one", "gpu02": f"pip_index={url}/two"}
        orch = each_host(orch, fleet, tmp_path / "over.ini", **lines)
        orch = orch.having(ORCH_REQUIREMENTS=str(wanted), ORCH_IMAGE=IMAGE, ORCH_CLUSTER_PORTS="23000-23005")
        for name in ("gpu01", "gpu02"):
            orch("deploy", "--yes", "--hosts", name, timeout=600)
        line = told(orch)
        assert line.startswith("orch: gpu02: its environment is not that of gpu01: demo 2.0 (gpu01: 1.0). ")
        done_as_told(orch, line)
        orch(*RUN)

        other = tmp_path / "other.txt"
        other.write_text(f"--trusted-host {gpu01.address}\n")
        orch.having(ORCH_REQUIREMENTS=str(other))("deploy", "--yes", "--hosts", "gpu02", timeout=600)
        line = told(orch)
        assert "demo none (gpu01: 1.0)" in line
        assert "the same image and requirements in hosts.ini" in line
        done_as_told(orch, line)
        orch(*RUN)
    orch("down", "--yes", "--hosts", BOTH)
