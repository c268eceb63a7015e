"""This machine as a Machine, by subprocesses and nothing else; `shell` may be any sh."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.container.engine import Environment
from orchestrator.hosts.base import DEADLINE, Machine, Result, Stream, Terminal, Tunnel
from orchestrator.hosts.command import Command, Script, lasting
from orchestrator.inventory import Host


class HereStream:
    def __init__(self, shell: tuple[str, ...], text: str, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [*shell, "-c", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr

    def read(self, size: int = 65536, timeout: float | None = None) -> bytes | None:
        if not select.select([self.stdout], [], [], timeout)[0]:
            return None
        return os.read(self.stdout.fileno(), size)

    def read_error(self) -> bytes:
        found = b""
        while select.select([self.stderr], [], [], 0)[0] and (data := os.read(self.stderr.fileno(), 4096)):
            found += data
        return found

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def close_stdin(self) -> None:
        self.stdin.close()

    def resize(self, columns: int, rows: int) -> None: ...

    def status(self) -> int | None:
        return self.process.wait(timeout=30)

    def close(self) -> None:
        for file in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                file.close()
        self.process.wait(timeout=30)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Here(Machine):
    def __init__(self, home: Path, *shell: str, path: str = os.environ["PATH"]) -> None:
        self.host = Host("here", "127.0.0.1")
        self.shell = shell or ("sh",)
        self.env = {"HOME": str(home), "PATH": path}

    def run(self, script: Script, *, deadline: float = DEADLINE) -> Result:
        done = subprocess.run(
            [*self.shell, "-c", script.text],
            capture_output=True,
            check=False,
            timeout=deadline,
            env=self.env,
            stdin=subprocess.DEVNULL,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def stream(self, command: Command | Script, *, terminal: Terminal | None = None) -> Stream:
        return HereStream(self.shell, lasting(command).text, self.env)

    def put(self, data: bytes | BinaryIO, path: str, *, mode: int = 0o600) -> None:
        raise AssertionError("not used")

    def get(self, path: str, into: BinaryIO) -> None:
        raise AssertionError("not used")

    def tunnel(self, port: int, address: str = "127.0.0.1") -> Tunnel:
        raise AssertionError("not used")

    def close(self) -> None: ...


def unheard(machine: Here, text: str, sent: bytes = b"") -> int:
    """Run a script that gets `sent` on stdin and whose words nobody hears, as when its caller was killed."""
    program = [*machine.shell, "-c", lasting(Script("x", text)).text]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=machine.env
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stderr.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(sent)
            process.stdin.close()
        return process.wait(timeout=60)


def machine_of(shell: str, folder: Path, tools: Iterable[str]) -> Here:
    """A host whose shell and tools are those of Debian, or of busybox alone: then it has these `tools`."""
    home = folder / "home"
    home.mkdir()
    if shell != "busybox":
        return Here(home, shell)
    busybox = shutil.which("busybox")
    assert busybox, "these tests need busybox"
    own = folder / "tools"
    own.mkdir()
    for name in tools:
        (own / name).symlink_to(busybox)
    return Here(home, busybox, "sh", path=str(own))


MACHINE = re.sub(r"[^A-Za-z0-9-]+", "-", os.uname().nodename).strip("-")
"""What scripts on this machine call it in names of folders."""


def record(environment: Environment) -> Path:
    """Write down what is deployed, as a deploy does; return the folder."""
    here = Path(environment.place) / "hosts" / environment.machine
    here.mkdir(parents=True, exist_ok=True)
    (here / "environment.json").write_text(environment.text() + "\n")
    (here / "environment.sh").write_text(environment.script())
    return here


def venv_in(folder: Path, **more: Any) -> Environment:
    """A deployed venv whose folder on the host is `folder`."""
    place = str(folder)
    return Environment(
        engine="venv",
        user="ana",
        uid=os.getuid(),
        gid=os.getgid(),
        home=place,
        dir=place,
        place=place,
        machine=MACHINE,
        workspace=place,
        env="e",
        python="3",
        person="ana",
        project="p",
        folder="f",
        spec="s",
        command=("/bin/sh", f"{place}/enter"),
        whole=f"{place}/whole",
        **more,
    )
