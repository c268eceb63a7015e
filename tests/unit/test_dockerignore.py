"""`.dockerignore` against the docker client itself, and what both builders must agree on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from orchestrator.container.image.context import read_source
from orchestrator.container.image.dockerignore import rules
from orchestrator.inventory import Host, Settings

from .docker_client import DOCKER, Client, client

TREE = (
    "a",
    "b.txt",
    "d/a",
    "d/b.txt",
    "d/e/a",
    "d/e/c.pyc",
    "e/d/a",
    "e/x.tmp",
    "x-1/a",
    "x-2/b.txt",
    "[x]/a",
)


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    if not DOCKER:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no docker client to compare with")
    with client(tmp_path_factory.mktemp("home")) as it:
        yield it


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("context")
    for path in (*TREE, "Dockerfile"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("FROM scratch\n")
    (top / "empty").mkdir()
    (top / "d/link").symlink_to("../gone")
    return top


def ours(top: Path) -> set[str]:
    source = read_source(Host("gpu01", "gpu01", settings=Settings(build_context=str(top))))
    assert source
    return {e.path for e in (*source.entries, *source.hidden)}


NAME = st.sampled_from(
    ["a", "b.txt", "d", "e", "x-1", "*", "?", "*.txt", "x-[12]", "x-[^1]", "c.p?c", "\\[x]", "**"]
)
PATTERN = st.lists(NAME, min_size=1, max_size=3).map("/".join)
FRAME = st.sampled_from(["{}", "/{}", "{}/", " {} ", "./{}", "#{}", "{}\r"])
# The classic builder does not look into a folder that is left out unless a name leads there, BuildKit does.
KEPT = st.sampled_from(
    ["!a", "!d/a", "!d/e/a", "!d", "!e/d", "! b.txt", "!Dockerfile", "!d/*.txt", "!.dockerignore"]
)
LINE = st.one_of(
    st.tuples(FRAME, PATTERN).map(lambda f: f[0].format(f[1])), KEPT, st.sampled_from(["", ".", "/"])
)


@settings(
    max_examples=int(os.environ.get("ORCH_TEST_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example(lines=["*.txt"])  # not those in folders
@example(lines=["d/?"])
@example(lines=["d/a", "!d"])
@example(lines=["**/a", "!d/e/a"])
@example(lines=["x-[^1]/*", "\\[x]"])
@example(lines=["d/**/a", "e/**"])
@example(lines=["**.pyc", "*/*.tmp"])
@given(lines=st.lists(LINE, max_size=5))
def test_what_is_sent_is_what_docker_sends(docker: Client, tree: Path, lines: list[str]) -> None:
    # Before 23, `**.pyc` was no end of names, and lines that changed nothing of a folder held beneath it.
    assume(docker.version >= 23 or not any(line.startswith("!") or "**" in line for line in lines))
    (tree / ".dockerignore").write_text("\n".join(lines) + "\n")
    assert ours(tree) == docker.sent(tree)


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("**/*.pyc\n", {"d/e/c.pyc"}),
        (
            "d\n!**/a\n",
            {"d", "d/b.txt", "d/e", "d/e/c.pyc", "d/link"},
        ),  # as BuildKit: d/a and d/e/a come back
        ("d/a\n!d\n", {"d/a"}),  # d itself was never left out
        (
            "*\n!d/e\n",
            {*TREE, "d", "e", "x-1", "x-2", "[x]", "e/d", "empty", "d/link"} - {"d/e/a", "d/e/c.pyc"},
        ),
        ("a\n!a\na\n", {"a"}),
        ("\ufeffa\n", {"a"}),
    ],
)
def test_the_last_pattern_decides(tree: Path, tmp_path: Path, text: str, left_out: set[str]) -> None:
    top = tmp_path / "context"
    shutil.copytree(tree, top, symlinks=True)
    (top / ".dockerignore").write_text("")
    everything = ours(top)
    (top / ".dockerignore").write_text(text)
    assert everything - ours(top) == left_out


@pytest.mark.parametrize("line", ["a[", "!", "a\\"])
def test_what_is_no_pattern_is_told_with_its_line(line: str) -> None:
    with pytest.raises(ValueError, match=r"line 2: .* is no pattern"):
        rules(f"a\n{line}\n")
