"""The program as cron starts it: no agent, no terminal, nearly no environment; stdin empty or closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ssh.server import Server, keygen

# What a line of a crontab finds: see crontab(5).
CRON = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}


once = pytest.mark.transport("fabric", reason="what is said of keys is tested for both in test_login.py")


class Cron:
    """Runs `orch exec --on-host gpu01 -- WORDS` by a line of a crontab."""

    def __init__(self, sshd: Server, transport: str) -> None:
        self._sshd, self._transport = sshd, transport

    def __call__(self, key: Path | None, stdin: str, *words: str) -> subprocess.CompletedProcess[str]:
        inventory = self._sshd.folder / "hosts.ini"
        named = f"ansible_ssh_private_key_file={key}" if key else ""
        inventory.write_text(f"gpu01 ansible_host=127.0.0.1 ansible_port={self._sshd.port} {named}\n")
        orch = {"ORCH_INVENTORY": str(inventory), "ORCH_TRANSPORT": self._transport}
        return subprocess.run(
            [
                "/bin/sh",
                "-c",
                f'{sys.executable} -m orchestrator exec --on-host gpu01 -- "$@" {stdin}',
                "sh",
                *words,
            ],
            env=CRON | orch | {"HOME": str(self._sshd.client), "LOGNAME": "root"},
            cwd=Path(__file__).parents[2],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture
def cron(sshd: Server, transport: str) -> Cron:
    return Cron(sshd, transport)


@pytest.mark.parametrize("stdin", ["", "<&-"])
def test_a_key_without_a_passphrase_works(sshd: Server, cron: Cron, stdin: str) -> None:
    done = cron(sshd.login, stdin, "sh", "-c", "tty || echo none")
    assert (done.returncode, done.stdout + done.stderr) == (0, "not a tty\nnone\n")


@once
@pytest.mark.parametrize("stdin", ["", "<&-"])
def test_a_locked_key_is_told_at_once_and_nobody_is_asked(
    sshd: Server, cron: Cron, tmp_path: Path, stdin: str
) -> None:
    locked = keygen(tmp_path / "locked", passphrase="secret")
    done = cron(locked, stdin, "true")
    assert (done.returncode, done.stdout) == (77, "")
    assert done.stderr == (
        f"orch: gpu01: key file {locked} needs a passphrase and no agent has it. "
        f"ssh-add {locked}; for cron, use a key without a passphrase\n"
    )


def test_a_default_key_that_is_locked(sshd: Server, cron: Cron) -> None:
    """By hand it works through the agent; cron has none."""
    key = keygen(sshd.client / ".ssh" / "id_ed25519", passphrase="secret")
    sshd.authorized.write_text(key.with_suffix(".pub").read_text())
    done = cron(None, "", "true")
    assert (done.returncode, done.stdout) == (77, "")
    assert "id_ed25519 needs a passphrase and no agent has it" in done.stderr
    assert done.stderr.count("\n") == 1


@once
def test_an_unknown_host_key_is_refused_and_nobody_is_asked(sshd: Server, cron: Cron) -> None:
    sshd.known_hosts.unlink()
    done = cron(sshd.login, "", "true")
    assert (done.returncode, done.stdout) == (77, "")
    assert "its host key is unknown" in done.stderr
    assert "Trust it" not in done.stderr


@once
def test_output_that_nobody_reads(sshd: Server, cron: Cron) -> None:
    """`| head -1` in a crontab: no traceback, and no mail."""
    done = cron(sshd.login, "| head -c 5", "sh", "-c", "yes | head -n 100000")
    assert (done.stdout, done.stderr) == ("y\ny\ny", "")
