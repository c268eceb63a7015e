"""Jinja2 over `templates/`: an undefined name is an error, and every rendering has a digest."""

from __future__ import annotations

import hashlib
import shlex
import traceback
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import OrchError

if TYPE_CHECKING:  # jinja2 costs 40 ms: it is imported by the first rendering
    from importlib.abc import Traversable  # importlib.resources.abc is 3.11

    from jinja2 import Environment


def templates_root() -> Traversable:
    """Return the folder of the templates: of the installed package, else of the checkout."""
    try:
        return files("orchestrator.templates")
    except ModuleNotFoundError:  # a bare checkout, or one that shadows the wheel
        return Path(__file__).resolve().parent.parent / "templates"


def source(name: str) -> str | None:
    """Return a template's text, with line ends of one kind; None when there is no such template."""
    path = templates_root().joinpath(*name.split("/"))
    return path.read_text(encoding="utf-8").replace("\r\n", "\n") if path.is_file() else None


def sources(*names: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each template that is meant: a file, or every Python file of a folder."""
    for name in names:
        path = templates_root().joinpath(name)
        inside = sorted(p.name for p in path.iterdir()) if path.is_dir() else []
        for full in [f"{name}/{n}" for n in inside if n.endswith(".py")] or [name]:
            yield full, source(full) or ""


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["q"] = lambda value: shlex.quote(str(value))
    return environment


def render(name: str, /, **values: Any) -> str:
    """Fill in a template. Raises OrchError naming template, line and variable when a value is missing."""
    from jinja2 import TemplateError, UndefinedError

    try:
        return _environment().get_template(name).render(values)
    except TemplateError as error:
        line = _line(error) if isinstance(error, UndefinedError) else getattr(error, "lineno", None)
        place = f"template {name}:{line}" if line else f"template {name}"
        raise OrchError(f"{place}: {error.message or type(error).__name__}") from error


def _line(error: BaseException) -> int | None:
    """Return the line of the innermost template that an error comes from: jinja2 makes frames of them."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)


def digest(*texts: str) -> str:
    """Return the SHA-256 (hex) of texts, each with its length, so that no two lists share one."""
    total = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogateescape")
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()
