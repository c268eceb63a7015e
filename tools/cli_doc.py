"""Writes docs/cli.md from the commands themselves. A test holds the two together.

.venv/bin/python tools/cli_doc.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from orchestrator.cli.main import ALIASES, VERBS, cli

PAGE = Path(__file__).resolve().parents[1] / "docs/cli.md"

INTRODUCTION = """\
# The command line

Made from the commands by `tools/cli_doc.py`; change the texts there and run it again.
`orch VERB --help` says the same.
Exit codes are in [the README](../README.md#exit-codes), the shapes of `--json` in [json.md](json.md).
"""

COMMON = ("_verbose", "_log_file", "_inventory")
"""Options that every verb which reaches hosts has: told once."""


def page() -> str:
    """Return the page."""
    doctor = cli.get_command(click.Context(cli), "doctor")
    assert doctor
    common = [p for p in doctor.params if p.name in COMMON]
    parts = [INTRODUCTION, "## orch", _table(cli.params)]
    parts += ["Of every verb that reaches hosts, behind the verb:", _table(common)]
    for verb in VERBS:
        command = cli.get_command(click.Context(cli), verb)
        assert command
        parts += _command(f"orch {verb}", command, "##")
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _command(name: str, command: click.Command, level: str) -> Iterator[str]:
    also = ", ".join(f"`orch {alias}`" for alias, verb in ALIASES.items() if name == f"orch {verb}")
    yield f"{level} {name}"
    yield from _help(command)
    if also:
        yield f"Also: {also}."
    if isinstance(command, click.Group):
        for sub in command.commands.values():
            yield from _command(f"{name} {sub.name}", sub, f"{level}#")
        return
    yield "Usage: `" + " ".join([name, "[OPTIONS]", *_arguments(command)]) + "`"
    yield _table([p for p in command.params if p.name not in COMMON])


def _help(command: click.Command) -> Iterator[str]:
    """Yield paragraphs as they are meant: one that begins with \\b keeps its lines."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield "\n".join(f"    {line.strip()}" for line in paragraph.splitlines()[1:])
        else:
            yield " ".join(paragraph.split())


def _arguments(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            word = parameter.metavar if parameter.metavar is not None else (parameter.name or "").upper()
            if word:
                yield word


def _table(parameters: Sequence[click.Parameter]) -> str:
    rows = [_row(p) for p in parameters if isinstance(p, click.Option) and not p.hidden]
    return "\n".join(["| option | |", "|---|---|", *rows]) if rows else ""


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
    value = "" if option.is_flag or option.count else f" {_metavar(option)}"
    default = f" [default: {option.default}]" if option.show_default else ""
    return f"| {names}{_escaped(value)} | {_escaped((option.help or '') + default)} |"


def _metavar(option: click.Option) -> str:
    return option.metavar or option.type.name.replace("integer", "N").replace("float", "N").upper()


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
