"""What a rendering may not do: leave a hole, escape, change line ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import render as room
from orchestrator.errors import OrchError
from orchestrator.render import render


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own folder of templates."""
    monkeypatch.setattr(room, "templates_root", lambda: tmp_path)
    room._environment.cache_clear()
    yield tmp_path
    room._environment.cache_clear()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cd /\nrm -rf {{ folder }}/\n", "template t.j2:2: 'folder' is undefined"),
        ("{% if folder %}x{% endif %}\n", "template t.j2:1: 'folder' is undefined"),
        ("{{ host.name }}\n{{ host.folder }}\n", "template t.j2:2: 'dict object' has no attribute 'folder'"),
        ("\n{% include 'part.j2' %}\n", "template t.j2:3: 'folder' is undefined"),
        ("\n{% if %}\n", "template t.j2:2: Expected an expression"),
    ],
)
def test_what_is_missing_is_an_error_with_template_line_and_name(
    templates: Path, text: str, said: str
) -> None:
    (templates / "t.j2").write_text(text)
    (templates / "part.j2").write_text("\n\n{{ folder }}\n")
    with pytest.raises(OrchError) as caught:
        render("t.j2", host={"name": "gpu01"})
    assert said in str(caught.value)


def test_values_are_written_as_they_are_and_quoted_where_it_is_asked(templates: Path) -> None:
    (templates / "t.j2").write_bytes(b"A={{ a }}\r\nB={{ a | q }}\n\n")
    assert render("t.j2", a="""a&b<c>"d" 'e' $f""") == (
        """A=a&b<c>"d" 'e' $f\n""" + """B='a&b<c>"d" '"'"'e'"'"' $f'\n\n"""
    )
