"""hosts.example.ini is example, reference and fixture at once."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from orchestrator.inventory import Settings, load
from orchestrator.inventory.settings import CONNECTION, RESERVED, SETTINGS

EXAMPLE = Path(__file__).parents[2] / "hosts.example.ini"
FIELDS = [field.name for field in dataclasses.fields(Settings)]


@pytest.fixture(scope="module")
def example():
    return load([EXAMPLE], environ={})


def test_it_is_read_without_a_warning(example):
    assert example.warnings == ()
    assert example.groups["servers"] == (
        "gpu01", "gpu02", "gpu11", "gpu12", "gpu13", "gpu14", "racka-n1", "rackb-n1",
    )  # fmt: skip
    by_name = {host.name: host for host in example.hosts}
    assert by_name["gpu02"].port == 2222
    assert by_name["racka-n1"].settings.memory == "64g"
    assert by_name["gpu11"].common_args == ("-o", "ProxyJump=bastion.example.org")
    assert by_name["workstation"].connection == "local"


@pytest.mark.parametrize("field", FIELDS)
def test_every_setting_stands_there_with_its_default(example, field):
    text = EXAMPLE.read_text(encoding="utf-8")
    assert re.search(rf"^{field} =", text, re.MULTILINE), f"{field} is missing in hosts.example.ini"
    (gpu01,) = example.select(["gpu01"]).hosts
    assert getattr(gpu01.settings, field) == getattr(Settings(), field)


def test_the_fields_and_the_keys_are_the_same():
    assert sorted(FIELDS) == sorted(SETTINGS)


@pytest.mark.parametrize("key", RESERVED)
def test_every_key_that_is_refused_is_named_there(key):
    text = EXAMPLE.read_text(encoding="utf-8")
    assert re.search(rf"^# Names that are kept .*\b{key}\b", text, re.MULTILINE)


def test_nothing_else_stands_there():
    keys = re.findall(r"^(\w+) =", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(keys) <= {*SETTINGS, *CONNECTION}
