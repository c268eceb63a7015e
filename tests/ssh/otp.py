"""A server that asks for a one-time password besides the key: real PAM, real pam_oath, a counter each."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ssh.server import Server, program

_SECRET = "3132333435363738393031323334353637383930"
_PAM = Path("/etc/pam.d")


def needs_oath() -> None:
    """Skip where one-time passwords can't be had; in CI that is a failure."""
    here = os.getuid() == 0 and program("oathtool") and list(Path("/lib").glob("*/security/pam_oath.so"))
    if not here and os.environ.get("CI") == "true":
        pytest.fail("no root, pam_oath or oathtool: one-time passwords were not tested")
    if not here:
        pytest.skip("no root, pam_oath or oathtool: one-time passwords are not tested here")


class Passwords:
    """The passwords of a person's token, one after the other."""

    def __init__(self) -> None:
        self._counter = 0

    def next(self) -> str:
        words = ["oathtool", "--counter", str(self._counter), _SECRET]
        self._counter += 1
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def asking(server: Server, user: str) -> Iterator[Passwords]:
    """Start a server anew, so that it asks each login for a password of a token.

    PAM takes the name of the program for that of its service, so this sshd has a name of its own.
    """
    name = f"orch-otp-{server.port}"
    assert server.program
    server.program = shutil.copy(server.program, server.folder / name)
    users = server.folder / "users.oath"
    users.touch(mode=0o600)
    users.write_text(f"HOTP {user} - {_SECRET}\n")
    lines = f"auth required pam_oath.so usersfile={users} window=5 digits=6\n"
    (_PAM / name).write_text(f"{lines}account required pam_permit.so\nsession required pam_permit.so\n")
    server.stop()
    try:
        server.start(
            "UsePAM yes",
            "PermitRootLogin yes",  # by default not by more than a key
            "KbdInteractiveAuthentication yes",
            "AuthenticationMethods publickey,keyboard-interactive",
        )
        yield Passwords()
    finally:
        (_PAM / name).unlink()
