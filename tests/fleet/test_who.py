"""Who is who in a container and on the host: engines that map user ids, and accounts of every kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .lab import Host
from .lab.shell import wait_until
from .orch import Orch
from .small import IMAGE, built
from .test_path import run_id

WHERE = ("--hosts", "gpu02")
BIG = 1827400513
SOCKET = "unix:///run/user/1500/docker.sock"
ROOTLESS = """\
mkdir -p /run/user/1500 && cd
export XDG_RUNTIME_DIR=/run/user/1500 PATH=/usr/local/lib/orch-fleet:/usr/sbin:/usr/bin:/sbin:/bin
setsid /usr/share/docker.io/contrib/dockerd-rootless.sh --data-root /var/lib/podman/ana-docker \\
    --exec-opt native.cgroupdriver=cgroupfs >rootless.log 2>&1 </dev/null & echo $!
"""


@pytest.fixture
def small(orch: Orch, gpu01: Host, gpu02: Host) -> Iterator[Orch]:
    """ana, with the image that is built already to load into an engine of gpu02."""
    built(orch, gpu01)
    gpu02.run("rm -rf /home/*/.orch")
    yield orch.having(ORCH_IMAGE=IMAGE)
    gpu02.run("rm -rf /home/*/.orch")


def used(orch: Orch, host: Host, *, user: str, owner: str = "ana", place: str = "ana/mnist") -> None:
    """Deploy and train; the user inside is `user`, and what he makes is the account's on the host."""
    assert f"user {user}" in orch("deploy", "--yes", *WHERE).stdout
    number = user.partition("(")[2].rstrip(")")
    run = run_id(orch("train", "--wait", *WHERE, "--", "sh", "-c", "id -u; touch made ~/made").stdout)
    assert orch("tail", run).stdout == f"{number}\n"
    folder = f"/home/{owner}/.orch/{place}"
    made = host.run(f"stat -c %u {folder}/runs/{run}/gpu02/work/made {folder}/home/made").stdout.split()
    assert made == host.run(f"stat -c %u /home/{owner} /home/{owner}").stdout.split()
    assert orch("ssh", "gpu02", "id -u").stdout == f"{number}\n", "by the container's own sshd"
    orch("down", "--yes", *WHERE)


def test_an_engine_that_remaps_user_ids(small: Orch, gpu01: Host, gpu02: Host) -> None:
    gpu02.run("id dockremap >/dev/null 2>&1 || useradd -r dockremap")
    gpu02.run("sed -i /^dockremap:/d /etc/subuid /etc/subgid")
    gpu02.run("echo dockremap:300000:65536 | tee -a /etc/subuid >> /etc/subgid")
    with gpu02.docker_with(userns_remap="default"):
        gpu02.docker("load", "-q", "-i", built(small, gpu01))
        used(small, gpu02, user="ana (1500)")


def test_rootless_docker(small: Orch, gpu01: Host, gpu02: Host) -> None:
    gpu02.run("install -d -o ana -g ana /run/user/1500 /var/lib/podman/ana-docker")
    pid = gpu02.run(ROOTLESS, user="ana").stdout.strip()
    try:
        asked = f"docker -H {SOCKET} "
        wait_until(
            "rootless Docker", lambda: not gpu02.run(asked + "info", user="ana", check=False).returncode
        )
        gpu02.run(f"{asked} load -q -i {built(small, gpu01)}", user="ana")
        used(small.having(ORCH_ENGINE_COMMAND=asked), gpu02, user="root (0)")
    finally:
        gpu02.run(f"kill -- -{pid}; pkill -u ana -x dockerd", check=False)
    gone = small.having(ORCH_ENGINE_COMMAND=f"docker -H {SOCKET}")("deploy", "--yes", *WHERE, code=1).stderr
    assert gone.startswith(
        f"orch: gpu02: no Docker daemon answers at {SOCKET}. DOCKER_HOST or the docker context"
    )


@pytest.mark.parametrize(
    ("account", "person", "user"),
    [
        ("ana.b@lab.example", "José Ñandú", f"ana-b-lab-example ({BIG})"),
        ("LAB\\Ana", "7 田中", f"ana ({BIG})"),
    ],
)
def test_accounts_of_a_directory(
    small: Orch, gpu01: Host, gpu02: Host, account: str, person: str, user: str
) -> None:
    gpu02.docker("load", "-q", "-i", built(small, gpu01))
    line = f"{account}:*:{BIG}:{BIG}:{person}:/home/directory:/bin/bash"
    gpu02.run("cp /etc/passwd /etc/group /tmp; cat >> /etc/passwd", input=line + "\n")
    groups = gpu02.run("cat /etc/group").stdout
    gpu02.run("cat > /etc/group", input=groups.replace(":ana\n", f":ana,{account}\n"))
    gpu02.run(f"cp -rT /home/ana /home/directory && chown -R {BIG}:{BIG} /home/directory")
    inventory = small.fleet.client.inventory("ana").read_text()
    mine = small.home.parent / "lab.ini"
    mine.write_text(inventory.replace("ansible_user=ana", f"ansible_user={account}"))
    orch = small.having(ORCH_INVENTORY=str(mine), ORCH_PERSON=person)
    try:
        used(orch, gpu02, user=user, owner="directory", place="*/mnist")
    finally:
        gpu02.run("cp /tmp/passwd /tmp/group /etc; rm -rf /home/directory")
