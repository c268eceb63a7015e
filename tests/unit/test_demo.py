"""What `orch demo` leaves alone. The demo itself is `make demo`."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from orchestrator.cli import demo
from orchestrator.container.identity import slug

DOCKER = """\
#!/bin/sh
case "$*" in
*" ls "*) for last; do :; done; sed -n "s!^$last:.*!&!p" "$0.images" ;;
"image rm "*) shift 2; for image; do sed -i "s!^$image\\$!!" "$0.images"; done ;;
esac
"""


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The list of a Docker that has a few images."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "docker.images"


def test_images_of_a_persons_own_project_that_is_called_demo_stay(images: Path) -> None:
    name = f"orch/{slug(getpass.getuser())}-demo"
    images.write_text(f"{name}:old\ntensorflow/tensorflow:2.9.3\n")
    before = demo.images()
    with images.open("a") as file:
        file.write(f"{name}:new\n")
    demo.remove(demo.images() - before)
    assert images.read_text().split() == [f"{name}:old", "tensorflow/tensorflow:2.9.3"]


def test_without_docker_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo.images() == set()
    demo.remove(set())
