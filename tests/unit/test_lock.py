"""image.lock as text, and what is told of what is not as it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.container.direct.venv_locked import lock_venv, venv_lock
from orchestrator.container.direct.venv_spec import VenvSpec, venv_spec
from orchestrator.container.image.build import Built, environment_digest
from orchestrator.container.image.locked import ImageLock, image_lock, kind_of, lock_image
from orchestrator.container.inputs import Inputs
from orchestrator.container.lock import FILE, Lock, Locked, read_lock, refuse, write_lock
from orchestrator.errors import ConfigError
from orchestrator.facts.docker import Image
from orchestrator.facts.system import Python
from tests.unit.deploys import BASE, facts, host, spec_of

KIND = f"docker amd64 {BASE}"
LOCKED = Locked(
    KIND,
    base_id="ab" * 32,
    base_digest="tensorflow/tensorflow@sha256:" + "cd" * 32,
    dockerfile="12ef",
    env="34ab",
    requirements=("six", "demo >= 1 ; python_version < '4'"),
    packages=("demo==1.0", "absl-py==1.2"),
)
TEXT = f"""\

[{KIND}]
base_id = {"ab" * 32}
base_digest = tensorflow/tensorflow@sha256:{"cd" * 32}
dockerfile = 12ef
env = 34ab
requirements =
    demo >= 1 ; python_version < '4'
    six
packages =
    absl-py==1.2
    demo==1.0
