"""The main job where sshd allows little: no forwarding, one session at a time; the login shell greets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Host
from .orch import Orch

LINES = ("AllowTcpForwarding=no", "MaxSessions=1", "PermitUserRC=no", "AllowAgentForwarding=no")


@pytest.fixture
def narrow(gpu01: Host) -> Iterator[Host]:
    """gpu01 with such an sshd; ana's login shell is fish, which greets."""
    gpu01.stop_sshd()
    gpu01.start_sshd(*LINES)
    gpu01.run("usermod -s /usr/bin/fish ana")
    gpu01.run("mkdir -p .config/fish && echo 'echo Welcome' > .config/fish/config.fish", user="ana")
    try:
        yield gpu01
    finally:
        gpu01.run("usermod -s /bin/bash ana; rm -rf /home/ana/.config/fish /home/ana/.orch")
        gpu01.run("docker ps -aq --filter name=orch-ana | xargs -r docker rm -f")
        gpu01.stop_sshd()
        gpu01.start_sshd()


def test_the_whole_path_without_forwarding_and_with_one_session(
    orch: Orch, narrow: Host, tmp_path: Path
) -> None:
    made = orch("deploy", "--yes", "gpu01")
    assert (
        "note: its sshd forbids forwarding (AllowTcpForwarding), so ssh can't reach the container"
        in made.stderr
    )
    assert re.search(r"gpu01   ready in \d+ s   Python 3\.9\.2   TensorFlow 2\.9\.3   user ana", made.stdout)

    assert orch("exec", "gpu01", "--", "id", "-un").stdout == "ana\n"
    assert orch("ssh", "gpu01", "--", "echo $((40 + 2))").stdout == "42\n"
    (tmp_path / "sent").write_text("there and back\n")
    orch("cp", tmp_path / "sent", "gpu01:sent")
    orch("cp", "gpu01:sent", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "there and back\n"

    orch("train", "--wait", "--hosts", "gpu01", "--name", "once", "--", "echo", "trained")
    assert orch("tail", "once").stdout.endswith("trained\n")
    assert "once" in orch("ps", "-a", "gpu01").stdout
    assert "forbids forwarding (AllowTcpForwarding), so a TensorBoard there can't be reached" in (
        orch("tensorboard", "once", code=1).stderr
    )
    orch("train", "-d", "--hosts", "gpu01", "--name", "long", "--", "sleep", "600")
    assert "stopped" in orch("stop", "long").stdout
    assert orch("doctor", "gpu01", code=None).stdout
    assert "down" in orch("down", "--yes", "gpu01").stdout
