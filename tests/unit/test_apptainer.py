"""Commands by apptainer: their words, which image, and an installation by a program that shows its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.causes import explain_failure
from orchestrator.container.direct.apptainer import ApptainerDeploy, survey_apptainer
from orchestrator.container.direct.apptainer_image import image_of
from orchestrator.errors import ConfigError, HostError
from orchestrator.hosts.fake import FakeMachine
from orchestrator.inventory import Host, Volume

from .deploys import IDENTITY, PLACE, host

SYSTEM = "arch\tx86_64\nuid\t1001\nhome\t/home/ana\nuser\tana"
OWN = (
    "bash\t/bin/bash\npython\t/usr/bin/python3\nversion\t3.9.2\n"
    "program\tapptainer\nrelease\tapptainer version 1.4.5\n"
)
ONE_GPU = (
    "smi\t/usr/bin/nvidia-smi\nfields\tindex,uuid,name\ngpu\t0, GPU-aa, NVIDIA A100\n"
    "status\t0\napps-status\t0\n"
)


def planned(
    own: str = OWN, gpu: str = "", place: str = "", environ: Any = None, **settings: Any
) -> ApptainerDeploy:
    machine = FakeMachine(host(engine="apptainer", **settings))
    where = f"place\t{PLACE}\nmachine\tgpu01\n{place}"
    machine.answer_facts(system=SYSTEM, gpu=gpu, place=where, own=own)
    return survey_apptainer(machine, IDENTITY, environ or {})


def entering(deploy: ApptainerDeploy) -> str:
    return dict(deploy.rendered)["enter"]


@pytest.mark.parametrize(
    ("settings", "gpus", "image"),
    [
        ({}, False, "docker://tensorflow/tensorflow:2.9.3"),
        ({"tensorflow": "2.15.0"}, True, "docker://tensorflow/tensorflow:2.15.0-gpu"),
        ({"image": "nvcr.io/nvidia/tensorflow:23.01"}, True, "docker://nvcr.io/nvidia/tensorflow:23.01"),
        ({"image": "oras://lab/tf:1"}, False, "oras://lab/tf:1"),
        ({"image": "docker-daemon:lab/tf:1"}, False, "docker-daemon:lab/tf:1"),
        ({"image": "localhost:5000/tf"}, False, "docker://localhost:5000/tf"),
        ({"image": "/images/tf.sif"}, True, "/images/tf.sif"),
        ({"image": "~/tf"}, True, "~/tf"),
    ],
)
def test_which_image(settings: dict[str, Any], gpus: bool, image: str) -> None:
    assert image_of(host(**settings), gpus=gpus) == image


def test_a_command_sees_what_it_would_see_in_a_container() -> None:
    data = Volume("/data/sets", "/datasets", True)
    deploy = planned(
        f"{OWN}image\t99.5",
        place="volume\t/data/sets\t/data/sets\tfolder\n",
        image="~/tf.sif", volumes=(data,), env={"SEED": "a b"},
    )  # fmt: skip
    text = entering(deploy)
    assert text.endswith(
        f"exec apptainer --quiet exec --cleanenv --home {PLACE}/home:/home/ana --bind {PLACE}:/orch "
        f"--bind {PLACE}/workspace:/workspace --bind /data/sets:/datasets:ro "
        '--pwd "$folder" /home/ana/tf.sif "$@"\n'
    )
    assert "APPTAINERENV_SEED='***'; export APPTAINERENV_SEED" in text
    assert deploy.lines[:2] == (
        "  image      use      /home/ana/tf.sif   apptainer 1.4.5",
        "  volumes             /data/sets:/datasets:ro",
    )
    assert deploy.folder == "", "nothing is installed"


def test_gpus_and_those_that_are_named() -> None:
    assert " --nv " in entering(planned(gpu=ONE_GPU))
    assert "CUDA_VISIBLE_DEVICES" not in entering(planned(gpu=ONE_GPU))
    named = entering(planned(gpu=ONE_GPU, gpus="GPU-aa"))
    assert "APPTAINERENV_CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-GPU-aa}" in named
    assert " --nv " not in entering(planned(gpu=ONE_GPU, gpus="none"))


def test_an_older_program_and_its_own_variables() -> None:
    both = OWN.replace("program\tapptainer", "program\tsingularity")  # a link to apptainer
    old = both.replace("apptainer version", "singularity-ce version")
    text = entering(planned(old, env={"A": "1"}, image="docker://x"))
    assert "exec singularity --quiet exec" in text
    assert "SINGULARITYENV_A=" in text
    assert "APPTAINERENV_A=" in entering(planned(both, env={"A": "1"}, image="docker://x"))


def test_what_is_not_there() -> None:
    with pytest.raises(HostError, match=r"apptainer is not installed.*activate = module load apptainer"):
        planned("bash\t/bin/bash\n")
    with pytest.raises(ConfigError, match=r"hosts\.ini:11: image: gpu01 has no /images/tf\.sif"):
        planned(image="/images/tf.sif")
    with pytest.raises(
        ConfigError, match=r"hosts\.ini:11: image: tf\.sif: an absolute path on gpu01 is needed"
    ):
        planned(image="tf.sif")
    with pytest.raises(ConfigError, match=r"volume /data does not exist on gpu01"):
        planned(place="volume\t/data\t/data\tmissing\n", volumes=(Volume("/data", "/data"),))


def test_a_changed_image_file_is_a_change() -> None:
    def digest(stamp: str) -> str:
        return planned(f"{OWN}image\t{stamp}", image="/images/tf.sif", requirements=("wandb",)).folder

    assert digest("99.5") == digest("99.5") != digest("99.6")


PROGRAM = """\
#!/bin/sh
[ "$1" != --quiet ] || shift
echo "$*" >> {log}
case "$1" in
    pull) echo sif > "$3" ;;
    exec)
        echo "base=$APPTAINERENV_PYTHONUSERBASE index=$APPTAINERENV_PIP_INDEX_URL" >> {log}
        case "$*" in *"pip install"*) ;; *) cat >/dev/null; echo numpy==1.23.5 ;; esac ;;
