"""Who owns what, and what it is called on a host."""

import getpass
from pathlib import Path

import pytest

from orchestrator.container.identity import (
    Identity,
    Person,
    Project,
    check_owner,
    identity_of,
    slug,
    top_folder,
)
from orchestrator.errors import Refused, UsageError
from orchestrator.inventory import Host, Settings


def host(**settings: object) -> Host:
    return Host("gpu01", "gpu01", settings=Settings(**settings))  # type: ignore[arg-type]


def identity(folder: Path, person: str = "ana", project: str = "mnist") -> Identity:
    return Identity(Person(person, slug(person)), Project(project, slug(project), folder))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ana", "ana"),
        ("Ana María", "ana-maria"),
        ("my_project.v2", "my-project-v2"),
        ("../../etc", "etc"),
        ("--rm", "rm"),
    ],
)
def test_a_slug_is_plain_ascii(text: str, expected: str) -> None:
    assert slug(text) == expected


def test_names_in_other_scripts_get_slugs_of_their_own() -> None:
    slugs = {slug(name) for name in ("张三", "李四", "模型mnist", "数据mnist", "!!!", "a" * 40, "a" * 41)}
    assert len(slugs) == 7
    assert all(s.isascii() and len(s) <= 32 for s in slugs)


def test_the_project_is_the_git_top_level(tmp_path: Path) -> None:
    (tmp_path / "Mnist" / ".git").mkdir(parents=True)
    inner = tmp_path / "Mnist" / "src"
    inner.mkdir()
    found = identity_of(host(person="ana"), inner)
    assert (found.project.name, found.project.folder) == ("Mnist", tmp_path / "Mnist")
    assert found.container == "orch-ana-mnist"


def test_without_git_it_is_the_folder(tmp_path: Path) -> None:
    assert identity_of(host(person="ana"), tmp_path).project.folder == tmp_path


def test_without_git_a_hosts_ini_further_up_marks_the_project(tmp_path: Path) -> None:
    inner = tmp_path / "mnist" / "data" / "raw"
    inner.mkdir(parents=True)
    (tmp_path / "mnist" / "hosts.ini").touch()
    assert top_folder(inner) == tmp_path / "mnist"
    (tmp_path / "mnist" / "data" / ".git").mkdir()
    assert top_folder(inner) == tmp_path / "mnist" / "data"


def test_a_home_kept_in_git_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "speech").mkdir()
    assert top_folder(tmp_path / "speech") == tmp_path / "speech"


def test_settings_name_project_and_person(tmp_path: Path) -> None:
    found = identity_of(host(person="Ana B", project="Nets", root="/data/orch/"), tmp_path)
    assert found.place(host(root="/data/orch/")) == "/data/orch/ana-b/nets"


def test_the_person_is_the_local_user(tmp_path: Path) -> None:
    assert identity_of(host(), tmp_path).person.name == getpass.getuser()


def test_a_user_without_a_name_is_told_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with pytest.raises(UsageError, match="ORCH_PERSON"):
        identity_of(host(), tmp_path)


def test_a_collision_names_both(tmp_path: Path) -> None:
    mine = identity(tmp_path, person="a-b", project="c")
    with pytest.raises(Refused, match=r"gpu01: .*'b-c' of 'a'.*'c' of 'a-b'.*hosts\.ini"):
        check_owner(mine, {"person": "a", "project": "b-c"}, where="gpu01")


def test_another_folder_of_the_same_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    mine, other = identity(tmp_path / "one"), identity(tmp_path / "two")
    recorded = {"person": "ana", "project": "mnist", "folder": other.folder}
    with pytest.raises(Refused, match=r"two.*one"):
        check_owner(mine, recorded, where="gpu01")
    (tmp_path / "two").rmdir()  # it was moved: the same project
    check_owner(mine, recorded, where="gpu01")


def test_the_same_project_on_another_laptop_is_no_collision(tmp_path: Path) -> None:
    recorded = {"person": "ana", "project": "mnist", "folder": f"other-laptop:{tmp_path}"}
    check_owner(identity(tmp_path / "x"), recorded, where="gpu01")
