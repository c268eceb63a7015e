"""A host that is this machine, with Debian's tools or busybox alone, and a folder at each end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.here import Here, machine_of

BUSYBOX_TOOLS = [
    "awk",
    "cat",
    "chmod",
    "chown",
    "cut",
    "date",
    "df",
    "find",
    "head",
    "id",
    "mkdir",
    "mv",
    "printf",
    "rm",
    "sh",
    "sha256sum",
    "stat",
    "tail",
    "tar",
    "touch",
    "tr",
    "xargs",
]


@pytest.fixture(params=["dash", "busybox"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    return machine_of(request.param, tmp_path, BUSYBOX_TOOLS)


@pytest.fixture
def there(machine: Here) -> Path:
    folder = Path(machine.env["HOME"]) / "there"
    folder.mkdir()
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder
