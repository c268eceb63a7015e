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

NOTHING = -1.0
"""The accuracy of a training that did not end well."""

SPLIT = 16
"""TensorFlow 2.16 is the first with Keras 3; several workers then need tf_keras (docs/training.md)."""


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
    from orchestrator.demo import choose_engine, inventory, private_sshd, second_name
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
            return _play(stage, keep, epochs, began, second_name(reached))
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


def _play(stage: Stage, keep: bool, epochs: int, began: float, second: str) -> int:
    before = images()
    status, ready = stage.orch("deploy", "--yes", "--hosts", "here")
    if status:
        return _failed(f"the deploy ended with {status}")
    try:
        one = _train(stage, "here", "--name", "digits", "--", f"--epochs={epochs}")
        for look in (("ps",), ("ls", "digits"), ("gpu-status",)):
            stage.orch(*look)
        two = _train_on_two(stage, second, ready, epochs) if one >= GOOD else NOTHING
    finally:
        if not keep:
            stage.orch("down", "--yes", "--hosts", "here")
            remove(images() - before)
    worst = min(one, two)
    if worst < GOOD:
        return _failed(f"that is below {GOOD}" if worst > NOTHING else "a training did not end well")
    left, took = "" if keep else "; all of it is removed again", time.monotonic() - began
    click.echo(f"demo: test accuracy {one:.4f}, of two workers {two:.4f}, {took:.0f} s in all{left}")
    return OK


def _train(stage: Stage, hosts: str, *words: str) -> float:
    """Train to the end; return the test accuracy, NOTHING where there is none."""
    status, log = stage.orch("train", "--wait", "--hosts", hosts, *words)
    accuracies = re.findall(r"test accuracy ([01]\.\d+)", log)
    return float(accuracies[-1]) if accuracies and not status else NOTHING


def _train_on_two(stage: Stage, second: str, ready: str, epochs: int) -> float:
    """The same by two workers, which are on this one machine under two names."""
    with (stage.project / "hosts.ini").open("a") as inventory:
        inventory.write(second)
    newer = re.search(r"TensorFlow (2\.(\d+))\.", ready)
    if newer and int(newer[2]) >= SPLIT:  # pip would take all of tensorflow with it, beside tensorflow-cpu
        pip = ("python3", "-m", "pip", "install", "-q", "--no-deps", f"tf_keras~={newer[1]}.0")
        stage.orch("exec", "here", "--", *pip)
    return _train(stage, "here,there", "--name", "together", "--", f"--epochs={epochs}", "--batch_size=16")


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
