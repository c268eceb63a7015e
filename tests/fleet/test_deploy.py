"""orch deploy, down and ssh-config on real hosts with a real Docker engine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .lab import Host
from .lab.shell import wait_until
from .orch import Orch
from .registry import registry

NAME = "orch-ana-mnist"
READY = "Python 3.9.2   TensorFlow 2.9.3"


@pytest.fixture(autouse=True)
def clean(gpu01: Host) -> Iterator[None]:
    """No container, and nothing of the project, before and after."""
    _wipe(gpu01)
    yield
    _wipe(gpu01)


def _wipe(host: Host) -> None:
    host.run(f"docker ps -aq --filter name={NAME} | xargs -r docker rm -f")
    host.run("rm -rf /root/.orch /home/ana/.orch /srv/orch")


def environment(host: Host, account: str = "ana") -> dict[str, Any]:
    home = "/root" if account == "root" else f"/home/{account}"
    found: dict[str, Any] = json.loads(
        host.run(f"cat {home}/.orch/ana/mnist/hosts/{host.name}/environment.json").stdout
    )
    return found


def inspect(host: Host, name: str = NAME) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.docker("inspect", name))[0]
    return found


def ssh(orch: Orch, tmp_path: Path, *words: str, user: str = "") -> subprocess.CompletedProcess[str]:
    """Run words in the container by the ssh program and the stanzas that orch prints."""
    config = tmp_path / "ssh_config"
    config.write_text(orch("ssh-config", "gpu01").stdout)
    line = ["ssh", "-F", str(config), "-o", "BatchMode=yes", f"{user}orch-mnist-gpu01", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, stdin=-3, timeout=60)


def test_from_nothing_to_a_container_and_back(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    planned = orch("deploy", "--dry-run", "-v", "gpu01")
    assert f"  container  create   {NAME}   gpus none   shm 8g   ssh 127.0.0.1:2222" in planned.stdout
    for file in ("Dockerfile", "entrypoint", "sshd_config", "setup.sh", "start"):
        assert f"---- gpu01: {file}\n" in planned.stdout
    assert gpu01.run("ls -d /home/ana/.orch", check=False).returncode
    assert gpu01.containers(all=True) == []

    asked = orch("deploy", "gpu01", code=2)
    assert "no terminal to ask on. Add --yes" in asked.stderr
    made = orch("deploy", "--yes", "gpu01")
    assert made.stdout.startswith("gpu01   ready in ")
    assert f"{READY}   user ana (1500)" in made.stdout
    assert "next:   orch train --hosts gpu01 -- python3 train.py" in made.stderr

    counter = gpu01.counter()
    again = orch("deploy", "gpu01")
    assert again.stdout == f"gpu01   unchanged   {READY}   user ana   ssh 127.0.0.1:2222\n"
    seen = counter.read()
    assert seen.connections == 1
    assert seen.execs <= 2

    found = inspect(gpu01)
    assert found["HostConfig"]["PortBindings"] == {"22/tcp": [{"HostIp": "127.0.0.1", "HostPort": "2222"}]}
    assert found["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"
    assert found["HostConfig"]["Init"] is True
    recorded = environment(gpu01)
    assert (recorded["container"], recorded["port"], recorded["uid"]) == (found["Id"], 2222, 1500)
    assert recorded["env"] == found["Config"]["Labels"]["orch.env"]

    inside = ssh(orch, tmp_path, "id -un; touch /orch/made /workspace/made; echo $HOME")
    assert inside.stdout.split() == ["ana", "/home/ana"]
    assert gpu01.run("stat -c %U /home/ana/.orch/ana/mnist/made").stdout == "ana\n"
    assert "Permission denied (publickey)" in ssh(orch, tmp_path, "id", user="root@").stderr

    orch("down", "gpu01", code=2)
    gone = orch("down", "--yes", "gpu01")
    assert gone.stdout == "gpu01   down; runs and data are in /home/ana/.orch/ana/mnist\n"
    assert gpu01.containers(all=True) == []
    assert gpu01.run("ls /home/ana/.orch/ana/mnist/workspace").stdout == "made\n"
    assert orch("down", "--yes", "gpu01").stdout == "gpu01   nothing is deployed here\n"


def test_the_root_account_gets_a_user_of_its_own(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    rooted = orch.using("root")
    assert "user orch (1000)" in rooted("deploy", "--yes", "gpu01").stdout
    inside = ssh(rooted, tmp_path, "id -u; echo hi > /orch/made && cat /orch/made; echo x > $HOME/x")
    assert inside.stdout.split() == ["1000", "hi"]
    assert gpu01.run("stat -c %u:%g /root/.orch/ana/mnist /root/.orch/ana/mnist/made").stdout == (
        "1000:1000\n1000:1000\n"
    )
    assert "Permission denied (publickey)" in ssh(rooted, tmp_path, "id", user="root@").stderr
    assert rooted("deploy", "gpu01").stdout.startswith("gpu01   unchanged")


def test_root_in_the_container_is_an_explicit_choice(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    rooted = orch.using("root").having(ORCH_CONTAINER_USER="root")
    assert "user root (0)" in rooted("deploy", "--yes", "gpu01").stdout
    assert ssh(rooted, tmp_path, "id -un; echo $HOME").stdout.split() == ["root", "/root"]


def test_the_environment_is_exact_everywhere(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    value = 'it\'s  $HOME `id` "x" \\n '
    (tmp_path / "env").write_text(f"TOKEN={value}\n")
    orch = orch.having(ORCH_ENV_FILE=str(tmp_path / "env"))
    made = orch("deploy", "--yes", "-v", "gpu01")
    show = "python3 -c 'import os; print(repr(os.environ[\"TOKEN\"]))'"
    by_ssh = ssh(orch, tmp_path, show)
    by_login = ssh(orch, tmp_path, f"bash -lc {json.dumps(show)}")
    by_exec = gpu01.docker("exec", "-u", "1500:1500", NAME, "sh", "-c", show)
    assert by_ssh.stdout == by_exec == by_login.stdout == repr(value) + "\n"
    path = "python3 -c 'import os; print(os.environ[\"PATH\"])'"
    assert ssh(orch, tmp_path, path).stdout == gpu01.docker("exec", NAME, "sh", "-c", path)
    assert "it's" not in made.stdout + made.stderr
    planned = orch.having(ORCH_SHM_SIZE="1g")("deploy", "--dry-run", "-v", "gpu01")
    assert "TOKEN=***" in planned.stdout
    assert "it's" not in planned.stdout
    labels = inspect(gpu01)["Config"]["Labels"]
    assert "it's" not in json.dumps(labels)
    changed = (tmp_path / "env").write_text("TOKEN=another\n")
    assert changed
    assert "env TOKEN set -> another value" in orch("deploy", "--dry-run", "gpu01").stdout


def test_a_changed_setting_replaces_an_idle_container(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    orch("deploy", "--yes", "gpu01")
    before = environment(gpu01)
    ssh(orch, tmp_path, "echo kept > $HOME/file")
    made = orch.having(ORCH_SHM_SIZE="1g")("deploy", "--yes", "gpu01")
    assert "shm_size 8g -> 1g" in made.stderr
    after = environment(gpu01)
    assert after["container"] != before["container"]
    assert (after["port"], after["host_keys"]) == (before["port"], before["host_keys"])
    assert gpu01.containers(all=True) == [NAME]
    assert ssh(orch, tmp_path, "cat $HOME/file; df -k /dev/shm | tail -1").stdout.split()[:3] == [
        "kept",
        "shm",
        "1048576",
    ]


def test_a_live_run_goes_on_beside_the_new_container(orch: Orch, gpu01: Host) -> None:
    orch("deploy", "--yes", "gpu01")
    old = environment(gpu01)["container"]
    orch("train", "-d", "--hosts", "gpu01", "--name", "long", "--", "sleep", "3600")
    changed = orch.having(ORCH_SHM_SIZE="1g")
    made = changed("deploy", "--yes", "gpu01")
    assert "  container  beside " in made.stderr
    assert environment(gpu01)["port"] == 2223
    assert sorted(gpu01.containers()) == [NAME, f"{NAME}-old-{old[:12]}"]
    assert gpu01.docker("exec", old, "pgrep", "-x", "sleep")
    assert changed("deploy", "gpu01").stdout.startswith("gpu01   unchanged")
    assert "long" in changed("down", "--yes", "gpu01", code=75).stderr

    orch("stop", "long")
    assert "its last run has ended" in changed("deploy", "--yes", "gpu01").stderr
    assert gpu01.containers(all=True) == [NAME]


def test_replace_ends_runs_and_says_so(orch: Orch, gpu01: Host) -> None:
    orch("deploy", "--yes", "gpu01")
    orch("train", "-d", "--hosts", "gpu01", "--name", "long", "--", "sleep", "3600")
    made = orch.having(ORCH_SHM_SIZE="1g")("deploy", "--yes", "--replace", "gpu01")
    assert "--replace ends " in made.stderr
    assert gpu01.containers(all=True) == [NAME]
    state = json.loads(gpu01.run("cat /home/ana/.orch/ana/mnist/runs/latest/gpu01/state.json").stdout)
    assert (state["state"], state["cause"]["why"]) == ("stopped", "orch deploy --replace")


def test_docker_stop_gives_a_run_its_end(orch: Orch, gpu01: Host) -> None:
    orch("deploy", "--yes", "gpu01")
    orch("train", "-d", "--hosts", "gpu01", "--", "sleep", "3600")
    gpu01.docker("stop", NAME)
    state = json.loads(gpu01.run("cat /home/ana/.orch/ana/mnist/runs/latest/gpu01/state.json").stdout)
    assert state["ended"]
    assert "  container  start " in orch("deploy", "--yes", "gpu01").stderr
    orch("train", "-d", "--hosts", "gpu01", "--", "sleep", "1")


def test_a_failing_startup_brings_the_old_container_back(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    script.write_text("#!/bin/sh\necho one > /tmp/started\n")
    begun = orch.having(ORCH_STARTUP=str(script))
    begun("deploy", "--yes", "gpu01")
    before = environment(gpu01)
    assert gpu01.docker("exec", NAME, "cat", "/tmp/started") == "one\n"
    script.write_text("#!/bin/sh\necho trying hard\nexit 3\n")
    failed = begun("deploy", "--yes", "gpu01", code=78)
    assert "  | trying hard\n" in failed.stderr
    assert failed.stderr.splitlines()[-1] == (
        "orch: gpu01: startup ended with status 3. Correct the script that `startup` names (ORCH_STARTUP)."
    )
    assert gpu01.containers() == [NAME]
    assert gpu01.containers(all=True) == [NAME]
    assert environment(gpu01) == before
    assert inspect(gpu01)["Id"] == before["container"]
    script.write_text("#!/bin/sh\necho one > /tmp/started\n")
    assert begun("deploy", "gpu01").stdout.startswith("gpu01   unchanged")


def test_a_failing_startup_leaves_nothing(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("exit 3\n")
    orch.having(ORCH_STARTUP=str(tmp_path / "start.sh"))("deploy", "--yes", "gpu01", code=78)
    assert gpu01.containers(all=True) == []
    assert gpu01.run("ls /home/ana/.orch/ana/mnist/hosts/gpu01/environment.json", check=False).returncode


def test_keys_change_without_a_new_container(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    orch("deploy", "--yes", "gpu01")
    before = environment(gpu01)["container"]
    key = tmp_path / "bob"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    config = tmp_path / "config"
    stanzas = orch("ssh-config", "gpu01").stdout
    container = stanzas.index("Host orch-mnist-gpu01")
    mine = stanzas[:container] + stanzas[container:].replace("IdentityFile ", f"IdentityFile {key}\n#")
    config.write_text(mine + "IdentitiesOnly yes\n")
    line = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "orch-mnist-gpu01", "true"]
    assert subprocess.run(line, check=False, capture_output=True).returncode == 255
    told = orch.having(ORCH_AUTHORIZED_KEYS=f"{key}.pub")("deploy", "--yes", "gpu01")
    assert "  keys       update   2 may log in" in told.stderr
    assert subprocess.run(line, check=False, capture_output=True).returncode == 0
    assert environment(gpu01)["container"] == before


def test_the_container_opens_with_the_keys_of_ssh_config(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    orch("deploy", "--yes", "gpu01")
    config, inventory = orch.home / ".ssh" / "config", tmp_path / "lab" / "hosts.ini"
    key = orch.fleet.client.key
    config.write_text(f"Host gpu01\n  HostName {gpu01.address}\n  User ana\n  IdentityFile {key}\n")
    inventory.parent.mkdir()
    for line in ("gpu01", "gpu01 ansible_user=ana"):
        inventory.write_text(f"{line}\n")
        stanzas = orch.having(ORCH_INVENTORY=str(inventory))("ssh-config", "gpu01").stdout
        # ssh asks the account, and not $HOME, where its files are: here they are named
        known = f"Host *\n  UserKnownHostsFile {config.parent}/known_hosts\n"
        whole = tmp_path / "config"
        whole.write_text(config.read_text() + stanzas + known)
        words = ["ssh", "-F", str(whole), "-o", "BatchMode=yes", "orch-mnist-gpu01", "id", "-un"]
        done = subprocess.run(words, check=False, capture_output=True, text=True, stdin=-3, timeout=60)
        assert done.stdout == "ana\n", (line, done.stderr)


def test_a_taken_port(orch: Orch, gpu01: Host) -> None:
    gpu01.docker(
        "run", "-d", "--name", "web", "-p", "127.0.0.1:2222:80", "tensorflow/tensorflow:2.9.3", "sleep", "99"
    )
    try:
        refused = orch.having(ORCH_SSH_PORT="2222")("deploy", "--yes", "gpu01", code=75)
        assert refused.stderr == (
            "orch: gpu01: port 2222 is taken by container web. "
            "Set ssh_port = auto for gpu01 (ORCH_SSH_PORT), or another port.\n"
        )
        assert "ssh 127.0.0.1:2223" in orch("deploy", "--dry-run", "gpu01").stdout
    finally:
        gpu01.docker("rm", "-f", "web")


def test_a_wrong_tag(orch: Orch, gpu01: Host) -> None:
    with registry(gpu01) as name:
        image = f"{name}/tensorflow:2.9.0-gpu-py3"
        refused = orch.having(ORCH_IMAGE=image)("deploy", "--yes", "gpu01", code=78)
    assert refused.stderr.splitlines()[-1].startswith(
        f"orch: gpu01: there is no image {image}. Correct `image` (ORCH_IMAGE)"
    )
    assert gpu01.containers(all=True) == []


def test_a_missing_volume_is_not_made(orch: Orch, gpu01: Host) -> None:
    refused = orch.having(ORCH_VOLUMES="/srv/orch/no:/data")("deploy", "--yes", "gpu01", code=78)
    assert "ORCH_VOLUMES: volume /srv/orch/no does not exist on gpu01" in refused.stderr
    assert gpu01.run("ls -d /srv/orch", check=False).returncode


def test_volumes_are_mounted_as_asked(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    gpu01.run("mkdir -p '/srv/orch/da ta' && echo 1 > '/srv/orch/da ta/x' && chown -R ana /srv/orch")
    orch.having(ORCH_VOLUMES="/srv/orch/da ta:/data:ro")("deploy", "--yes", "gpu01")
    inside = ssh(orch, tmp_path, "cat /data/x; touch /data/y")
    assert inside.stdout == "1\n"
    assert "Read-only file system" in inside.stderr


def test_a_container_that_orch_did_not_make_is_not_touched(orch: Orch, gpu01: Host) -> None:
    gpu01.docker("run", "-d", "--name", NAME, "tensorflow/tensorflow:2.9.3", "sleep", "99")
    before = inspect(gpu01)["Id"]
    for verb in ("deploy", "down"):
        refused = orch(verb, "--yes", "gpu01", code=1)
        assert f"a container named {NAME} is there that orch did not make" in refused.stderr
    assert inspect(gpu01)["Id"] == before
    assert inspect(gpu01)["State"]["Running"]


def test_an_engine_that_is_missing_denied_or_down(orch: Orch, gpu01: Host) -> None:
    missing = orch.having(ORCH_ENGINE_COMMAND="no-docker")("deploy", "--yes", "gpu01", code=1)
    assert "orch: gpu01: no-docker is not installed" in missing.stderr
    denied = orch.using("bob")("deploy", "--yes", "gpu01", code=77)
    assert "this account may not use it. As root there: usermod -aG docker bob" in denied.stderr
    gpu01.stop_docker()
    down = orch("deploy", "--yes", "gpu01", code=1)
    assert "orch: gpu01: the Docker daemon does not run" in down.stderr
    gpu01.start_docker()


def test_a_full_disk(orch: Orch, gpu01: Host) -> None:
    with gpu01.small_disk("/srv/small", "1m", full=True):
        full = orch.having(ORCH_ROOT="/srv/small/orch")("deploy", "--yes", "gpu01", code=1)
    assert "no space is left on the disk of /srv/small/orch" in full.stderr.splitlines()[-1]
    assert gpu01.containers(all=True) == []


def test_gpus_that_docker_cant_give(orch: Orch, gpu01: Host) -> None:
    from .test_gpu_status import show

    show(gpu01)
    image = "tensorflow/tensorflow:2.9.3"
    planned = orch("deploy", "--dry-run", "gpu01")
    assert "3 x A100-SXM4-40GB   driver 535.183" in planned.stdout
    assert f"{image}-gpu + sshd" in planned.stdout
    refused = orch.having(ORCH_IMAGE=image)("deploy", "--yes", "gpu01", code=1)
    assert "Docker can't give GPUs to containers here. Install nvidia-container-toolkit" in refused.stderr
    assert gpu01.containers(all=True) == []
    many = orch.having(ORCH_IMAGE=image, ORCH_GPUS="8")("deploy", "--yes", "gpu01", code=1)
    assert "gpus = 8 is asked for, the host has 3 GPUs" in many.stderr


def test_fewer_gpus_inside_than_asked_is_a_failure(orch: Orch, gpu01: Host) -> None:
    from .test_gpu_status import show

    orch("deploy", "--yes", "gpu01")
    before = environment(gpu01)
    show(gpu01)
    gpu01.install_toolkit()
    wait_until("the container", lambda: gpu01.containers() == [NAME])
    failed = orch.having(ORCH_IMAGE="tensorflow/tensorflow:2.9.3")("deploy", "--yes", "gpu01", code=1)
    assert "gpus none -> all" in failed.stderr
    assert "orch: gpu01: 0 of 3 GPUs are seen from inside the container" in failed.stderr
    assert gpu01.containers(all=True) == gpu01.containers() == [NAME]
    assert environment(gpu01) == before
    assert inspect(gpu01)["Id"] == before["container"]


def test_a_reboot_brings_the_container_back(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    orch("deploy", "--yes", "gpu01")
    gpu01.reboot()
    wait_until("the container", lambda: gpu01.containers() == [NAME])
    wait_until("its sshd", lambda: ssh(orch, tmp_path, "true").returncode == 0)
    assert orch("deploy", "gpu01").stdout.startswith("gpu01   unchanged")
