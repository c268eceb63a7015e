"""A person's project to make bundles of, and any tree of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import strategies as st

from orchestrator.run.code.bundle import Bundle

OPENSSH = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n-----END OPENSSH PRIVATE KEY-----\n"


def write(top: Path, **files: str | bytes) -> Path:
    return write_all(top, files)


def write_all(top: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        place = top / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return top


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def paths(bundle: Bundle) -> list[str]:
    return [entry.path for entry in bundle.entries]


_name = st.binary(min_size=1, max_size=130).filter(
    lambda b: b"/" not in b and b"\0" not in b and b not in (b".", b"..") and len(b) < 200
)
trees = st.dictionaries(
    st.lists(_name, min_size=1, max_size=3).map(b"/".join),
    st.tuples(st.binary(max_size=2000), st.booleans()),
    max_size=6,
)


def grow(top: Path, tree: dict[bytes, tuple[bytes, bool]], order: bool) -> None:
    top.mkdir()
    for path, (content, executable) in sorted(tree.items(), reverse=order):
        place = os.path.join(os.fsencode(top), path)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as out:
                out.write(content)
            os.chmod(place, 0o755 if executable else 0o644)
        except OSError:  # a file where a folder should be
            continue
