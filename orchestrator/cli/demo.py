"""orch demo: the whole path on this machine, on the best it has."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator.errors import FAILED, OK

GOOD = 0.9
"""The least test accuracy that counts as trained."""


@dataclass(frozen=True)
class Stage:
    """Where the demo's commands run."""

    project: Path
    environ: dict[str, str]

    def orch(self, *words: str) -> tuple[int, str]:
        """Run one orch command as a person would, its output shown and returned."""
        click.secho(f"$ orch {shlex.join(words)}", bold=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *words],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout
        lines = []
        try:
            for line in process.stdout:
                click.echo(line, nl=False)
                lines.append(line)
            return process.wait(), "".join(lines)
        finally:
            if process.poll() is None:
                process.wait(timeout=30)


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave the container, the runs and the demo's folders.")
@click.option("--epochs", default=12, show_default=True, help="How long the trainer trains.")
def command(keep: bool, epochs: int) -> int:
    """Deploy, train, look and clean up on this machine, with the ordinary commands.

    Uses Docker where it works here and the image can be had, else a venv; an sshd of its own where there is
    one, else no ssh at all. Needs no root and touches nothing but a folder of its own in your cache folder.

    \b
      orch demo
      orch demo --keep --epochs 3
    """
    from orchestrator.demo import choose_engine, inventory, private_sshd
    from orchestrator.inventory.find import cache_folder

    began = time.monotonic()
    cache = cache_folder(os.environ)
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir=cache))  # /tmp may be memory, TensorFlow is 1 GB
    try:
        with private_sshd(folder) as reached:
            engine = choose_engine()
            click.echo(f"demo: engine {engine.what}" + (f" ({engine.why})" if engine.why else ""))
            how = (
                "reached by an sshd of its own on 127.0.0.1"
                if reached
                else "without ssh (no usable sshd here)"
            )
            click.echo(f"demo: this machine is host 'here', {how}")
            stage = _stage(folder, inventory(reached, engine.what, folder / "root"))
            return _play(stage, keep, epochs, began)
    finally:
        if keep:
            click.echo(f"demo: kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _stage(folder: Path, hosts: str) -> Stage:
    project = folder / "project"
    project.mkdir()
    (project / "hosts.ini").write_text(hosts)
    (project / ".orchignore").write_text("hosts.ini\n")
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH", "")) if p)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ORCH_")}
    own = {
        "PYTHONPATH": path,
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    return Stage(project, {**environ, **own})


def _play(stage: Stage, keep: bool, epochs: int, began: float) -> int:
    before = images()
    status, _ = stage.orch("deploy", "--yes", "--hosts", "here")
    if status:
        return _failed(f"the deploy ended with {status}")
    try:
        words = ("train", "--wait", "--hosts", "here", "--name", "digits")
        status, log = stage.orch(*words, "--", f"--epochs={epochs}")
        for look in (("ps",), ("ls", "digits"), ("gpu-status",)):
            stage.orch(*look)
    finally:
        if not keep:
            stage.orch("down", "--yes", "--hosts", "here")
            remove(images() - before)
    accuracies = re.findall(r"test accuracy ([01]\.\d+)", log)
    if status or not accuracies:
        return _failed(f"the training ended with {status}")
    left = "" if keep else "; all of it is removed again"
    click.echo(f"demo: test accuracy {accuracies[-1]}, {time.monotonic() - began:.0f} s in all{left}")
    return OK if float(accuracies[-1]) >= GOOD else _failed(f"that is below {GOOD}")


def images() -> set[str]:
    """Return the images of Docker's that have the demo's name, as a person's own project may."""
    from orchestrator.container.identity import slug
    from orchestrator.demo import run

    name = f"orch/{slug(getpass.getuser())}-demo"
    return set(run("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", name).stdout.split())


def remove(images: set[str]) -> None:
    """Remove images that a deploy built; the base stays."""
    from orchestrator.demo import run

    if images:
        run("docker", "image", "rm", *sorted(images))


def _failed(why: str) -> int:
    click.echo(f"orch: demo: {why}", err=True)
    return FAILED
