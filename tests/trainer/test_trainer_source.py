"""The trainer's source runs on Python 3.8 and needs nothing but TensorFlow."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[2] / "trainer").glob("**/*.py"))
BROUGHT_BY_TENSORFLOW = {"absl", "numpy", "tensorboard", "tensorflow"}
GENERIC_SINCE_39 = {"dict", "frozenset", "list", "set", "tuple", "type"}


def annotations(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if (found := getattr(node, field, None)) is not None:
                yield from ast.walk(found)


def run_time(source: str) -> Iterator[ast.AST]:
    """All nodes that Python evaluates; annotations are not, thanks to the __future__ import."""
    tree = ast.parse(source)
    put_off = set(annotations(tree)) if "from __future__ import annotations" in source else set()
    return (node for node in ast.walk(tree) if node not in put_off)


def is_newer(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr)
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in GENERIC_SINCE_39
    )


def newer(source: str) -> list[int]:
    return [node.lineno for node in run_time(source) if is_newer(node)]


def test_the_check_sees_what_python_38_cannot_do() -> None:
    future = "from __future__ import annotations\n"
    assert newer("def f(x: int | None): pass") == [1]
    assert newer(future + "def f(x: int | None) -> list[int]: pass") == []
    assert newer(future + "Number = int | float\nNames = list[str]") == [2, 3]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_it_is_python_38(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 8))
    assert newer(source) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_it_needs_only_tensorflow(path: Path) -> None:
    allowed = set(sys.stdlib_module_names) | BROUGHT_BY_TENSORFLOW
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {name.name.partition(".")[0] for name in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert str(node.module).partition(".")[0] in allowed
