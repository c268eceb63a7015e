"""What the documentation promises is there, and what is there is told in it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from orchestrator import errors
from orchestrator.cli.main import ALIASES, VERBS

TOP = Path(__file__).parents[2]
README, CHINESE, INDEX = TOP / "README.md", TOP / "README.zh-CN.md", TOP / "docs/README.md"
CODES = sorted({value for name, value in vars(errors).items() if name.isupper() and name[0] != "_"})
NOTES = sorted(path.name for path in INDEX.parent.glob("*.md") if path != INDEX)
PAGES = [README, CHINESE, INDEX, TOP / "CONTRIBUTING.md"]


def links(page: Path) -> list[str]:
    """The files that a page links to, as it writes them."""
    return [target for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()) if "://" not in target]


def exit_codes(page: Path) -> list[int]:
    """The codes that stand in the first column of a table."""
    return [int(code) for code in re.findall(r"^\| (\d+) \|", page.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_shown_at_work(verb):
    assert re.search(rf"^    \$ orch {verb}\b(?!-)", README.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", [README, CHINESE], ids=lambda page: page.name)
def test_no_verb_is_shown_that_is_not_there(page):
    shown = re.findall(
        r"(?:`|^    (?:\$ )?)(?:[A-Z_]+=\S+ )?orch ([a-z][a-z-]*)", page.read_text(), re.MULTILINE
    )
    assert set(shown) - {*VERBS, *ALIASES} == set()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_named_in_chinese(verb):
    assert re.search(rf"`orch {verb}\b(?!-)", CHINESE.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_what_a_page_links_to_is_there(page):
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [README, CHINESE], ids=lambda page: page.name)
def test_all_exit_codes_are_told(page):
    assert CODES == [0, 1, 2, 69, 75, 77, 78, 130]
    assert exit_codes(page) == CODES


def test_the_two_commands_are_told_and_the_checks_call_one():
    for page in (README, CHINESE):
        assert re.search(r"^    make demo\n    make test$", page.read_text(), re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert re.search(r"^make test$", (TOP / ".ci/run").read_text(), re.MULTILINE)


def test_the_first_run_takes_less_than_ten_lines():
    section = README.read_text().partition("## A first run")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("    ")]
    assert 3 < len(lines) < 10


def test_the_readmes_lead_to_each_other_and_to_all_settings():
    for page, other in ((README, CHINESE), (CHINESE, README)):
        assert other.name in links(page)
        assert "hosts.example.ini" in links(page)


@pytest.mark.parametrize("page", [README, CHINESE], ids=lambda page: page.name)
def test_settings_that_are_shown_are_read(page, tmp_path):
    from orchestrator.inventory import load

    (block,) = re.findall(r"^    \[all:vars\]\n(?:    .*\n)+", page.read_text(), re.MULTILINE)
    file = tmp_path / "hosts.ini"
    file.write_text("gpu01\n" + re.sub(r"^    ", "", block, flags=re.MULTILINE))
    inventory = load([file], environ={})
    assert inventory.warnings == ()
    assert inventory.hosts[0].settings.shm_size == "16g"


def test_the_index_names_every_note():
    assert sorted(target for target in links(INDEX) if "/" not in target) == NOTES


def test_the_reference_is_what_the_commands_say():
    spec = importlib.util.spec_from_file_location("cli_doc", TOP / "tools/cli_doc.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.PAGE.read_text() == made.page(), "run: .venv/bin/python tools/cli_doc.py"
