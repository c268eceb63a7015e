"""Completion in real shells, from files alone: quick, and silent whatever is wrong."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from orchestrator.cli.install import MARK, SHELLS

ORCH = Path(sys.executable).with_name("orch")
QUICK = 0.15
"""Seconds of a processor for one answer, less what the interpreter takes to start."""

needs = {
    shell: pytest.mark.skipif(
        not shutil.which(shell) and os.environ.get("CI") != "true", reason=f"no {shell} here"
    )
    for shell in SHELLS
}
shells = pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs[shell]) for shell in SHELLS])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home and project with hosts and a remembered run; `hosts.ini` reaches nothing that exists."""
    (tmp_path / "hosts.ini").write_text("[lab]\ngpu01 ansible_host=192.0.2.1\ngpu02\n[big]\nbox\n")
    run = {"name": "nightly", "person": "ana", "project": "x", "hosts": ["gpu01"]}
    cache = tmp_path / ".cache/orch/runs.jsonl"
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({"run": "20261130-0214-nightly-7f3a", **run}) + "\n")
    return tmp_path


def environment(home: Path, **more: str) -> dict[str, str]:
    path = f"{ORCH.parent}:/usr/bin:/bin"
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", **more}


def orch(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = environment(home, **more)
    return subprocess.run(
        [ORCH, *words], cwd=home, env=env, capture_output=True, text=True, check=False, timeout=60
    )


def asked(home: Path, line: str, **more: str) -> list[str]:
    """What is offered at the end of a line, as bash asks for it. It must come without a word on stderr."""
    at = str(len(line.split()) - (not line.endswith(" ")))
    done = orch(home, _ORCH_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=at, **more)
    assert (done.returncode, done.stderr) == (0, "")
    return [item.partition(",")[2] or item for item in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("orch gpu-", ["gpu-status"]),
        ("orch s", ["stop", "ssh", "ssh-config", "schedule"]),
        ("orch --inst", ["--install-completion"]),
        ("orch schedule re", ["remove"]),
        ("orch doctor --js", ["--json"]),
        ("orch doctor ", ["gpu01", "gpu02", "box", "lab", "big"]),
        ("orch deploy --hosts g", ["gpu01", "gpu02"]),
        ("orch deploy --hosts gpu01,g", ["gpu01,gpu02"]),
        ("orch ps -x l", ["lab"]),
        ("orch ps --state st", ["starting", "stopped"]),
        ("orch tail ", ["nightly", "20261130-0214-nightly-7f3a"]),
        ("orch stop n", ["nightly"]),
        ("orch exec -it n", ["nightly"]),
        ("orch exec gpu01 -- ls ch", ["file,ch"]),
        ("orch ssh b", ["box", "big"]),
        ("orch cp gpu01", ["gpu01:"]),
        ("orch cp nowhere", ["file,nowhere"]),
        ("orch train -- tr", ["file,tr"]),
        ("orch --inventory other.ini hosts o", []),
        ("orch hosts --inventory other.ini o", ["other"]),
        ("orch nonsense x", []),
        ("orch exec 'gpu", ["gpu01", "gpu02"]),
    ],
)
def test_what_is_offered(home: Path, line: str, offered: list[str]) -> None:
    (home / "other.ini").write_text("other\n")
    found = asked(home, line)
    assert [f if f in offered else f"file,{f}" for f in found] == offered


@pytest.mark.parametrize(
    "text", ["[lab\n", "gpu01 volumes=nonsense\n", "\0\xff", "[a:children]\nb\n[b:children]\na\n"]
)
def test_a_broken_inventory_offers_nothing_and_says_nothing(home: Path, text: str) -> None:
    (home / "hosts.ini").write_text(text, encoding="latin-1")
    assert set(asked(home, "orch doctor ")) <= {"gpu01", "a", "b"}
    assert asked(home, "orch tail n") == ["nightly"]


def test_nothing_is_written_and_nothing_asked(home: Path) -> None:
    (home / "hosts.ini").write_text("gpu01 host_vars=1\n")
    before = sorted(home.rglob("*"))
    assert asked(home, "orch doctor -vv --log-file log g", ORCH_LOG_FILE=str(home / "log")) == ["gpu01"]
    assert asked(home, "orch doctor g", ORCH_INVENTORY="/no/such/file") == []
    assert asked(home, "orch doctor g", ORCH_TIMEOUT="nonsense") in ([], ["gpu01"])
    assert sorted(home.rglob("*")) == before


def test_entries_of_the_crontab(home: Path) -> None:
    crontab = home / "bin/crontab"
    crontab.parent.mkdir()
    crontab.write_text("#!/bin/sh\necho '# BEGIN orch weekly'; echo '@weekly x'; echo '# END orch weekly'\n")
    crontab.chmod(0o755)
    path = f"{crontab.parent}:{environment(home)['PATH']}"
    assert asked(home, "orch schedule remove w", PATH=path) == ["weekly"]
    assert asked(home, "orch schedule run ", PATH=path) == ["weekly"]
    crontab.write_text("#!/bin/sh\necho no >&2; exit 1\n")
    assert asked(home, "orch schedule remove w", PATH=path) == []


def test_it_is_quick(home: Path) -> None:
    """With 500 hosts and 2000 runs; the processor's time, since a machine may be busy."""
    (home / "hosts.ini").write_text("[lab]\ngpu[001:500]\n[lab:vars]\nvolumes=/data:/data\n")
    runs = home / ".cache/orch/runs.jsonl"
    runs.write_text(runs.read_text() * 2000)

    def spent(work: object) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        work()  # type: ignore[operator]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare = min(spent(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)) for _ in range(3))
    for line in ("orch doctor gpu49", "orch tail n"):
        assert min(spent(lambda line=line: asked(home, line)) for _ in range(3)) - bare < QUICK


