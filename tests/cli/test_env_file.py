"""orch train --env-file: values go to the run, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from tests.cli.calling import call
from tests.cli.some_runs import launched, project  # noqa: F401

KEYS = ["train", "-d", "--hosts", "gpu01", "--env-file", "keys.env"]
TRAIN = ["--", "python3", "train.py"]


def keys(project: Path, text: str = "# of mine\nWANDB_API_KEY=tell-nobody\nEPOCHS=3\n") -> None:  # noqa: F811
    (project / "keys.env").write_text(text)


def test_values_reach_the_run_and_are_shown_nowhere(project: Path, tmp_path: Path) -> None:  # noqa: F811
    keys(project)
    log = tmp_path / "orch.log"
    said = call(project, *KEYS, "-vv", "--log-file", str(log), *TRAIN, prepare=launched())
    assert said.status == 0, said.err
    sent = said.machines["gpu01"].ran[0].text
    assert '"WANDB_API_KEY": "tell-nobody"' in sent
    assert '"env": ["EPOCHS", "WANDB_API_KEY"]' in sent
    for shown in (said.out, said.err, log.read_text()):
        assert "tell-nobody" not in shown
    assert '"WANDB_API_KEY": "***"' in said.err


def test_a_file_of_values_is_no_part_of_the_code(project: Path) -> None:  # noqa: F811
    before = call(project, "train", "--dry-run", "--hosts", "gpu01", *TRAIN).err
    keys(project)
    said = call(project, *KEYS, *TRAIN, prepare=launched())
    assert said.err.startswith("note: not sent: keys.env (its values go as environment variables)\n")
    assert before.splitlines()[0] in said.err.replace(" (there already)", "")


def test_a_setting_that_names_such_a_file_counts_as_well(project: Path) -> None:  # noqa: F811
    keys(project)
    with (project / "hosts.ini").open("a") as file:
        file.write("env_file=keys.env\n")
    said = call(project, "train", "-d", "--hosts", "gpu01", *TRAIN, prepare=launched())
    assert "note: not sent: keys.env" in said.err


def test_a_wrong_line_is_named_before_any_host_is_reached(project: Path) -> None:  # noqa: F811
    keys(project, "A=1\nnot a variable\n")
    said = call(project, *KEYS, *TRAIN)
    assert (said.status, said.out, said.machines) == (78, "", {})
    assert said.err.splitlines()[-1] == f"orch: {project}/keys.env:2: expected NAME=VALUE"
