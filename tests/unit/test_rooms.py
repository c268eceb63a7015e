"""The rooms import only what design allows, and the command line starts without what it does not need."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "orchestrator"

# Room -> what it may import of orchestrator (itself always). `units` and `render` are leaves.
LEAVES = {"errors", "units"}
MAY = {
    "errors": set(),
    "units": set(),
    "inventory": LEAVES,
    "render": LEAVES,
    "hosts": LEAVES | {"inventory"},
    "facts": LEAVES | {"render", "hosts.command", "hosts.base"},
    "doctor": LEAVES | {"facts", "hosts", "inventory", "container", "run.cluster"},
    "container": LEAVES | {"facts", "render", "hosts", "inventory", "files.archive"},
    "files": LEAVES | {"render", "hosts"},
    "run": LEAVES | {"facts", "render", "hosts", "inventory", "container", "files"},
    "logs": LEAVES | {"render", "hosts", "run"},
    "gpus": LEAVES | {"facts", "run", "hosts", "inventory"},
    "schedule": LEAVES | {"facts", "run", "inventory", "render", "hosts.command"},
    "demo": LEAVES,
}
# The rooms of `run`, and what each may import of it; what stands in `run` itself imports the code's alone.
INSIDE_RUN = {
    "checks": {"cluster"},
    "code": {"ids"},
    "explain": {"code", "first", "record", "spec", "status"},
}
ONLY_IN = {
    "fabric": "hosts",
    "paramiko": "hosts",
    "invoke": "hosts",
    "jinja2": "render",
    "click": "cli",
    "rich": "cli",
}


def imports(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it, but for those of type checkers alone."""
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: a relative import"
            yield node.module


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = [p for p in sorted(PACKAGE.rglob("*.py")) if room_of(p) not in ("__init__", "__main__")]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_what_it_may(path: Path) -> None:
    room = room_of(path)
    for module in imports(path):
        top = module.split(".")[0]
        assert ONLY_IN.get(top, room) == room, f"{module} belongs in {ONLY_IN[top]}/"
        if top != "orchestrator" or module == "orchestrator" or room == "cli":
            continue
        inner = module.removeprefix("orchestrator.")
        allowed = MAY[room] | {room}
        assert any(inner == a or inner.startswith(a + ".") for a in allowed), f"{room} may not import {inner}"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) == "run"], ids=lambda p: p.stem)
def test_what_explains_a_run_stands_above_what_makes_it(path: Path) -> None:
    room = path.relative_to(PACKAGE / "run").parts[0]
    inside = {module.split(".")[2] for module in imports(path) if module.startswith("orchestrator.run.")}
    if room in INSIDE_RUN:
        assert inside <= INSIDE_RUN[room] | {room}
    else:
        assert inside & INSIDE_RUN.keys() <= {"code"}


def test_only_the_command_line_prints() -> None:
    for path in FILES:
        calls = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
        printing = [n.lineno for n in calls if isinstance(n.func, ast.Name) and n.func.id == "print"]
        assert not printing or room_of(path) == "cli", f"{path}:{printing}"


def test_the_trainer_knows_nothing_of_orch() -> None:
    for path in (ROOT / "trainer").rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
        names += [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level]
        assert not [n for n in names if n.split(".")[0] == "orchestrator"], path


@pytest.mark.parametrize("words", [[], ["--version"], ["--help"]])
def test_the_command_line_starts_light(words: list[str]) -> None:
    code = (
        "import sys, contextlib, io\n"
        "from orchestrator.cli.main import run\n"
        f"words = {words!r}\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    words and run(words)\n"
        "heavy = {'paramiko', 'fabric', 'rich', 'jinja2', 'tensorflow', 'cryptography'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_next_to_nothing_is_loaded_before_ctrl_c_is_taken() -> None:
    """What is loaded then, and is interrupted, ends with Python's traceback."""
    code = "import sys; sys.path.insert(0, '.'); import orchestrator.__main__; print('typing' in sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


def test_every_verb_has_its_file_its_help_and_an_example() -> None:
    from orchestrator.cli.main import ALIASES, KNOWN_ELSEWHERE, VERBS, cli

    for verb in VERBS:
        command = cli.get_command(None, verb)  # type: ignore[arg-type]
        assert command is not None
        assert command.help, verb
    assert set(ALIASES.values()) <= set(VERBS)
    assert set(KNOWN_ELSEWHERE.values()) <= set(VERBS)
    assert not set(KNOWN_ELSEWHERE) & (set(VERBS) | set(ALIASES))
