"""Deploys without a daemon on this machine: real Pythons, a real pip with an index of its own, real runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pexpect
import pytest

from tests.until import until

from .index import TENSORFLOW, Index, serving, wheel

ORCH = str(Path(sys.executable).with_name("orch"))


@dataclass
class Here:
    """A project on this machine, with a home of its own."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def configure(self, **settings: str) -> None:
        lines = [f"{key} = {value}" for key, value in settings.items()]
        head = "here ansible_connection=local\n[all:vars]\nperson = ana\nproject = p"
        (self.project / "hosts.ini").write_text("\n".join([head, f"root = {self.root}", *lines]) + "\n")

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def place(self) -> Path:
        return self.root / "ana" / "p"

    def command(self, *words: str) -> tuple[list[str], dict[str, str]]:
        home = str(self.folder / "home")
        own = {"HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "PIP_CONFIG_FILE": "/dev/null"}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ORCH_", "PIP_"))}
        return [ORCH, *words], {**kept, **own, **self.environ}

    def orch(self, *words: str, code: int = 0) -> str:
        argv, environ = self.command(*words)
        done = subprocess.run(
            argv, cwd=self.project, env=environ, capture_output=True, text=True, check=False, timeout=240,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def installations(self) -> list[str]:
        return sorted(p.name for p in (self.place / "venv").iterdir() if p.is_dir())


@pytest.fixture
def here(tmp_path: Path) -> Here:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("print('trained')\n")
    return Here(tmp_path)


@pytest.fixture
def index() -> Iterator[Index]:
    wheels = {
        "tensorflow-cpu": wheel("tensorflow-cpu", "2.21.0", "tensorflow", TENSORFLOW),
        "tensorboard": wheel("tensorboard", "2.21.0"),
        "extra": wheel("extra", "1.0"),
    }
    with serving(wheels) as found:
        yield found


def pips(folder: Path) -> list[int]:
    """Return the processes of pip that install below `folder`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(os.fsencode(folder)) and b"pip" in words and b"install" in words:
            found.append(int(file.parent.name))
    return found


@pytest.mark.timeout(600)
def test_a_venv_through_its_life(here: Here, index: Index) -> None:
    here.configure(engine="venv", tensorflow="2.21.0", pip_index=index.url)
    index.held = "tensorboard"
    argv, environ = here.command("deploy", "--yes")
    with subprocess.Popen(
        argv, cwd=here.project, env=environ, text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as first:
        until(index.asked.is_set, "pip asks for the second package", 120)
        killed = pips(here.place)
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        assert first.wait(60) == 1
        assert first.stderr
        said = first.stderr.read()
        assert "orch: here: the installation was ended by signal 9. Deploy again." in said
    assert not list(here.place.glob("venv/*/whole"))
    assert "nothing is deployed here" in here.orch("exec", "here", "--", "true", code=1)
    index.release.set()

    assert "  venv       install" in here.orch("deploy", "--yes")
    assert "here   unchanged   Python 3" in here.orch("deploy")
    assert "TensorFlow 2.21.0" in here.orch("deploy")
    (name,) = here.installations()
    assert "trained" in here.orch("train", "--wait", "--", "python3", "train.py")

    # packages by hand are seen, and made good by an installation beside the other
    here.orch("exec", "here", "--", "pip", "install", "-q", "--index-url", index.url, "extra")
    assert "by hand: +extra-1.0" in here.orch("deploy", "--dry-run")
    assert "changed by hand: +extra-1.0" in here.orch("doctor", "here")
    here.orch("train", "-d", "--name", "old", "--", "sleep", "600")
    try:
        here.orch("deploy", "--yes")
        assert here.installations() == [name, f"{name}-2"]
        here.orch("exec", "here", "--", "python3", "-c", "import extra", code=1)
        assert "unchanged" in here.orch("deploy"), "the old one stays as long as a run lives in it"
        here.configure(engine="venv", tensorflow="2.21.0", pip_index=index.url, requirements="extra")
        planned = here.orch("deploy", "--dry-run")
        assert "requirements none -> extra" in planned
        assert f"venv       remove   {here.place}/venv/{name}-2 (no run lives in it)" in planned
    finally:
        here.orch("stop", "old", "--now")
    here.orch("deploy", "--yes")
    here.orch("exec", "here", "--", "python3", "-c", "import extra")
    assert len(here.installations()) == 1
    assert name not in here.installations()[0]
    here.orch("down", "--yes")
    assert not (here.place / "venv").exists()


def test_the_accounts_own_environment(here: Here) -> None:
    conda = here.folder / "conda"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(conda)], check=True)
    here.configure(engine="host", activate=f"source {conda}/bin/activate; echo loaded", env="SEED='4 2'")
    planned = here.orch("deploy", "--dry-run")
    assert f"  host       use      Python {sys.version.split()[0]}   {conda}/bin/python3" in planned
    assert f"  activate            source {conda}/bin/activate; echo loaded" in planned
    assert not here.root.exists(), "a plan changes nothing"
    assert "here   ready in" in here.orch("deploy", "--yes")
    assert "here   unchanged" in here.orch("deploy")

    show = "import os, sys; print(sys.prefix, os.environ['SEED'], os.getcwd())"
    said = here.orch("exec", "here", "--", "python3", "-c", show)
    assert f"{conda} 4 2 {here.place}/workspace\n" in said
    assert "trained" in here.orch("train", "--wait", "--name", "one", "--", "python3", "train.py")
    (packages,) = (conda / "lib").glob("python3*/site-packages")
    (packages / "wandb-0.17.dist-info").mkdir()
    assert "packages none -> wandb-0.17" in here.orch("deploy", "--dry-run")
    here.orch("train", "-d", "--name", "two", "--", "sleep", "600")
    assert "running" in here.orch("ps")
    assert "stopped" in here.orch("stop", "two", "--now")
    assert f"{conda}\n" in here.orch("ssh", "here", "--", "echo $VIRTUAL_ENV")
    argv, environ = here.command("ssh", "here")
    shell = pexpect.spawn(argv[0], argv[1:], cwd=str(here.project), env=cast(Any, environ), timeout=60)
    shell.sendline("echo at=$(command -v python3)=")
    shell.expect_exact(f"at={conda}/bin/python3=")
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    assert "engine host has no sshd" in here.orch("ssh-config", "here")
    assert "record     remove " in here.orch("down", "--yes")
    assert (conda / "bin" / "python3").exists(), "only our record goes"
    assert "trained" in here.orch("tail", "one")
    assert "nothing is deployed here" in here.orch("exec", "here", "--", "true", code=1)


def test_a_named_python_is_what_commands_find(here: Here) -> None:
    conda = here.folder / "conda"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(conda)], check=True)
    (conda / "bin" / "python3.99").symlink_to("python3")
    here.configure(engine="host", python=f"{conda}/bin/python3.99")
    here.orch("deploy", "--yes")
    show = "import sys; print(sys.prefix)"
    for name in ("python3", "python"):
        assert here.orch("exec", "here", "--", name, "-c", show) == f"{conda}\n"
    assert here.orch("train", "--wait", "--", "python", "-c", show).count(f"{conda}\n") == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"activate": "source /no/such/file"},
            "hosts.ini:7: activate: `source /no/such/file` ended with status 1 on here: "
        ),
        ({"activate": "echo 'no such module' >&2; false"}, "ended with status 1 on here: no such module"),
        ({"activate": "echo 'oh"}, "hosts.ini:7: activate: "),
        ({"python": "/no/python3"}, "hosts.ini:7: python = /no/python3: here has no such program"),
        ({"python": "/bin/true"}, "hosts.ini:7: python = /bin/true: /bin/true does not run as a Python"),
    ],
)  # fmt: skip
def test_what_does_not_hold_there_is_one_line(here: Here, settings: dict[str, str], said: str) -> None:
    here.configure(engine="host", **settings)
    told = here.orch("deploy", "--yes", code=78)
    assert said in told
    assert told.count("\n") == 1
    assert not here.root.exists()
    assert "FAIL" in here.orch("doctor", "here", code=1)
