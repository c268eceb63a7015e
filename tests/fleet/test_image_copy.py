"""orch image copy between real engines: there and back, twice, in pieces, and onto a full disk."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .killing import alone, killed, moments, nothing_goes_on, steps
from .lab import Fleet, Host
from .lab.shell import wait_until
from .orch import Orch

TINY, ENV = "copied:1", "orch/ana-mnist:copied"
SLOW = "/srv/slow-docker"
SLOW_DOCKER = """\
#!/bin/sh
# Docker that takes a megabyte of an image, and the rest when it is told to.
[ "$1" = load ] && [ -e /tmp/slow ] || exec docker "$@"
{ head -c 1000000; touch /tmp/half; until [ -e /tmp/go ]; do sleep 0.1; done; cat; } | docker load
touch /tmp/ended
"""


@pytest.fixture(autouse=True)
def before(gpu01: Host, gpu02: Host) -> Iterator[str]:
    """An image of two layers, 8 MB that don't get smaller, on gpu01 alone; all images that gpu02 has."""
    _remove(gpu01, gpu02)
    gpu01.run(
        "mkdir -p /srv/tiny && cd /srv/tiny && head -c 4000000 /dev/urandom > big && tar -c big |"
        " docker import -c 'CMD [\"/big\"]' - copied:base &&"
        f" printf 'FROM copied:base\\nENV A=1\\nCOPY big /again\\n' > Dockerfile &&"
        f" docker build -q -t {TINY} . && docker tag {TINY} {ENV}"
    )
    gpu02.run(f"cat >{SLOW} && chmod 755 {SLOW}", input=SLOW_DOCKER)
    yield gpu02.docker("images", "-a")
    gpu02.run("touch /tmp/go", check=False)
    _remove(gpu01, gpu02)


def _remove(*hosts: Host) -> None:
    for host in hosts:
        host.run(
            f"docker rmi -f {TINY} {ENV} copied:base; rm -rf /tmp/half /tmp/go /tmp/slow /tmp/ended /srv/tiny"
            " /home/ana/.ssh/id_ed25519* /home/ana/.ssh/known_hosts; docker image prune -f",
            check=False,
        )


def layers(host: Host, name: str) -> list[str]:
    text = host.docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", name, check=False)
    return json.loads(text) if text.strip() else []


def nothing_is_left(host: Host, before: str) -> None:
    """No image, no layer, nothing in the engine's own folder for what comes in."""
    ids = [
        {line.split()[2] for line in table.splitlines()} for table in (before, host.docker("images", "-a"))
    ]
    assert ids[0] == ids[1]
    wait_until("docker clears away", lambda: not host.run("ls -A /var/lib/docker/tmp").stdout.strip())


@pytest.fixture
def slow(orch: Orch, fleet: Fleet, gpu02: Host, tmp_path: Path) -> Orch:
    """gpu02 stops in the middle of what it is sent."""
    gpu02.run("rm -f /tmp/half /tmp/go /tmp/ended; touch /tmp/slow")
    over = tmp_path / "over.ini"
    over.write_text(f"[gpu]\ngpu02 engine_command={SLOW}\n")
    return orch.having(ORCH_INVENTORY=f"{fleet.client.inventory('ana')}:{over}")


def at_half(slow: Orch, gpu02: Host) -> subprocess.Popen[str]:
    """A copy that waits in its middle."""
    copying = slow.start("image", "copy", TINY, "gpu01", "gpu02")
    wait_until("half is there", lambda: gpu02.run("test -e /tmp/half", check=False).returncode == 0)
    return copying


def go_on(gpu02: Host) -> None:
    gpu02.run("touch /tmp/go")
    wait_until(
        "the engine has heard all", lambda: gpu02.run("test -e /tmp/ended", check=False).returncode == 0
    )
    gpu02.run("rm /tmp/slow")


