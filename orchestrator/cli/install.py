"""Completion of the command line in bash, zsh and fish: the script of a shell, and where it is kept."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator.cli.completing import VARIABLE
from orchestrator.errors import OrchError, UsageError

SHELLS = ("bash", "zsh", "fish")

MARK = "# orch: completion"
"""The end of the line in a shell's startup file by which it is known again."""

_OLD_BASH = "((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) || return 0\n"  # macOS has 3.2: no nosort
_ZSH_READY = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n"


@dataclass(frozen=True)
class Place:
    """Where a shell finds its script, and the line of its startup file that leads there, if it needs one."""

    script: Path
    startup: Path | None = None
    line: str = ""


def script(shell: str, program: click.Command) -> str:
    """Return what a shell has to read."""
    from click.shell_completion import ShellComplete, get_completion_class

    made = get_completion_class(shell)
    assert made
    # Not by made.source(): it calls another bash to ask for its version.
    text = ShellComplete.source(made(program, {}, "orch", VARIABLE))
    return {"bash": _OLD_BASH, "zsh": _ZSH_READY}.get(shell, "") + text


def install(shell: str, environ: Mapping[str, str], program: click.Command) -> list[str]:
    """Put the script in its place; return what was done, in lines. Doing it again changes nothing."""
    place = place_of(shell, environ)
    told = [f"{_written(place.script, script(shell, program))} {place.script}"]
    if place.startup:
        told.append(_line_in(place.startup, place.line))
    return told


def place_of(shell: str, environ: Mapping[str, str]) -> Place:
    """Return where the script of a shell belongs."""
    from orchestrator.inventory.find import config_folder

    home = Path(environ.get("HOME") or Path.home())
    if shell == "fish":
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        return Place(config / "fish/completions/orch.fish")
    path = config_folder(environ) / f"completion.{shell}"
    startup = home / ".bashrc" if shell == "bash" else Path(environ.get("ZDOTDIR") or home) / ".zshrc"
    quoted = shlex.quote(str(path))
    return Place(path, startup, f"[ ! -r {quoted} ] || . {quoted}   {MARK}")


def _written(path: Path, text: str) -> str:
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return "kept   "
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OrchError(f"can't write {path}: {error.strerror}") from error
    return "wrote  "


def _line_in(path: Path, line: str) -> str:
    """Have the line once in a startup file; return what was done, with the line's number."""
    try:
        lines = path.read_bytes().decode("utf-8", "surrogateescape").splitlines() if path.exists() else []
        if line in lines:
            return f"kept    {path}:{lines.index(line) + 1}: {line}"
        old = next((n for n, text in enumerate(lines) if text.endswith(MARK)), None)
        if old is None:
            number = len(lines) + 1
            _append(path, line)
        else:
            number = old + 1
            _replace(path, [*lines[:old], line, *lines[number:]])
    except OSError as error:
        raise OrchError(f"can't write {path}: {error.strerror}", hint=f"Add to it: {line}") from error
    return f"wrote   {path}:{number}: {line}"


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            whole = file.read(1) == b"\n"
        else:
            whole = True
        file.write(b"" if whole else b"\n")
        file.write(f"{line}\n".encode())


def _replace(path: Path, lines: list[str]) -> None:
    """Write a file anew, whole or not at all; a link stays one."""
    real = path.resolve()
    part = real.with_name(real.name + ".orch-part")
    part.write_bytes("".join(f"{text}\n" for text in lines).encode("utf-8", "surrogateescape"))
    part.chmod(real.stat().st_mode & 0o777)
    os.replace(part, real)


def shell_of(name: str, environ: Mapping[str, str]) -> str:
    """Return the shell that is meant; `auto` is the one that called us, else the login shell."""
    if name in SHELLS:
        return name
    if name != "auto":
        raise UsageError(f"no completion for {name}", hint=f"There is: {', '.join(SHELLS)}.")
    for path in (_parent(), environ.get("SHELL", "")):
        found = path.strip().rpartition("/")[2].removeprefix("-")
        if found in SHELLS:
            return found
    raise UsageError("which shell?", hint="Name it: orch --install-completion bash (or zsh, fish)")


def _parent() -> str:
    """Return what the process that called us runs."""
    try:
        words = ["ps", "-o", "comm=", "-p", str(os.getppid())]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=5).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def take_install(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """`--install-completion`: install it and end."""
    if value and not ctx.resilient_parsing:
        shell = shell_of(value, os.environ)
        for line in install(shell, os.environ, ctx.command):
            click.echo(line)
        click.echo(f"It works in every new {shell}.", err=True)
        ctx.exit()


def take_show(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """`--show-completion`: print the script and end."""
    if value and not ctx.resilient_parsing:
        click.echo(script(shell_of(value, os.environ), ctx.command), nl=False)
        ctx.exit()
