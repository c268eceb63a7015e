"""The exception that a Python program died of, from texts that real interpreters print."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from orchestrator.run.explain.exception import last_exception

FILE = Path(__file__).resolve().parents[2] / "templates" / "supervisor" / "traceback_end.py"
spec = spec_from_file_location("traceback_end", FILE)
assert spec
assert spec.loader
module = module_from_spec(spec)
spec.loader.exec_module(module)


def said(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


GROUP = "raise ExceptionGroup('g', [ValueError('one'), ExceptionGroup('h', [TypeError('two')])])"
CHAIN = "try: 1 / 0\nexcept ZeroDivisionError: {}['key']"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("raise ValueError('no: ' + 'x' * 400)", "ValueError: no: " + "x" * 284),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        (CHAIN, "KeyError: 'key'"),
        ("def f(): f()\nf()", "RecursionError: maximum recursion depth exceeded"),
        ("if", "SyntaxError: invalid syntax"),
        ("class A(Exception): __module__ = 'a.b'\nraise A('x\\x1b[31my')", "a.b.A: xy"),
        pytest.param(
            GROUP,
            "TypeError: two",
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="3.11 has them"),
        ),
    ],
)
def test_what_the_interpreter_prints(code: str, line: str) -> None:
    assert module.exception(f"Epoch 1/3\n{said(code)}", loose=False) == line


@pytest.mark.parametrize(
    "code",
    ["print('fine')", "import sys; sys.exit('a message')", "raise SystemExit(3)", "import os; os._exit(1)"],
)
def test_no_exception(code: str) -> None:
    assert module.exception(f"Epoch 1/3\n{said(code)}", loose=True) is None


def test_what_follows_is_allowed_only_where_it_may_be_part_of_it() -> None:
    text = (
        said("raise ValueError('no\\n\\nDetected at node x')")
        + "terminate called without an active exception\n"
    )
    assert module.exception(text, loose=True) == "ValueError: no"
    assert module.exception(text, loose=False) is None
    assert module.exception(text + "Epoch 1\n" * 101, loose=True) is None


def test_a_progress_bar_before_it_hides_nothing() -> None:
    text = "1/9 [..]\r9/9 [==]\r" + said("raise ValueError('no')")
    assert module.exception(text, loose=False) == "ValueError: no"
    assert module.exception(text.replace("\n", "\r\n"), loose=False) == "ValueError: no"


def test_a_bar_that_ends_without_a_newline_hides_nothing() -> None:
    assert (
        module.exception("1/9 [..] - loss: 0.48" + said("raise ValueError('no')"), loose=False)
        == "ValueError: no"
    )


def test_what_keras_wraps_is_told_and_not_the_wrapping() -> None:
    frame = '    File "a.py", line 3, in f  *\n        return g()\n'
    message = f"in user code:\n\n{frame}\n    TypeError: no such shape\n"
    text = said(f"raise ValueError({message!r})")
    assert module.exception(text, loose=True) == "TypeError: no such shape"
    assert last_exception(text.splitlines()) == "TypeError: no such shape"