def test_an_image_goes_to_a_host_a_file_and_back(orch: Orch, gpu01: Host, gpu02: Host, project: Path) -> None:
    """What is there is not sent again, wherever it came from, and a name is given without a byte."""
    made = orch("image", "copy", TINY, "gpu01", "gpu02", "tiny.tar")
    assert made.stderr.startswith(f"gpu01   {TINY}   8.0 MB, to gpu02, tiny.tar\n")
    assert [line.split("   ")[:2] for line in made.stdout.splitlines()] == [
        ["gpu02", TINY],
        ["tiny.tar", TINY],
    ]
    assert made.stdout.count("   copied in ") == 2
    assert layers(gpu01, TINY) == layers(gpu02, TINY) != []

    again = orch("image", "copy", TINY, "gpu01", "gpu02", "tiny.tar")
    assert (again.stdout.count("has it already"), again.stderr) == (2, "")
    assert not gpu02.run(f"docker image inspect {ENV}", check=False).stdout.startswith("[{")
    named = orch("image", "copy", ENV, "gpu01", "gpu02")
    assert "has it already, and now calls it" in named.stdout
    assert layers(gpu02, ENV) == layers(gpu01, TINY)

    gpu02.docker("rmi", TINY, ENV)
    assert "gpu02   copied:1   copied in " in orch("image", "copy", "tiny.tar", "gpu02").stdout
    assert layers(gpu01, TINY) == layers(gpu02, TINY)
    gpu02.run(f"printf 'FROM {TINY}\\nENV A=2\\n' | docker build -q -t {TINY} -")
    refused = orch("image", "copy", "tiny.tar", "gpu02", code=1)
    assert f"orch: gpu02: another image is called {TINY} here (" in refused.stderr
    orch("image", "copy", "tiny.tar", "gpu02", "--overwrite")
    assert "A=1" in gpu02.docker("image", "inspect", "-f", "{{.Config.Env}}", TINY)
    (project / "half.tar").write_bytes((project / "tiny.tar").read_bytes()[:6_000_000])
    assert "half.tar holds no whole image" in orch("image", "copy", "half.tar", "gpu01", code=2).stderr
    assert sorted(p.name for p in project.glob("*tar*")) == ["half.tar", "tiny.tar"]


def test_here_is_this_machine_and_podman_is_as_good(
    orch: Orch, fleet: Fleet, gpu01: Host, gpu02: Host, tmp_path: Path
) -> None:
    """`here` is an engine by DOCKER_HOST; bob's podman on gpu02 calls it as podman does."""
    socket = f"unix:///proc/{gpu02._init()}/root/run/docker.sock"
    here = orch.having(DOCKER_HOST=socket)
    assert f"here   {ENV}   copied in " in here("image", "copy", ENV, "gpu01", "here").stdout
    assert layers(gpu02, ENV) == layers(gpu01, ENV)
    over = tmp_path / "over.ini"
    over.write_text("[gpu]\ngpu02 engine=podman ansible_user=bob\n")
    mixed = here.having(ORCH_INVENTORY=f"{fleet.client.inventory('ana')}:{over}")
    try:
        assert f"gpu02   {ENV}   copied in " in mixed("image", "copy", ENV, "here", "gpu02").stdout
        assert "has it already" in mixed("image", "copy", ENV, "gpu01", "gpu02").stdout
        assert gpu02.run(
            "podman images -n --format '{{.Repository}}:{{.Tag}}'", user="bob"
        ).stdout.split() == [f"localhost/{ENV}"]
        gpu01.docker("rmi", ENV, TINY)
        assert f"gpu01   {ENV}   copied in " in mixed("image", "copy", ENV, "gpu02", "gpu01").stdout
        assert layers(gpu02, ENV) == layers(gpu01, ENV)
    finally:
        gpu02.run(f"podman rmi -f {ENV}", user="bob", check=False)


def test_direct_goes_by_the_accounts_own_ssh_alone(orch: Orch, gpu01: Host, gpu02: Host) -> None:
    words = ("image", "copy", TINY, "gpu01", "gpu02", "--direct")
    alone = orch(*words, code=1)
    assert "orch: gpu01: your account there can't reach gpu02 by ssh on its own: " in alone.stderr
    assert "Leave --direct out" in alone.stderr
    gpu01.run("ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519", user="ana")
    key = gpu01.run("cat .ssh/id_ed25519.pub", user="ana").stdout
    gpu01.run(f"ssh-keyscan -t ed25519 {gpu02.address} > .ssh/known_hosts", user="ana")
    before = gpu02.run("cat .ssh/authorized_keys", user="ana").stdout
    gpu02.run("cat >> .ssh/authorized_keys", user="ana", input=key)
    try:
        assert f"gpu02   {TINY}   copied in " in orch(*words).stdout
        assert layers(gpu01, TINY) == layers(gpu02, TINY)
        assert "has it already" in orch(*words).stdout
    finally:
        gpu02.run("cat > .ssh/authorized_keys", user="ana", input=before)


