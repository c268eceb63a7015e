"""Which Python and TensorFlow a venv gets."""

from typing import Any

import pytest

from orchestrator.container.difference import differences
from orchestrator.container.direct.venv_spec import choose, constraints, span, venv_spec
from orchestrator.container.inputs import Inputs
from orchestrator.errors import ConfigError, HostError
from orchestrator.facts.system import Python, SystemReport

from .deploys import host


def system(*versions: str, venv: bool = True, uv: str | None = None) -> SystemReport:
    pythons = [
        Python(f"/usr/bin/python{v.rpartition('.')[0]}", tuple(map(int, v.split("."))), venv)
        for v in versions
    ]
    return SystemReport(arch="x86_64", pythons=tuple(pythons), uv=uv, home="/home/ana")


@pytest.mark.parametrize(
    ("there", "tensorflow", "python"),
    [
        (("3.12.1", "3.10.4", "3.8.10"), "2.9.3", (3, 10, 4)),
        (("3.14.0", "3.12.1"), "newest", (3, 12, 1)),
        (("3.7.17",), "2.9.3", (3, 7, 17)),
    ],
)
def test_the_wanted_version_where_it_can_run(
    there: tuple[str, ...], tensorflow: str, python: tuple[int, ...]
) -> None:
    version, chosen = choose(host(), system(*there))
    assert (version, chosen.version) == (tensorflow, python)


def test_a_set_version_decides_the_python() -> None:
    assert choose(host(tensorflow="2.15.1"), system("3.13.0", "3.11.2", "3.8.1"))[1].version == (3, 11, 2)
    with pytest.raises(HostError, match=r"no Python here can run TensorFlow 2\.9\.3 .*found: 3\.13\.0"):
        choose(host(tensorflow="2.9.3"), system("3.13.0"))


@pytest.mark.parametrize("wish", ["3.8", "3.8.10", "python3.8", "/usr/bin/python3.8"])
def test_a_set_python_is_taken(wish: str) -> None:
    assert choose(host(python=wish), system("3.12.1", "3.10.4", "3.8.10"))[1].version == (3, 8, 10)


def test_a_python_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"hosts\.ini:10: python = 3\.1: gpu01 has no such"):
        choose(host(python="3.1"), system("3.12.1", "3.10.4"))


def test_a_python_without_venv_needs_uv() -> None:
    with pytest.raises(HostError, match=r"apt-get install python3\.10-venv"):
        choose(host(), system("3.10.4", venv=False))
    spec = venv_spec(host(), system("3.10.4", venv=False, uv="/usr/bin/uv"), Inputs(), gpus=False)
    assert not spec.pip


def test_uv_fetches_a_python_where_none_fits() -> None:
    assert choose(host(), system("3.14.0", uv="/u/uv")) == ("2.9.3", Python("", (3, 10), venv=False))
    assert choose(host(), system("3.12.1", uv="/u/uv"))[1].path, "what is there and fits needs no fetching"
    assert choose(host(tensorflow="2.5.3"), system("3.12.1", uv="/u/uv"))[1].version == (3, 9)
    with pytest.raises(ConfigError):
        choose(host(python="3.9"), system("3.12.1", uv="/u/uv"))


@pytest.mark.parametrize(
    ("tensorflow", "oldest", "newest"),
    [
        ("2.1.0", (3, 6), (3, 7)), ("2.4.4", (3, 6), (3, 8)), ("2.5.3", (3, 6), (3, 9)),
        ("2.7.4", (3, 7), (3, 9)), ("2.9.3", (3, 7), (3, 10)), ("2.11.1", (3, 8), (3, 10)),
        ("2.13.1", (3, 8), (3, 11)), ("2.15.1", (3, 9), (3, 11)), ("2.19.1", (3, 9), (3, 12)),
        ("2.20.0", (3, 9), (3, 13)), ("newest", (3, 10), (3, 13)),
    ],
)  # fmt: skip
def test_a_tensorflow_gets_a_python_that_it_has_wheels_for(
    tensorflow: str, oldest: tuple[int, int], newest: tuple[int, int]
) -> None:
    """The tags of the wheels on PyPI, 2026-11."""
    assert span(tensorflow) == (oldest, newest)


def test_what_is_installed() -> None:
    old, new = system("3.10.4"), system("3.12.1")
    assert venv_spec(host(), old, Inputs(), gpus=False).tensorflow == ("tensorflow-cpu==2.9.3",)
    assert venv_spec(host(), new, Inputs(), gpus=False).tensorflow == ("tensorflow-cpu", "tensorboard")
    assert venv_spec(host(tensorflow="2.20.0"), new, Inputs(), gpus=False).tensorflow == (
        "tensorflow-cpu==2.20.0",
    )
    assert venv_spec(host(), new, Inputs(), gpus=True).tensorflow == ("tensorflow[and-cuda]", "tensorboard")
    with_gpus = venv_spec(host(), old, Inputs(), gpus=True).tensorflow
    assert with_gpus[0] == "tensorflow==2.9.3"
    assert "nvidia-cudnn-cu11<9" in with_gpus
    assert constraints("2.9.3") == ("numpy<1.24", "protobuf<3.20", "transformers<5")
    assert constraints("newest") == ()


def test_another_installation_has_another_folder() -> None:
    made = [
        venv_spec(host(), system("3.10.4"), Inputs(), gpus=False),
        venv_spec(host(), system("3.10.5"), Inputs(), gpus=False),
        venv_spec(host(), system("3.10.4"), Inputs(), gpus=True),
        venv_spec(host(), system("3.10.4"), Inputs(requirements=("wandb",)), gpus=False),
    ]
    assert len({spec.installation for spec in made}) == len(made)
    env = venv_spec(host(), system("3.10.4"), Inputs(env={"A": "1"}), gpus=False)
    assert env.installation == made[0].installation
    assert env != made[0]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"tensorflow": "2.8.4"}, "tensorflow tensorflow-cpu==2.9.3 -> tensorflow-cpu==2.8.4"),
        ({"python": "3.8"}, "python 3.10.4 /usr/bin/python3.10 -> 3.8.10 /usr/bin/python3.8"),
        ({"activate": "module load x"}, "activate default -> module load x"),
        ({"gpus": "none"}, "gpus auto -> none"),
        ({"jupyter": True}, "requirements none -> jupyterlab"),
    ],
)
def test_a_changed_setting_is_one_line(change: dict[str, Any], line: str) -> None:
    there = system("3.10.4", "3.8.10")
    old = venv_spec(host(), there, Inputs(), gpus=False)
    new = venv_spec(host(**change), there, Inputs(), gpus=False)
    assert [str(d) for d in differences(old.told, new.told)] == [line]


def test_changed_inputs_are_one_line_each() -> None:
    old = venv_spec(host(), system("3.10.4"), Inputs(), gpus=False)
    inputs = Inputs(env={"A": "1"}, requirements=("wandb",), ca_bundle=b"x")
    new = venv_spec(host(), system("3.10.4"), inputs, gpus=False)
    lines = [str(d) for d in differences(old.told, new.told)]
    assert lines[0] == "requirements none -> wandb"
    assert lines[1].startswith("ca_bundle default -> ")
    assert lines[2:] == ["env A unset -> set"]
