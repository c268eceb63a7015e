"""The `docker run` of a spec, word for word, and the files that its container starts with."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.container.inputs import Inputs
from orchestrator.container.run_command import ending, environment_for, keeping, run_command, setup
from orchestrator.container.start import start_script
from orchestrator.container.turn import LOCK
from orchestrator.facts.place import Source
from orchestrator.inventory import Volume
from orchestrator.render import render, source

from .deploys import IDENTITY, PLACE, facts, gpus, host, plan
from .here import MACHINE


def words(known: Any = None, **settings: Any) -> str:
    line = run_command(plan(host(**settings), known), IDENTITY, ("docker",), "e1").shell()
    return line.partition(" --label ")[0]


def test_the_plain_container() -> None:
    assert words() == (
        "docker run -d --init --name orch-ana-mnist --hostname gpu01 --restart no --stop-timeout 45 "
        "--tmpfs /run/orch --shm-size 8g --network bridge --publish 127.0.0.1:2222:22 "
        f"--mount type=bind,source={PLACE},target=/orch "
        f"--mount type=bind,source={PLACE}/home,target=/home/ana "
        f"--mount type=bind,source={PLACE}/workspace,target=/workspace"
    )


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"memory": "64g", "cpus": "4"}, "--memory 64g --cpus 4"),
        ({"publish": ("6006",)}, "--publish 127.0.0.1:2222:22 --publish 127.0.0.1:6006:6006 "),
        (
            {"cluster_ports": "9000-9010", "cluster_address": "10.0.0.5"},
            "--publish 10.0.0.5:9000-9010:9000-9010",
        ),
        ({"container_user": "root"}, f"source={PLACE}/home,target=/root"),
    ],
)
def test_each_setting_has_its_words(settings: dict[str, Any], part: str) -> None:
    assert part in words(**settings)


@pytest.mark.parametrize(
    ("wish", "part"),
    [("all", "--gpus all"), ("2", "--gpus 2"), ("0,2", "--gpus '\"device=0,2\"'"), ("none", "")],
)
def test_gpus(wish: str, part: str) -> None:
    line = words(facts(gpus=gpus(4)), gpus=wish)
    assert part in line if part else "--gpus" not in line


@pytest.mark.parametrize(
    ("wish", "part"),
    [
        ("all", "--device=nvidia.com/gpu=all"),
        ("2", "--device=nvidia.com/gpu=0 --device=nvidia.com/gpu=1"),
        ("0,GPU-3", "--device=nvidia.com/gpu=0 --device=nvidia.com/gpu=GPU-3"),
    ],
)
def test_podman_gives_gpus_by_their_cdi_names(wish: str, part: str) -> None:
    known = facts(gpus=gpus(4), docker__kind="podman", docker__security=frozenset({"rootless"}))
    line = words(known, engine="podman", gpus=wish)
    assert f"--shm-size 8g {part} --publish" in line
    assert "--userns=keep-id --user=0:0 --http-proxy=false" in line
    assert "--gpus" not in line
    assert "--network host" in words(known, engine="podman", network="host")


def test_sudo_passes_on_what_the_engine_reads_from_its_environment() -> None:
    assert keeping(("docker",), ["A"]) == ("docker",)
    assert keeping(("sudo", "-n", "docker"), []) == ("sudo", "-n", "docker")
    kept = ("/usr/bin/sudo", "--preserve-env=A,B", "-n", "docker")
    assert keeping(("/usr/bin/sudo", "-n", "docker"), ["B", "A"]) == kept
    inputs = Inputs(env={"TWO": "one\ntwo"})
    engine = ("sudo", "-n", "docker")
    assert (
        "sudo --preserve-env=TWO -n docker run "
        in start_script(plan(host()), IDENTITY, inputs, engine, "e", "t0ken").text
    )


def test_the_hosts_network_publishes_nothing() -> None:
    assert "--publish" not in words(network="host", publish=("6006",), cluster_ports="9000-9010")
    files = setup(plan(host(network="host")), None).files
    assert b"ListenAddress 127.0.0.1\n" in files["sshd_config"]
    assert b"Port 2222\n" in files["sshd_config"]


def test_a_folder_with_a_comma_is_one_mount() -> None:
    known = facts(place__sources=(Source("/a,b", "/a,b", "folder"),))
    line = words(known, volumes=(Volume("/a,b", "/c", True),))
    assert """--mount 'type=bind,"source=/a,b",target=/c,readonly'""" in line


def test_labels_say_who_and_what() -> None:
    line = run_command(plan(host()), IDENTITY, ("docker",), "e1").shell()
    for label in ("orch.person=ana", "orch.project=mnist", "orch.env=e1", "orch.port=2222", "orch.user=ana"):
        assert f"--label {label} " in line


def test_values_of_the_environment_are_on_no_command_line() -> None:
    inputs = Inputs(env={"TOKEN": "hunter2", "TWO": "first\nsecond"})
    wanted = plan(host(), inputs=inputs)
    text, exported = environment_for(inputs.env)
    assert (text, list(exported)) == ("TOKEN=hunter2\n", ["TWO"])
    line = run_command(wanted, IDENTITY, ("docker",), "e1").shell() + ending(wanted, exported).shell()
    assert "hunter2" not in line
    assert "second" not in line
    assert "-e TWO " in line


@pytest.mark.parametrize(
    ("user", "root"), [(None, "PermitRootLogin no"), ("root", "PermitRootLogin prohibit-password")]
)
def test_sshd_takes_keys_only_and_one_user(user: str | None, root: str) -> None:
    config = setup(plan(host(container_user=user)), None).files["sshd_config"].decode()
    for line in (root, "PasswordAuthentication no", f"AllowUsers {user or 'ana'}", "PermitEmptyPasswords no"):
        assert f"{line}\n" in config


FAKE = """#!/bin/sh
echo "$1" >> "$0.calls"
case "$1" in
run) cat > "$0.env"; printf %s "$TWO" > "$0.two"
     while [ "$1" != --cidfile ]; do shift; done
     echo newid > "$2"
     [ ! -f "$0.fail" ] || { cat "$0.fail" >&2; exit 125; } ;;
exec) exit 0 ;;
logs) echo "last words" ;;
esac
"""


def here(tmp_path: Path) -> Path:
    """Where the start script keeps what is of this machine alone."""
    return tmp_path / "p" / "hosts" / MACHINE


def run_start(tmp_path: Path, inputs: Inputs, failure: str = "") -> tuple[str, list[str]]:
    """Run the start script with a docker that writes down what it is asked."""
    tool = tmp_path / "bin" / "docker"
    tool.parent.mkdir()
    tool.write_text(FAKE)
    tool.chmod(0o755)
    if failure:
        (tmp_path / "bin" / "docker.fail").write_text(failure)
    known = facts(place__path=str(tmp_path / "p"))
    script = start_script(plan(host(), known, inputs), IDENTITY, inputs, ("docker",), "e1", "t0ken")
    keys = here(tmp_path) / "ssh"
    keys.mkdir(parents=True)
    (here(tmp_path) / LOCK).write_text("t0ken 1796054273 b1 deploy by ana@laptop\n")
    (keys / "ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAA orch\n")
    done = subprocess.run(
        ["sh", "-s"],
        input=f"main() {{\n{script.text}\n}}\nmain\n",
        env={"PATH": f"{tool.parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
        text=True,
        capture_output=True,
        check=False,
    )
    return done.stdout, (tmp_path / "bin" / "docker.calls").read_text().split()


def test_values_reach_the_engine_exactly(tmp_path: Path) -> None:
    inputs = Inputs(
        env={"A": 'it\'s  $HOME `id` \\n "x" ', "TWO": "first\n second's\n"}, startup=b"#!/bin/sh\n\xff"
    )
    out, calls = run_start(tmp_path, inputs)
    assert out.splitlines()[0] == "answer started"
    assert calls == ["run", "exec", "update", "inspect", "image", "inspect"]
    assert (tmp_path / "bin" / "docker.env").read_text() == 'A=it\'s  $HOME `id` \\n "x" \n'
    assert (tmp_path / "bin" / "docker.two").read_text() == "first\n second's\n"
    assert (here(tmp_path) / "ssh" / "authorized_keys").read_text().startswith("ssh-ed25519 AAAAC3Nza")
    assert [p.read_bytes() for p in here(tmp_path).glob("container/*/startup")] == [b"#!/bin/sh\n\xff"]
    assert (tmp_path / "p" / "home").stat().st_mode & 0o777 == 0o700


def test_a_container_that_does_not_start_is_removed(tmp_path: Path) -> None:
    out, calls = run_start(tmp_path, Inputs(), "docker: Error response from daemon: nope")
    assert out.startswith("answer failed\nwhy docker: Error response from daemon: nope")
    assert calls == ["run", "rm"]


def test_an_engine_that_may_not_raise_limits_is_tried_without(tmp_path: Path) -> None:
    out, calls = run_start(tmp_path, Inputs(), "error setting rlimit type 8: operation not permitted")
    assert calls == ["run", "rm", "run", "rm"]
    assert out.startswith("answer failed")


def test_the_environment_of_shells_is_exact(tmp_path: Path) -> None:
    text = (source("container/shell_env.py") or "").replace(
        "/etc/profile.d/orch.sh", str(tmp_path / "orch.sh")
    )
    text = text.replace("os.chown(part, 0, int(gid))", "int(gid)")
    value = {"A": 'it\'s $x `id`  "q" ', "B": "one\ntwo", "PATH": "/cuda/bin:/usr/bin:/bin", "HOME": "/root"}
    done = subprocess.run(
        [sys.executable, "-c", text, "/home/ana", "1000"],
        env={**value, "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        check=True,
    )
    lines = done.stdout.decode().splitlines()
    assert f"A={value['A']}" in lines
    assert "PATH=/cuda/bin:/usr/bin:/bin" in lines
    assert [line.partition("=")[0] for line in lines] == ["A", "PATH"]
    shell = subprocess.run(
        ["sh", "-c", f'. {tmp_path}/orch.sh; printf %s "$A|$B"'],
        env={"HOME": "/x"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shell.stdout == f"{value['A']}|{value['B']}"
    assert (tmp_path / "orch.sh").stat().st_mode & 0o777 == 0o640


def test_an_installation_that_is_cut_short_is_never_taken_for_whole(tmp_path: Path) -> None:
    """A python that makes a venv whose pip fails the first time, as when the connection goes."""
    tool = tmp_path / "python"
    inner = f"""#!/bin/sh
case "$*" in *pip*) [ -f {tmp_path}/again ] || {{ touch {tmp_path}/again; echo no network; exit 1; }};; esac
case "$*" in *--build*) echo "$KERAS_HOME" > {tmp_path}/keras ;; esac
echo numpy==1.23.5
"""
    made = 'mkdir -p "$3/bin"; cat > "$3/bin/python3"'
    tool.write_text(f"#!/bin/sh\n{made} <<'E'\n{inner}E\nchmod 755 \"$3/bin/python3\"\n")
    tool.chmod(0o755)
    folder = tmp_path / "p" / "venv" / "d1"
    text = render(
        "container/install.sh.j2",
        how="install_venv",
        activate=None,
        uv=None,
        place=str(tmp_path / "p"),
        folder=str(folder),
        python=str(tool),
        pip=True,
        requirements=("tensorflow-cpu==2.9.3",),
        constraints=("numpy<1.24",),
        ca=True,
        proof="print()\n",
    )
    script = tmp_path / "install.sh"
    script.write_text(text)
    exports = "UElQX1FVSUVUPTE7IGV4cG9ydCBQSVBfUVVJRVQK\n"  # PIP_QUIET=1; export PIP_QUIET

    def install() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(script)], input=exports + "AUTHORITY\n", capture_output=True, text=True, check=False
        )

    assert install().returncode == 1
    assert folder.exists()
    assert not (folder / "whole").exists()
    (folder / "half").touch()
    assert install().returncode == 0
    assert (folder / "whole").exists()
    assert not (folder / "half").exists()
    assert (folder / "packages.txt").read_text() == "numpy==1.23.5\n"
    assert (here(tmp_path) / "ca.crt").read_text() == "AUTHORITY\n"
    assert (tmp_path / "keras").read_text() == f"{folder}/keras\n", "the import writes nothing into the home"
