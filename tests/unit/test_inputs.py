"""What is read on this machine for a deploy, and how it is said when it can't be."""

from pathlib import Path

import pytest

from orchestrator.container.inputs import read_inputs
from orchestrator.errors import ConfigError

from .deploys import host


def test_values_come_from_the_file_and_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# comment\n\nA=1\n  B= two  words \nHOME_ONLY\nNOT_SET\nURL=a=b\n")
    found = read_inputs(host(env_file=str(file), env={"A": "2"}), {"HOME_ONLY": "here"})
    assert found.env == {"A": "2", "B": " two  words ", "HOME_ONLY": "here", "URL": "a=b"}
    assert "two  words" not in repr(found)


@pytest.mark.parametrize(("line", "words"), [("A B=1", "env:2: expected NAME=VALUE"), ("=1", "env:2")])
def test_a_wrong_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "env").write_text(f"A=1\n{line}\n")
    if line == "=1":  # Docker passes over a line without a name
        assert read_inputs(host(env_file=str(tmp_path / "env")), {}).env == {"A": "1"}
        return
    with pytest.raises(ConfigError, match=words):
        read_inputs(host(env_file=str(tmp_path / "env")), {})


@pytest.mark.parametrize("setting", ["env_file", "startup", "ca_bundle"])
def test_a_missing_file_is_named_with_its_setting(tmp_path: Path, setting: str) -> None:
    with pytest.raises(ConfigError) as told:
        read_inputs(host(**{setting: str(tmp_path / "no")}), {})
    assert str(told.value) == f"hosts.ini:10: {setting}: {tmp_path}/no: No such file or directory"


def test_requirements_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "req.txt").write_text(
        "wandb  # tracking\n\n# all\n-r more/base.txt\n--extra-index-url https://x\n"
    )
    (tmp_path / "more" / "base.txt").write_text("albumentations<2\n")
    found = read_inputs(host(requirements=("transformers", str(tmp_path / "req.txt"))), {})
    assert found.requirements == ("transformers", "wandb", "albumentations<2", "--extra-index-url https://x")


@pytest.mark.parametrize("line", ["-e .", "./pkg", "-r req.txt", "/abs/pkg"])
def test_requirements_that_cant_be_sent_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "req.txt").write_text(line + "\n")
    with pytest.raises(ConfigError, match=r"hosts\.ini:10: requirements: "):
        read_inputs(host(requirements=(str(tmp_path / "req.txt"),)), {})


def test_keys_are_lines_or_files(tmp_path: Path) -> None:
    (tmp_path / "a.pub").write_text("# mine\nssh-ed25519 AAAA1 a\nssh-ed25519 AAAA2 b\n")
    keys = ("ssh-ed25519 AAAA1 a", str(tmp_path / "a.pub"))
    assert read_inputs(host(authorized_keys=keys), {}).keys == ("ssh-ed25519 AAAA1 a", "ssh-ed25519 AAAA2 b")


def test_a_private_key_is_never_sent(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")
    with pytest.raises(ConfigError, match=r"id is a private key; name the \.pub file"):
        read_inputs(host(authorized_keys=(str(tmp_path / "id"),)), {})