"""


def test_it_is_written_sorted_and_read_as_it_was(tmp_path: Path) -> None:
    venv = Locked("venv amd64 tensorflow==2.9.3 python 3.10", packages=("a==1",))
    lock = Lock(tmp_path / FILE, {venv.kind: venv, KIND: LOCKED})
    write_lock(lock)
    text = (tmp_path / FILE).read_text()
    assert text.startswith("# What the environment of this project is made of.")
    assert text.endswith(f"{TEXT}\n[{venv.kind}]\npackages =\n    a==1\n")
    write_lock(read_lock(tmp_path))
    assert (tmp_path / FILE).read_text() == text
    assert sorted(p.name for p in tmp_path.iterdir()) == [FILE]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x\n", "image.lock:1: this is no image.lock. Write it anew: orch image lock"),
        ("[a]\nb\n", "image.lock:2: this is no image.lock"),
        ("[a]\nenv = 1\n[a]\n", "image.lock:3: this is no image.lock"),
        (None, "there is no .*image.lock. Deploy once without --locked"),
    ],
)
def test_what_is_no_lock_is_said_with_its_line(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_lock(tmp_path)


def test_a_kind_that_is_not_locked_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"has nothing for venv x \\(gpu01\\); it has {KIND}"):
        Lock(tmp_path / FILE, {KIND: LOCKED}).of("venv x", "gpu01")


def test_what_differs_is_told_by_its_name() -> None:
    assert list(LOCKED.packages_differ(("absl-py==1.3", "new==1"))) == [
        "package absl-py 1.3 (1.2 locked)",
        "package demo missing (1.0 locked)",
        "package new 1 (not locked)",
    ]
    assert list(LOCKED.packages_differ(LOCKED.packages)) == []
    assert list(LOCKED.recipe_differs("12ef", "", ("six", "wandb"))) == [
        "requirement wandb is new",
        "requirement demo >= 1 ; python_version < '4' is gone",
    ]
    assert [w.split(" has")[0] for w in LOCKED.recipe_differs("00", "11", LOCKED.requirements)] == [
        "your Dockerfile or its context",
        "the rendered Dockerfile",
    ]
    with pytest.raises(ConfigError) as raised:
        refuse(Path("/p/image.lock"), "gpu01", ["package a 1 (2 locked)", "package b 1 (2 locked)"])
    assert "gpu01: it would not be what image.lock says: package a 1 (2 locked), and 1 more." in str(
        raised.value
    )
    assert raised.value.details == "package a 1 (2 locked)\npackage b 1 (2 locked)"
    assert raised.value.exit_code == 78


def image(identity: str, *digests: str) -> Image:
    return Image(identity, "amd64", {"orch.base": "sha256:aa"}, digests)


def locked_image() -> ImageLock:
    """What `orch image lock` writes of a host, as the next host reads it."""
    _, recipe = spec_of(host(), facts(), Inputs(requirements=("demo",)))
    digest = f"{BASE}@sha256:ff"
    known = facts(docker__images={"tag": image("sha256:1"), BASE: image("sha256:aa", digest)})
    packages = ("demo==1.0",)
    built = Built(packages, environment_digest("sha256:aa", recipe, packages), "sha256:aa")
    section = lock_image(host(), known, recipe, "tag", built, ("demo",))
    assert (section.base_id, section.base_digest, section.env) == ("aa", digest, built.env)
    return image_lock(Lock(Path("/p/image.lock"), {section.kind: section}), host(), facts(), recipe)


def test_the_base_is_the_one_that_is_locked_by_id_or_by_digest() -> None:
    lock = locked_image()
    _, recipe = spec_of(host(), facts(), Inputs(requirements=("demo",)))
    lock.check_base(recipe, image("aa"))
    lock.check_base(recipe, image("sha256:other-store", lock.locked.base_digest))
    lock.check_base(recipe, None)  # it is pulled by its digest
    with pytest.raises(ConfigError, match=f"base {BASE} bb \\(aa locked\\)"):
        lock.check_base(recipe, image("sha256:bb"))
    alone = replace(lock, locked=replace(lock.locked, base_digest=""))
    with pytest.raises(ConfigError, match=f"orch image copy {BASE} FROM gpu01"):
        alone.check_base(recipe, None)
    assert lock.env(recipe, None) == lock.env(recipe, image("sha256:aa")) == lock.locked.env


def test_requirements_that_are_not_locked_are_refused_before_anything_is_built() -> None:
    _, recipe = spec_of(host(), facts(), Inputs(requirements=("demo", "six")))
    lock = locked_image()
    lock.check_recipe(recipe, ("demo",))
    with pytest.raises(ConfigError, match="requirement six is new"):
        lock.check_recipe(recipe, ("demo", "six"))
    _, other = spec_of(host(apt_packages=("git",)), facts(), Inputs(requirements=("demo",)))
    with pytest.raises(ConfigError, match="the rendered Dockerfile has changed"):
        lock.check_recipe(other, ("demo",))


def test_kinds_tell_engines_processors_and_bases_apart() -> None:
    _, recipe = spec_of(host(), facts(), Inputs())
    arm = replace(facts().docker, arch="aarch64")
    assert kind_of(host(), facts().docker, recipe) == KIND
    assert kind_of(host(engine="podman"), arm, recipe) == f"podman arm64 {BASE}"


def venv(**settings: str) -> VenvSpec:
    known = facts(system__pythons=(Python("/usr/bin/python3.10", (3, 10, 4)),)).system
    return venv_spec(host(engine="venv", **settings), known, Inputs(requirements=("demo",)), gpus=False)


def test_a_venv_is_locked_by_its_packages_without_what_python_brings() -> None:
    section = lock_venv(venv(), ("demo==1.0", "pip==22", "wheel==1"), "env")
    assert (section.kind, section.packages) == (
        "venv amd64 tensorflow-cpu==2.9.3 python 3.10",
        ("demo==1.0",),
    )
    lock = venv_lock(Lock(Path("/p/image.lock"), {section.kind: section}), "gpu01", venv())
    assert lock.differs(("demo==1.0", "pip==23")) == []
    with pytest.raises(ConfigError, match=r"package demo 2\.0 \(1\.0 locked\)"):
        lock.check(("demo==2.0",))
    exact = replace(venv(), locked=section.packages)
    assert exact.installation != venv().installation
    assert exact.told["locked"]
