"""The user's crontab: one marked block per entry, every other byte left as it is."""

from __future__ import annotations

import os
import re
import subprocess

from orchestrator.errors import ConfigError, OrchError

_BLOCK = re.compile(rb"^# BEGIN orch (\S+)\n(.*?)^# END orch \1\n?", re.MULTILINE | re.DOTALL)
_BEGIN = re.compile(rb"^# BEGIN orch (\S+)$", re.MULTILINE)


def blocks(table: bytes) -> dict[str, str]:
    """Return the line of each of our blocks by name. Raises ConfigError for a block that has no end."""
    found = {
        m.group(1).decode(): m.group(2).decode("utf-8", "surrogateescape") for m in _BLOCK.finditer(table)
    }
    for begin in _BEGIN.findall(table):
        if begin.decode() not in found:
            raise ConfigError(
                f"# BEGIN orch {begin.decode()} has no # END", where="crontab", hint="Mend it: crontab -e"
            )
    return {name: body.strip() for name, body in found.items()}


def with_block(table: bytes, name: str, line: str) -> bytes:
    """Return the table with a block more at its end."""
    glue = b"" if not table or table.endswith(b"\n") else b"\n"
    body = line.encode("utf-8", "surrogateescape")
    return table + glue + b"# BEGIN orch %b\n%b\n# END orch %b\n" % (name.encode(), body, name.encode())


def without_block(table: bytes, name: str) -> bytes:
    """Return the table without a block."""
    return _BLOCK.sub(lambda m: b"" if m.group(1) == name.encode() else m.group(0), table)


def read() -> bytes:
    """Return the user's crontab, empty when there is none. Raises OrchError when it can't be read."""
    done = _crontab("-l")
    if done.returncode and b"no crontab for" not in done.stderr:
        raise OrchError(f"crontab -l: {_complaint(done)}")
    return b"" if done.returncode else done.stdout


def write(table: bytes) -> None:
    """Put a crontab in place of the old one. Raises OrchError with what crontab says against it."""
    done = _crontab("-", table)
    if done.returncode:
        raise OrchError(f"crontab: {_complaint(done)}")


def _crontab(word: str, table: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["crontab", word],
            input=table,
            capture_output=True,
            check=False,
            timeout=60,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise OrchError(
            "there is no crontab on this machine", hint="Install cron, or schedule elsewhere"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OrchError(f"crontab: {error}") from None


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").split("\n")
    said = [line.removeprefix('"-":').strip() for line in lines if line.strip()]
    return said[0] if said else f"exit status {done.returncode}"
