"""Help texts: a valid example of each verb, words for each option."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from orchestrator.cli.app import App
from orchestrator.cli.main import VERBS, cli
from tests.cli.calling import call


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every verb and sub-verb by its words."""
    for verb in VERBS:
        command = cli.get_command(click.Context(cli), verb)
        assert command
        yield verb, command
        if isinstance(command, click.Group):
            yield from ((f"{verb} {name}", sub) for name, sub in command.commands.items())


ALL = list(commands())
each = pytest.mark.parametrize(("words", "command"), ALL, ids=[words for words, _ in ALL])


def examples(command: click.Command) -> list[str]:
    return re.findall(r"^\s+orch (.+)$", command.help or "", re.MULTILINE)


@each
def test_there_is_an_example_and_it_can_be_typed(words: str, command: click.Command, tmp_path: Path) -> None:
    found = examples(command)
    assert found
    known = dict(ALL)
    for line in found:
        typed = shlex.split(line.partition(" > ")[0].partition(" >> ")[0], comments=True)
        verb = max((w for w in known if typed[: len(w.split())] == w.split()), key=len)
        assert verb.startswith(words)
        app = App(cwd=tmp_path, environ={"HOME": str(tmp_path)})
        rest = typed[len(verb.split()) :]
        with click.Context(cli, obj=app) as parent:
            known[verb].make_context(verb, rest, parent=parent)


@each
def test_each_option_is_explained(words: str, command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{words} {parameter.name}"
            assert parameter.help.endswith((".", ")")), f"{words} {parameter.name}: {parameter.help}"
        if isinstance(parameter, click.Argument) and parameter.metavar != "":
            shown = parameter.metavar or (parameter.name or "").upper()
            assert re.search(r"[A-Z]", shown), f"{words} {parameter.name}"


@each
def test_help_is_a_sentence_and_fits_80_columns(
    words: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = call(tmp_path, *words.split(), "--help")
    assert (said.status, said.err) == (0, "")
    first = (command.help or "").split("\n\n")[0]
    assert first.rstrip(")").endswith("."), first
    lines = [ln for ln in said.out.splitlines() if not ln.strip().startswith("orch ")]
    assert max(map(len, lines)) <= 80