def test_a_cut_line_leaves_nothing_and_the_next_copy_is_whole(
    slow: Orch, gpu01: Host, gpu02: Host, before: str
) -> None:
    copying = at_half(slow, gpu02)
    gpu02.stop_sshd()
    said = copying.communicate(timeout=120)[1]
    assert (copying.returncode, said.splitlines()[-1][:36]) == (69, "orch: gpu02: the connection went dur"), (
        said
    )
    go_on(gpu02)
    nothing_is_left(gpu02, before)
    gpu02.start_sshd()
    assert "copied in" in slow("image", "copy", TINY, "gpu01", "gpu02").stdout
    assert layers(gpu01, TINY) == layers(gpu02, TINY)


def test_an_orch_that_is_killed_leaves_nothing(
    slow: Orch, gpu01: Host, gpu02: Host, project: Path, before: str
) -> None:
    copying = at_half(slow, gpu02)
    copying.kill()
    copying.communicate(timeout=60)
    go_on(gpu02)
    nothing_is_left(gpu02, before)
    filing = slow.start("image", "copy", TINY, "gpu01", "tiny.tar")
    wait_until("the file begins", lambda: (project / "tiny.tar.part").exists() or filing.poll() is not None)
    os.kill(filing.pid, signal.SIGKILL)
    filing.communicate(timeout=60)
    made = slow("image", "copy", TINY, "gpu01", "gpu02", "tiny.tar")
    assert made.returncode == 0
    assert layers(gpu01, TINY) == layers(gpu02, TINY)
    assert [p.name for p in project.glob("*tar*")] == ["tiny.tar"]


def test_a_copy_that_is_killed_is_done_by_the_next(
    orch: Orch, gpu01: Host, gpu02: Host, before: str, chance: random.Random
) -> None:
    words = ("image", "copy", TINY, "gpu01", "gpu02")
    alone(gpu01, gpu02)
    for moment in moments(steps(orch, *words), chance, 4, 3.0):
        gpu02.docker("rmi", "-f", TINY, check=False)
        killed(moment, orch, *words)
        orch(*words)
        assert layers(gpu01, TINY) == layers(gpu02, TINY) != []
    nothing_goes_on(gpu01, gpu02)
    gpu02.docker("rmi", "-f", TINY)
    nothing_is_left(gpu02, before)


def test_a_full_disk_is_said_and_harms_neither_the_image_nor_the_others(
    orch: Orch, gpu01: Host, gpu02: Host, project: Path, before: str
) -> None:
    with gpu02.small_disk("/var/lib/docker/tmp", "4m"):
        full = orch("image", "copy", TINY, "gpu01", "gpu02", "tiny.tar", code=1)
        nothing_is_left(gpu02, before)
    assert "orch: gpu02: no space is left there, and nothing of the image is there" in full.stderr
    assert "tiny.tar   copied:1   copied in " in full.stdout
    gpu01.run(f"mv {shlex.quote('/var/lib/docker/image/overlay2/layerdb')} /var/lib/docker/gone")
    try:
        unread = orch("image", "copy", TINY, "gpu01", "gpu02", "other.tar", code=1)
    finally:
        gpu01.run("mv /var/lib/docker/gone /var/lib/docker/image/overlay2/layerdb")
    assert unread.stderr.count(f"{TINY} could not be read") == 1, unread.stderr
    nothing_is_left(gpu02, before)
    assert [p.name for p in project.glob("*tar*")] == ["tiny.tar"]


def test_what_is_in_no_engine_is_said(orch: Orch, gpu01: Host) -> None:
    began = time.monotonic()
    venv = orch.having(ORCH_ENGINE="venv")("image", "copy", TINY, "gpu01", "gpu02", code=2)
    assert (
        "orch: gpu01: images are docker's and podman's, and engine = venv there (ORCH_ENGINE)" in venv.stderr
    )
    none = orch("image", "copy", "gpu01", "gpu02", code=1)
    assert "orch: gpu01: nothing is deployed here." in none.stderr
    assert time.monotonic() - began < 60