# In real shells


@pytest.fixture
def installed(home: Path) -> Path:
    for shell in SHELLS:
        done = orch(home, "--install-completion", shell)
        assert (done.returncode, done.stderr) == (0, f"It works in every new {shell}.\n")
    for startup in (home / ".bashrc", home / ".zshrc"):
        startup.write_text(startup.read_text() + "PS1='ready> '\n")
    return home


def typed(home: Path, words: list[str], line: str, whole: str) -> None:
    """Type a line in an interactive shell, press TAB, and see what becomes of it."""
    child = pexpect.spawn(
        words[0],
        words[1:],
        cwd=str(home),
        env=environment(home),
        timeout=60,
        dimensions=(24, 200),
    )
    try:
        child.expect_exact("ready> ")
        child.send(f"{line}\t")
        child.expect_exact(whole)
    finally:
        child.close(force=True)


COMPLETED = [
    ("orch gpu-st", "orch gpu-status "),
    ("orch deploy --hosts gpu01,b", "orch deploy --hosts gpu01,b"),
    ("orch doctor bo", "orch doctor box "),
    ("orch tail nig", "orch tail nightly "),
    ("orch fetch --overw", "orch fetch --overwrite "),
]


@needs["bash"]
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(("line", "whole"), COMPLETED)
def test_bash(installed: Path, line: str, whole: str) -> None:
    typed(installed, ["bash", "--noprofile", "--rcfile", f"{installed}/.bashrc", "-i"], line, whole)


@needs["zsh"]
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(("line", "whole"), COMPLETED)
def test_zsh(installed: Path, line: str, whole: str) -> None:
    typed(installed, ["zsh", "-i", "-o", "no_global_rcs"], line, whole)


@needs["fish"]
def test_fish(installed: Path) -> None:
    for line, offered in (
        ("orch gpu-st", "gpu-status"),
        ("orch doctor bo", "box"),
        ("orch tail nig", "nightly"),
        ("orch fetch --overw", "--overwrite"),
    ):
        words = ["fish", "-c", f"complete -C '{line}'"]
        env = environment(installed, SHELL="/usr/bin/fish")
        done = subprocess.run(
            words, cwd=installed, env=env, capture_output=True, text=True, check=True, timeout=60
        )
        assert [found.split("\t")[0] for found in done.stdout.splitlines()] == [offered]
        assert done.stderr == ""


# Installing it


@pytest.mark.parametrize("before", [None, "", "alias a=b\n", "no end", "\xff\n"])
def test_the_line_is_added_once_and_the_rest_stays(home: Path, before: str | None) -> None:
    startup = home / ".bashrc"
    if before is not None:
        startup.write_text(before, encoding="latin-1")
    first, again = orch(home, "--install-completion", "bash"), orch(home, "--install-completion", "bash")
    script = home / ".config/orch/completion.bash"
    line = f"[ ! -r {script} ] || . {script}   {MARK}"
    number = 2 if before else 1
    assert first.stdout == f"wrote   {script}\nwrote   {startup}:{number}: {line}\n"
    assert again.stdout == f"kept    {script}\nkept    {startup}:{number}: {line}\n"
    start = (before or "") + ("\n" if before and not before.endswith("\n") else "")
    assert startup.read_text(encoding="latin-1") == f"{start}{line}\n"


def test_an_old_line_is_replaced_and_a_link_stays_one(home: Path) -> None:
    (home / "dotfiles").write_text(f"one\n. /old/place   {MARK}\nthree\n")
    (home / "dotfiles").chmod(0o640)
    (home / ".zshrc").symlink_to("dotfiles")
    assert f"wrote   {home}/.zshrc:2: " in orch(home, "--install-completion", "zsh").stdout
    assert (home / ".zshrc").is_symlink()
    one, two, three = (home / "dotfiles").read_text().splitlines()
    assert (one, three) == ("one", "three")
    assert "completion.zsh" in two
    assert (home / "dotfiles").stat().st_mode & 0o777 == 0o640


@shells
def test_the_calling_shell_is_found_out(home: Path, shell: str) -> None:
    words = [shell, "-c", f"{ORCH} --install-completion; true"]
    env = environment(home, SHELL="/bin/sh")
    done = subprocess.run(words, cwd=home, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == f"It works in every new {shell}.\n"


def test_else_the_login_shell_counts_and_else_it_is_asked_for(home: Path) -> None:
    assert "fish/completions/orch.fish" in orch(home, "--install-completion", SHELL="/usr/bin/fish").stdout
    refused = orch(home, "--install-completion", SHELL="/bin/dash")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("orch: which shell?")
    assert (
        orch(home, "--show-completion", "tcsh").stderr
        == "orch: no completion for tcsh. There is: bash, zsh, fish.\n"
    )


@shells
def test_show_prints_what_install_writes(installed: Path, shell: str) -> None:
    shown = orch(installed, "--show-completion", shell).stdout
    place = {"fish": ".config/fish/completions/orch.fish"}.get(shell, f".config/orch/completion.{shell}")
    assert shown == (installed / place).read_text()


def test_a_startup_file_that_cant_be_written_is_one_line(home: Path) -> None:
    (home / ".bashrc").mkdir()
    done = orch(home, "--install-completion", "bash")
    assert done.returncode == 1
    assert done.stderr.startswith(f"orch: can't write {home}/.bashrc: Is a directory. Add to it: [ ! -r ")
