"""What the account's own environment is: the real script under every shell that a host may have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.container.direct.known import check_activation
from orchestrator.errors import ConfigError
from orchestrator.facts.own import OWN, OwnReport
from orchestrator.facts.system import SYSTEM
from tests.unit.deploys import host
from tests.unit.shells import SHELLS, ask, program

PATH = "/usr/bin:/bin"


def own(shell: list[str], path: str = PATH, python: str = "python3", **values: object) -> OwnReport:
    known = {
        "activate": None,
        "own_python": python,
        "engine": "host",
        "program": "apptainer",
        "image_file": None,
    }
    return ask(OWN, shell, path=path, values={**known, **values})


@pytest.mark.parametrize("shell", SHELLS, ids=[s[0] for s in SHELLS])
class TestScript:
    def test_what_a_line_exports_counts(self, shell: list[str], tmp_path: Path) -> None:
        program(tmp_path / "b in", "python3", r"printf 'version\t3.7.1\n'")
        found = own(shell, activate=f"export PATH='{tmp_path}/b in':$PATH; echo noise; read line || true")
        assert found == OwnReport(python=f"{tmp_path}/b in/python3", version=(3, 7, 1))

    def test_what_its_python_has(self, shell: list[str], tmp_path: Path) -> None:
        (tmp_path / "wandb-0.17.dist-info").mkdir()
        (tmp_path / "six-1.16.egg-info").touch()
        found = own(shell, activate=f"export PYTHONPATH='{tmp_path}'")
        assert {"wandb-0.17", "six-1.16"} <= set(found.packages)
        assert own(shell, activate=f"export PYTHONPATH='{tmp_path}'", engine="venv").packages == ()

    def test_a_line_that_fails(self, shell: list[str], tmp_path: Path) -> None:
        found = own(shell, activate="echo first >&2; echo 'no such module' >&2; exit 3")
        assert (found.status, found.said, found.python) == (3, "no such module", None)
        with pytest.raises(
            ConfigError, match=r"hosts\.ini:10: activate: `x` ended with status 3 on gpu01: no"
        ):
            check_activation(host(activate="x"), found)

    def test_what_is_no_python(self, shell: list[str], tmp_path: Path) -> None:
        program(tmp_path, "odd", "exit 1")
        assert own(shell, python=str(tmp_path / "odd")).version == ()
        assert own(shell, python=str(tmp_path / "none")).python is None

    def test_apptainer_and_its_image(self, shell: list[str], tmp_path: Path) -> None:
        program(tmp_path / "bin", "singularity", "echo singularity-ce version 3.11.4")
        image = tmp_path / "tf.sif"
        image.write_text("12345")
        os.utime(image, (7, 7))
        path = f"{tmp_path}/bin:{PATH}"
        found = own(shell, path, engine="apptainer", image_file=f"'{image}'")
        assert (found.program, found.release) == ("singularity", "singularity-ce version 3.11.4")
        assert found.image == "5.7"
        assert own(shell, path, engine="apptainer", image_file="/no").image is None
        assert own(shell, PATH, engine="apptainer", program="no-such").program is None

    def test_a_python_that_is_named_is_looked_at(self, shell: list[str], tmp_path: Path) -> None:
        mine = tmp_path / "py"
        mine.symlink_to(shutil.which("python3", path=PATH) or "/usr/bin/python3")
        values = {"root": "/tmp", "engine": "venv", "extra_python": f"'{mine}'"}
        found = ask(SYSTEM, shell, path=PATH, values=values, HOME=str(tmp_path))
        assert str(mine) in [p.path for p in found.pythons]


def test_without_bash_a_line_runs_by_sh_and_that_is_said(tmp_path: Path) -> None:
    for tool in ("sh", "awk", "head", "timeout", "true", "python3"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    found = own(["/usr/bin/dash"], str(tmp_path), activate="export A=1")
    assert (found.status, found.bash, bool(found.python)) == (0, False, True)
    found = own(["/usr/bin/dash"], str(tmp_path), activate="source /dev/null")
    with pytest.raises(ConfigError, match=r"There is no bash on gpu01: it ran by sh"):
        check_activation(host(activate="source /dev/null"), found)
