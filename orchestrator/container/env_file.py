"""Files of NAME=VALUE lines, as `docker run --env-file` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from orchestrator.errors import ConfigError, reason

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
"""What the name of an environment variable looks like."""


class NoVariable(ValueError):
    """A line (`line` is its number) that sets no variable."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} sets no variable")
        self.line = line


def env_lines(text: str, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what lines set: values as they are, quotes and all; a bare NAME takes its value from here.

    Empty lines and comments are passed over, as are names that aren't set here. Raises NoVariable.
    """
    found = []
    lines = re.split(r"\r?\n", text.removeprefix("\ufeff"))
    for number, line in enumerate(lines, 1):
        name, equals, _value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not VARIABLE.match(name):
            raise NoVariable(number)
        if equals:
            found.append((name, line.lstrip().partition("=")[2]))
        elif name in environ:
            found.append((name, environ[name]))
    return found


def read_env_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a file sets. Raises ConfigError with the file, and the line where one is wrong."""
    try:
        return dict(env_lines(path.read_bytes().decode(), environ))
    except UnicodeDecodeError as error:
        raise ConfigError("no UTF-8 text", where=str(path)) from error
    except OSError as error:
        raise ConfigError(reason(error), where=str(path)) from error
    except NoVariable as error:
        raise ConfigError("expected NAME=VALUE", where=f"{path}:{error.line}") from error
