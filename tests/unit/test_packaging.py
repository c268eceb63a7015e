"""What is shipped: wheel and sdist hold every file, and work from anywhere without the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RENDERABLE = "import orchestrator.render as r\nfor n in NAMES: assert r.source(n), n\nprint('all there')"


def tracked(folder: str) -> list[str]:
    """Return the files of a folder that ship, as paths below it."""
    found = (p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return sorted(str(p.relative_to(ROOT / folder)) for p in found)


def shipped() -> list[str]:
    names = [f"orchestrator/{p}" for p in tracked("orchestrator")]
    return names + [f"orchestrator/{top}/{p}" for top in ("templates", "trainer") for p in tracked(top)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with sdist and wheel (made from the sdist), built from a copy of the checkout."""
    place = tmp_path_factory.mktemp("dist")
    source = place / "source"
    ignore = shutil.ignore_patterns(
        ".venv*", ".git", "__pycache__", "*.egg-info", "build", "dist", ".*_cache"
    )
    shutil.copytree(ROOT, source, ignore=ignore)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(place), str(source)], check=True, capture_output=True
    )
    return place


def test_the_wheel_holds_every_file(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name.startswith("orch_train-")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert [n for n in shipped() if n not in names] == []


def test_the_sdist_holds_what_the_wheel_is_made_of(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        names = {n.split("/", 1)[1] for n in tar.getnames() if "/" in n}
    missing = [f"{top}/{p}" for top in ("orchestrator", "templates", "trainer") for p in tracked(top)]
    assert [n for n in missing if n not in names] == []
    assert {"README.md", "LICENSE", "setup.cfg", "pyproject.toml"} <= names


@pytest.mark.timeout(600)
def test_the_wheel_works_in_a_clean_venv_from_the_root_folder(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], check=True, capture_output=True)
    names = [n for n in tracked("templates") if not n.startswith("__init__")]
    code = RENDERABLE.replace("NAMES", repr(names))
    assert run(python, "-c", code).strip() == "all there"
    assert run(str(tmp_path / "venv" / "bin" / "orch"), "--version").startswith("orch, version ")
    assert "gpu-status" in run(str(tmp_path / "venv" / "bin" / "orch"), "--help")
    line = "import orchestrator.run.order as o; print(o.trainer_bundle().holds('trainer/__main__.py'))"
    assert run(python, "-c", line).strip() == "True"


def test_a_bare_checkout_finds_its_templates_and_trainer() -> None:
    code = RENDERABLE.replace("NAMES", repr(["supervise.py", "run/launch.sh.j2"]))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert done.stdout.strip() == "all there"


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout
