"""The fleet proves itself: what its verbs promise is what happens on the hosts."""

import json
import subprocess
import time

import pytest

from .lab import Answer, Fleet, Host, LabError
from .lab.image import TAG
from .lab.shell import wait_until


def ssh(
    fleet: Fleet, target: str, command: str = "id -un", within: int = 30
) -> subprocess.CompletedProcess[str]:
    options = ["-F", str(fleet.client.ssh_config), "-o", "BatchMode=yes", "-o", f"ConnectTimeout={within}"]
    return subprocess.run(["ssh", *options, target, command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("account", ["root", "ana", "bob"])
@pytest.mark.parametrize("name", ["gpu01", "gpu02"])
def test_each_account_logs_in_on_each_host(fleet: Fleet, account: str, name: str) -> None:
    done = ssh(fleet, f"{account}@{name}", "id -un; hostname; pwd")
    home = "/root" if account == "root" else f"/home/{account}"
    assert done.stdout.split() == [account, name, home], done.stderr


def test_login_by_address(fleet: Fleet, gpu01: Host) -> None:
    assert ssh(fleet, f"ana@{gpu01.address}", "hostname").stdout == "gpu01\n"


def test_another_key_does_not_log_in(fleet: Fleet, gpu01: Host, tmp_path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    argv = ["ssh", "-F", "none", "-i", key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
    argv += ["-o", f"UserKnownHostsFile={fleet.client.known_hosts}", f"ana@{gpu01.address}", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr


def test_only_ana_may_use_docker(fleet: Fleet) -> None:
    assert ssh(fleet, "ana@gpu01", "docker ps").returncode == 0
    assert "permission denied" in ssh(fleet, "bob@gpu01", "docker ps").stderr


@pytest.mark.parametrize("name", ["gpu01", "gpu02"])
def test_the_image_has_tensorflow(fleet: Fleet, name: str) -> None:
    code = "import tensorflow as tf; print(tf.__version__)"
    assert fleet[name].docker("run", "--rm", TAG, "python3", "-c", code).strip() == "2.9.3"


def test_hosts_do_not_see_each_other_s_disk_or_containers(gpu01: Host, gpu02: Host) -> None:
    gpu01.run("echo here >/root/only-gpu01 && echo here >/etc/only-gpu01")
    gpu01.docker("run", "-d", "--name", "alone", TAG, "sleep", "600")
    try:
        assert gpu01.containers() == ["alone"]
        assert gpu02.containers(all=True) == []
        assert gpu02.run("ls /root /etc | grep only", check=False).stdout == ""
    finally:
        gpu01.docker("rm", "-f", "alone")


def test_the_shared_folder_is_one(gpu01: Host, gpu02: Host) -> None:
    gpu01.run("echo seen >/srv/shared/word")
    assert gpu02.run("cat /srv/shared/word").stdout == "seen\n"


def test_a_shared_home_has_one_lock(fleet: Fleet, gpu01: Host, gpu02: Host) -> None:
    with fleet.shared_home("ana"):
        gpu01.run("setsid flock lock sleep 600 >/dev/null 2>&1 </dev/null &", user="ana")
        taken = "flock -s -n lock true"
        wait_until("the lock", lambda: gpu02.run(taken, user="ana", check=False).returncode == 1)
        gpu01.run("pkill -x sleep --ns 1 --nslist pid -u ana")
    assert "lock" not in gpu02.run("ls ~", user="ana").stdout


def test_a_cut_link_is_silence_and_join_brings_it_back(fleet: Fleet, gpu01: Host) -> None:
    with gpu01.unreachable():
        done = ssh(fleet, "ana@gpu01", within=4)
        assert done.returncode == 255
        assert "timed out" in done.stderr or "No route to host" in done.stderr
        assert ssh(fleet, "ana@gpu02").returncode == 0
    assert ssh(fleet, "ana@gpu01").returncode == 0


def test_without_sshd_connections_are_refused_and_containers_live(fleet: Fleet, gpu01: Host) -> None:
    gpu01.docker("run", "-d", "--name", "stays", TAG, "sleep", "600")
    gpu01.stop_sshd()
    assert "Connection refused" in ssh(fleet, "ana@gpu01").stderr
    assert gpu01.containers() == ["stays"]
    gpu01.start_sshd()
    assert ssh(fleet, "ana@gpu01").returncode == 0
    gpu01.docker("rm", "-f", "stays")


def test_a_reboot_changes_the_boot_id_and_keeps_the_disk(fleet: Fleet, gpu01: Host) -> None:
    before = gpu01.boot_id
    gpu01.run("echo kept >~/kept; echo gone >/run/gone", user="root")
    gpu01.docker("run", "-d", "--restart", "unless-stopped", "--name", "back", TAG, "sleep", "600")
    gpu01.docker("run", "-d", "--name", "ended", TAG, "sleep", "600")
    gpu01.reboot()
    assert gpu01.boot_id != before
    assert ssh(fleet, "root@gpu01", "cat /proc/sys/kernel/random/boot_id").stdout.strip() == gpu01.boot_id
    assert gpu01.run("cat ~/kept").stdout == "kept\n"
    assert gpu01.run("test -e /run/gone", check=False).returncode == 1
    wait_until("the container", lambda: gpu01.containers() == ["back"])
    assert sorted(gpu01.containers(all=True)) == ["back", "ended"]
    gpu01.docker("rm", "-f", "back", "ended")


def test_a_container_sees_the_boot_id_of_its_host(gpu01: Host) -> None:
    seen = gpu01.docker("run", "--rm", TAG, "cat", "/proc/sys/kernel/random/boot_id")
    assert seen.strip() == gpu01.boot_id


def test_a_host_without_power_is_silent(fleet: Fleet, gpu01: Host) -> None:
    gpu01.power_off()
    assert not gpu01.is_on()
    with pytest.raises(LabError, match="gpu01 is off"):
        gpu01.run("true")
    assert ssh(fleet, "ana@gpu01", within=4).returncode == 255


def test_restart_docker_ends_containers_without_a_policy(gpu01: Host) -> None:
    gpu01.docker("run", "-d", "--init", "--name", "ended", TAG, "sleep", "600")
    gpu01.restart_docker()
    assert gpu01.containers() == []
    gpu01.docker("rm", "ended")


def test_connections_and_execs_are_counted(fleet: Fleet, gpu01: Host) -> None:
    counter = gpu01.counter()
    assert (counter.read().connections, counter.read().execs) == (0, 0)
    ssh(fleet, "ana@gpu01")
    ssh(fleet, "root@gpu01")
    assert (counter.read().connections, counter.read().execs) == (2, 2)
    subprocess.run(
        ["sftp", "-q", "-F", fleet.client.ssh_config, "ana@gpu01"],
        input=b"pwd\n",
        check=True,
        capture_output=True,
    )
    counts = counter.read()
    assert (counts.connections, counts.execs, counts.subsystems) == (3, 2, 1)
    counter.reset()
    assert counter.read().connections == 0


def test_nvidia_smi_answers_as_laid_out(fleet: Fleet, gpu01: Host) -> None:
    assert ssh(fleet, "ana@gpu01", "nvidia-smi").returncode == 127
    gpu01.set_gpus(
        [
            Answer(match="*--query-gpu=*", out="0, A name, with 'quotes' $HOME\n"),
            Answer(match="-L", out="GPU 0 is lost\n", err="talk\n", code=15, delay=0.3),
        ]
    )
    assert ssh(fleet, "ana@gpu01", "nvidia-smi --query-gpu=index,name --format=csv").stdout == (
        "0, A name, with 'quotes' $HOME\n"
    )
    start = time.monotonic()
    done = ssh(fleet, "ana@gpu01", "nvidia-smi -L")
    assert (done.returncode, done.stdout, done.stderr) == (15, "GPU 0 is lost\n", "talk\n")
    assert time.monotonic() - start >= 0.3
    assert ssh(fleet, "ana@gpu01", "nvidia-smi -q").returncode == 2
    gpu01.no_gpus()
    assert ssh(fleet, "ana@gpu01", "nvidia-smi").returncode == 127


def test_docker_takes_gpus_only_with_the_toolkit(gpu01: Host) -> None:
    asked = f"docker run --rm --gpus all {TAG} sh -c 'echo $NVIDIA_VISIBLE_DEVICES'"
    assert "could not select device driver" in gpu01.run(asked, check=False).stderr
    gpu01.install_toolkit()
    assert gpu01.run(asked).stdout == "all\n"
    gpu01.restore()
    assert "could not select device driver" in gpu01.run(asked, check=False).stderr


def test_accounts_have_their_crontabs(gpu01: Host) -> None:
    gpu01.start_cron()
    gpu01.run("crontab -", user="ana", input="30 2 * * * true\n")
    assert gpu01.run("crontab -l", user="ana").stdout == "30 2 * * * true\n"
    assert gpu01.run("crontab -l", check=False).returncode == 1
    gpu01.run("pkill -x cron --ns 1 --nslist pid; crontab -r -u ana")


def test_a_small_disk_gets_full(fleet: Fleet, gpu01: Host) -> None:
    with gpu01.small_disk("/data", "4m", full=True):
        assert "No space left" in ssh(fleet, "ana@gpu01", "echo word >/data/word").stderr
        gpu01.free("/data")
        assert ssh(fleet, "ana@gpu01", "echo word >/data/word").returncode == 0
    assert gpu01.run("ls /data").stdout == ""


def test_fill_refuses_a_path_that_is_no_disk_of_its_own(gpu01: Host) -> None:
    before = gpu01.run("ls /tmp").stdout
    with pytest.raises(LabError):
        gpu01.fill("/tmp")
    assert gpu01.run("ls /tmp").stdout == before


def test_containers_reach_each_other_s_published_ports(gpu01: Host, gpu02: Host) -> None:
    serve = ["python3", "-m", "http.server", "8123"]
    gpu01.docker("run", "-d", "--name", "serves", "-p", "8123:8123", TAG, *serve)
    code = (
        "import time, urllib.request\n"
        "for _ in range(100):\n"
        "    try: print(urllib.request.urlopen('http://gpu01:8123/').status); break\n"
        "    except OSError: time.sleep(0.1)\n"
    )
    hosts = ["--add-host", f"gpu01:{gpu01.address}"]
    try:
        assert gpu02.docker("run", "--rm", *hosts, TAG, "python3", "-c", code) == "200\n"
    finally:
        gpu01.docker("rm", "-f", "serves")


def test_containers_reach_the_package_registry(fleet: Fleet, gpu01: Host) -> None:
    settings = dict(
        line.split(" = ") for line in fleet.client.inventory("ana").read_text().splitlines() if " = " in line
    )
    mount = ["-v", f"{settings['ca_bundle']}:/ca.crt:ro", "-e", "PIP_CERT=/ca.crt"]
    mount += ["-e", f"PIP_INDEX_URL={settings['pip_index']}"] if "pip_index" in settings else []
    fetch = "pip3 download -q --no-deps -d /tmp six && ls /tmp"
    assert "six" in gpu01.docker("run", "--rm", *mount, TAG, "sh", "-c", fetch)


def test_memory_limits_hold(gpu01: Host) -> None:
    code = "x = bytearray(200 * 2**20)"
    limited = ["--memory", "64m", "--memory-swap", "64m", TAG, "python3", "-c", code]
    assert gpu01.run(f"docker run --rm {' '.join(limited[:-1])} '{code}'", check=False).returncode == 137
    gpu01.docker("run", "--rm", "--memory", "512m", TAG, "python3", "-c", code)
    inspect = json.loads(gpu01.docker("info", "--format", "{{json .}}"))
    assert (inspect["Driver"], inspect["MemoryLimit"]) == ("overlay2", True)


def test_another_fleet_at_the_same_time_and_nothing_left_after_it(fleet: Fleet, gpu01: Host) -> None:
    other = Fleet(f"{fleet.name}-other", hosts=["node1"])
    other.up()
    try:
        assert other["node1"].address.rsplit(".", 1)[0] != gpu01.address.rsplit(".", 1)[0]
        assert ssh(other, "ana@node1", "hostname").stdout == "node1\n"
        other["node1"].docker("run", "-d", "--name", "busy", "--memory", "1g", TAG, "sleep", "86411")
    finally:
        # A process that knows only the name takes all of it away.
        Fleet(other.name).down()
    traces = "ip netns; ip link; iptables-save; find /sys/fs/cgroup -type d; cat /proc/*/cmdline /proc/mounts"
    left = subprocess.run(["sh", "-c", f"({traces}) 2>/dev/null"], capture_output=True, check=False).stdout
    assert other.name.encode() not in left
    assert b"sleep\x0086411" not in left
    assert not other.folder.exists()
    assert ssh(fleet, "ana@gpu01").returncode == 0
