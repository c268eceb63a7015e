"""The bundle: what is in it, what is not, and that its digest is that of its content."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError, UsageError
from orchestrator.run.code.bundle import collect
from tests.unit.projects import OPENSSH, cache, paths, top, write, write_all

__all__ = ["cache", "top"]  # fixtures


def test_secrets_and_what_any_machine_makes_are_never_sent(top: Path, cache: Path) -> None:
    write_all(
        top,
        {
            "train.py": "print(1)",
            ".git/HEAD": "ref: x",
            "lib/.DS_Store": "x",
            "lib/__pycache__/a.pyc": "x",
            "lib/a.py": "",
            "web/node_modules/x/index.js": "x",
            "venv/pyvenv.cfg": "home = /usr",
            "venv/bin/python": "x",
            ".env": "TOKEN=1",
            "sub/.env.local": "TOKEN=1",
            "id_ed25519": "anything",
            "id_rsa.pub": "ssh-rsa AAAA",
            "deploy.pem": OPENSSH,
            ".orch-part-353a2be5772ee317": "begun",
            ".orch-part-353a2be5772ee317-067c68c9256ea5f7": "begun beside it",
            "cert.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n",
            ".orchignore": "!.env\n!deploy.pem\n",
        },
    )
    found = collect(top, cache=cache)
    assert paths(found) == [".orchignore", "cert.pem", "id_rsa.pub", "lib/a.py", "train.py"]
    assert found.notes == ("not sent: deploy.pem (a private key)",)


def test_sockets_and_fifos_are_passed_over(top: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(top, a="1")
    os.mkfifo(top / "fifo")
    monkeypatch.chdir(top)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        assert paths(collect(top, cache=cache)) == ["a"]


GIT_CASES = {
    "*.log\n!keep.log\nbuild/\n/only_top\ndoc/**/*.pdf\n# no\n\\#odd\ntrailing   \n": [
        "a.log",
        "keep.log",
        "build/x",
        "src/build/y",
        "only_top",
        "src/only_top",
        "doc/a/b/c.pdf",
        "doc/c.pdf",
        "#odd",
        "trailing",
        "src/keep.log",
        "src/b.log",
    ],
    "[z-a]\nb[9-0]\n*.log\n": ["z", "a", "b5", "x.log"],
    "data/*\n!data/keep\n": ["data/keep", "data/drop", "data/sub/x"],
    "**/cache\r\nfoo?.txt\r\n[a-c].py\r\n!\r\n": [
        "x/cache/y",
        "cache",
        "foo1.txt",
        "foo.txt",
        "a.py",
        "d.py",
    ],
}


def git(top: Path, *words: str) -> str:
    asked = subprocess.run(["git", "-C", str(top), *words], capture_output=True, check=True)
    return asked.stdout.decode()


@pytest.mark.parametrize("patterns", GIT_CASES)
def test_gitignore_leaves_out_what_git_leaves_out(top: Path, cache: Path, patterns: str) -> None:
    git(top, "init", "-q")
    write_all(top, dict.fromkeys(GIT_CASES[patterns], "x"))
    write_all(top, {".gitignore": patterns, "src/.gitignore": "!b.log\nonly_top\n", "src/z": ""})
    write_all(top, {".git/info/exclude": "z\n"})
    shown = git(top, "ls-files", "-z", "--others", "--exclude-standard").split("\0")[:-1]
    assert [e.path for e in collect(top, cache=cache).entries if e.kind != "dir"] == sorted(shown)


def test_gitignore_says_nothing_outside_git(top: Path, cache: Path) -> None:
    write_all(top, {".gitignore": "*\n", "a": ""})
    assert paths(collect(top, cache=cache)) == [".gitignore", "a"]


def test_a_worktree_uses_the_repository_s_exclude_file(top: Path, cache: Path) -> None:
    git(top, "init", "-q")
    git(top, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    git(top, "worktree", "add", "-q", "tree")
    write_all(top, {".git/info/exclude": "secret\n", "tree/secret": "", "tree/a": ""})
    assert paths(collect(top / "tree", cache=cache)) == ["a"]


def test_a_repository_inside_has_its_own_patterns(top: Path, cache: Path) -> None:
    git(top, "init", "-q")
    write_all(top, {".gitignore": "*.log\n", "a.log": "", "part/.git": "gitdir: ../x", "part/a.log": ""})
    write_all(top, {"part/.gitignore": "b\n", "part/b": ""})
    assert paths(collect(top, cache=cache)) == [".gitignore", "part/.gitignore", "part/a.log"]


def test_orchignore_has_the_last_word(top: Path, cache: Path) -> None:
    git(top, "init", "-q")
    write_all(top, {"a.txt": "", "b.txt": "", "data/small.csv": "", "data/big.bin": "", "data/d/x": ""})
    write_all(top, {"out/deep/er/model.npz": "", "out/deep/log": "", "out/e": ""})
    write_all(top, {".gitignore": "b.txt\ndata/\nout/\n"})
    write_all(top, {".orchignore": "a.txt\n!b.txt\n!data/small.csv\n!/out/**/model.npz\n.gitignore\n"})
    assert paths(collect(top, cache=cache)) == [
        ".orchignore",
        "b.txt",
        "data/small.csv",
        "out/deep/er/model.npz",
    ]


@pytest.mark.parametrize("line", ["!", "[z-a]", "!" + "x" * 5000 + "[z-a]"], ids=["empty", "range", "long"])
def test_a_bad_line_of_orchignore_is_named(top: Path, cache: Path, line: str) -> None:
    write_all(top, {".orchignore": f"a\n{line}\n"})
    with pytest.raises(ConfigError, match=rf"\.orchignore:2: '{re.escape(line[:60])}' is no pattern") as told:
        collect(top, cache=cache)
    assert len(str(told.value)) < 300


def test_pipes_and_folders_in_the_place_of_lists_are_no_lists(top: Path, cache: Path) -> None:
    git(top, "init", "-q")
    write_all(top, {"a": "", "part/.git": "gitdir: x\0y", "part/b": "", "sub/.gitignore/x": ""})
    os.mkfifo(top / ".gitignore")
    os.mkfifo(top / ".orchignore")
    assert {"a", "part/b", "sub/.gitignore/x"} <= set(paths(collect(top, cache=cache)))


@pytest.mark.parametrize(
    "target", ["/etc/hosts", "../elsewhere", "sub/../../elsewhere", "up/x", "../project/sub/x"]
)
def test_a_link_that_leaves_is_refused_by_name(top: Path, cache: Path, target: str) -> None:
    write_all(top, {"sub/x": "1"})
    (top / "link").symlink_to(target)
    if target == "up/x":
        (top / "link").unlink()
        write_all(top, {"out/.keep": "", ".orchignore": "up\n"})
        (top / "up").symlink_to("..")
        (top / "link").symlink_to(target)
    with pytest.raises(UsageError, match=r"can't be sent: link\. Put this line into \.orchignore: /link  Or"):
        collect(top, cache=cache)


def test_links_inside_are_kept_and_absolute_ones_made_relative(top: Path, cache: Path) -> None:
    write_all(top, {"sub/x": "1"})
    (top / "a").symlink_to("sub/x")
    (top / "sub/b").symlink_to(top / "sub" / "x")
    (top / "d").symlink_to("sub")
    (top / "gone").symlink_to("nowhere")
    links = {e.path: e.target for e in collect(top, cache=cache).entries if e.kind == "link"}
    assert links == {"a": "sub/x", "sub/b": "x", "d": "sub", "gone": "nowhere"}


def test_home_and_root_are_refused(top: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(top))
    for folder in (top, Path("/")):
        with pytest.raises(UsageError, match="is no project"):
            collect(folder, cache=cache)
    with pytest.raises(UsageError, match="is no folder"):
        collect(top / "nothing", cache=cache)


def test_too_much_names_the_largest_paths_and_the_line_that_helps(top: Path, cache: Path) -> None:
    write_all(top, {"src/data/[1] a/big.bin": bytes(600_000), "src/train.py": "x" * 10})
    write_all(top, {f"runs/{n}": bytes(1000) for n in range(100)})
    write_all(top, {f"small{n}": bytes(n * 1000) for n in range(6)})
    with pytest.raises(UsageError) as caught:
        collect(top, max_bytes=500_000, cache=cache)
    assert caught.value.details == (
        "  600 kB  src/data/[1] a/big.bin\n  100 kB  runs/\n  5.0 kB  small5\n"
        "  4.0 kB  small4\n  3.0 kB  small3"
    )
    assert r".orchignore: /src/data/\[1] a/big.bin" in str(caught.value)
    assert "--max-size 1M" in str(caught.value)
    with pytest.raises(UsageError, match=r"a line each: /src/data/\\\[1\] a/big.bin  /runs/  Or"):
        collect(top, max_bytes=100_000, cache=cache)
    write_all(top, {".orchignore": "/src/data/\\[1] a/big.bin\n/runs/\n"})
    collect(top, max_bytes=100_000, cache=cache)


def test_empty_folders_are_kept(top: Path, cache: Path) -> None:
    (top / "checkpoints" / "a").mkdir(parents=True)
    write_all(top, {"b/c": "", "logs/x": "", ".orchignore": "logs/*\n", "gone/__pycache__/a.pyc": ""})
    assert [(e.path, e.kind) for e in collect(top, cache=cache).entries] == [
        (".orchignore", "file"),
        ("b/c", "file"),
        ("checkpoints/a", "dir"),
        ("logs", "dir"),
    ]


@contextmanager
def as_somebody() -> Iterator[None]:
    """Give up root's right to read everything, for a while."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_what_can_t_be_read_is_said() -> None:
    with tempfile.TemporaryDirectory() as made:
        top = Path(made)
        top.chmod(0o755)
        write_all(top, {"a": "", "b": "", "d/x": ""})
        (top / "b").chmod(0)
        (top / "d").chmod(0)
        with as_somebody():
            found = collect(top, cache=Path("/nowhere"))
        (top / "d").chmod(0o700)
    assert paths(found) == ["a"]
    assert sorted(found.notes) == ["not sent: b (permission denied)", "not sent: d/ (permission denied)"]