esac
"""


def test_an_image_is_pulled_and_packages_are_installed_in_it(tmp_path: Path) -> None:
    """`apptainer` is a stand-in here that shows its own command line; tests/fleet has the real one."""
    (tmp_path / "bin").mkdir()
    program, log = tmp_path / "bin" / "apptainer", tmp_path / "log"
    program.write_text(PROGRAM.format(log=log))
    program.chmod(0o755)
    deploy = planned(requirements=("wandb", "attrs"))
    known = replace(deploy.known, place=replace(deploy.known.place, path=str(tmp_path / "p")))
    deploy = replace(deploy, known=known)
    script = dict(deploy.rendered)["install"]
    exports = (
        "UElQX0lOREVYX1VSTD1odHRwOi8vaW5kZXg7IGV4cG9ydCBQSVBfSU5ERVhfVVJMCg==\n"  # PIP_INDEX_URL=http://index
    )
    done = subprocess.run(
        ["sh", "-c", script], input=exports, capture_output=True, text=True, check=False,
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    folder = Path(deploy.folder)
    inside = f"/orch/venv/{folder.name}"
    said = log.read_text().splitlines()
    assert said[0] == f"pull --disable-cache {folder}/image.sif docker://tensorflow/tensorflow:2.9.3"
    assert said[2] == f"base={inside} index=http://index"
    install = next(line for line in said if "pip install" in line)
    assert f"--pwd /orch {folder}/image.sif python3 -m pip install --user" in install
    assert install.endswith(f"-c {inside}/own.txt -r {inside}/requirements.txt")
    assert (folder / "requirements.txt").read_text() == "wandb\nattrs\n"
    assert (folder / "whole").exists()
    assert not (folder / "tmp").exists()


def test_what_apptainer_says_of_a_failed_pull() -> None:
    said = (
        "FATAL:   While making image from oci registry: error fetching image to cache: "
        "reading manifest 9 in docker.io/tensorflow/tensorflow: manifest unknown"
    )
    error = explain_failure(Host("gpu01", "gpu01"), said, base="docker://tensorflow/tensorflow:9")
    assert error.message == "there is no image docker://tensorflow/tensorflow:9"