def test_the_digest_counts_content_only(top: Path, cache: Path, tmp_path: Path) -> None:
    write_all(top, {"a": "1", "b/c": "2"})
    first = collect(top, cache=cache).digest
    os.utime(top / "a", (5, 5))
    (top / "a").chmod(0o600)
    assert collect(top, cache=cache).digest == first
    other = write_all(tmp_path / "other", {"b/c": "2", "a": "1"})
    assert collect(other, cache=cache).digest == first
    changes = [
        lambda: (top / "a").chmod(0o755),
        lambda: (top / "a").write_text("3"),
        lambda: (top / "b/c").rename(top / "c"),
        lambda: ((top / "c").unlink(), (top / "c").symlink_to("a")),
        lambda: ((top / "c").unlink(), (top / "c").symlink_to("b")),
    ]
    seen = {first}
    for change in changes:
        change()
        seen.add(collect(top, cache=cache).digest)
    assert len(seen) == 1 + len(changes)


def test_collecting_needs_no_locale(top: Path, cache: Path) -> None:
    write_all(top, {"é": "1"})
    code = (
        "import sys; from pathlib import Path; from orchestrator.run.code.bundle import collect;"
        "print(collect(Path(sys.argv[1]), cache=Path(sys.argv[2])).digest)"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code, str(top), str(cache)],
            env={"HOME": "/nowhere", "LC_ALL": locale, "PATH": os.environ["PATH"], **mode},
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout
        for locale, mode in [
            ("C", {}),
            ("C.UTF-8", {}),
            ("C", {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        ]
    }
    assert said == {f"{collect(top, cache=cache).digest}\n".encode()}
