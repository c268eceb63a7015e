"""The checks of orch doctor, each from facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.doctor import Check, Examined, Level, diagnose, unreached
from orchestrator.doctor.check import version
from orchestrator.errors import ConfigError, NotPermitted, Unreachable
from orchestrator.facts.disk import Disk
from orchestrator.facts.docker import DockerReport, Image
from orchestrator.facts.gpu import Gpu, GpuReport
from orchestrator.facts.mount import Mount
from orchestrator.facts.place import PlaceReport, Source
from orchestrator.facts.question import Section
from orchestrator.facts.system import Python, SystemReport
from orchestrator.facts.tag import TAG, TagReport
from orchestrator.facts.trouble import Trouble
from orchestrator.inventory import Host, Settings

PLAIN = "tensorflow/tensorflow:2.9.3"
SYSTEM = SystemReport(
    arch="x86_64",
    os_name="Ubuntu 20.04.6 LTS",
    glibc="2.31",
    uid=1500,
    user="ana",
    shell="/bin/bash",
    cpus=64,
    avx=True,
    memory_mb=257736,
    root="/home/ana/.orch",
    disks=(Disk("/home/ana/.orch", 900_000, 600_000, 10_000_000),),
    tools=frozenset({"tar", "base64", "flock", "setsid", "nohup"}),
    ports=frozenset({22}),
    pythons=(Python("/usr/bin/python3", (3, 10, 13)),),
    time=1000.0,
)
DOCKER = DockerReport(
    client="26.1.0",
    server="26.1.0",
    root="/var/lib/docker",
    disk=Disk("/var/lib/docker", 900_000, 600_000, 10_000_000),
    runtimes=frozenset({"runc", "nvidia"}),
    images={PLAIN: Image("sha256:1", "amd64", {}), f"{PLAIN}-gpu": Image("sha256:2", "amd64", {})},
)
A100 = Gpu(0, "GPU-a", "NVIDIA A100-SXM4-40GB", "535.183.01", 40960, 4, 0, 30, 52.0)
GPUS = GpuReport((A100, replace(A100, index=1, uuid="GPU-b")))
NO_GPU = GpuReport(problem="nvidia-smi not found", absent=True)
WELL = Examined(
    host=Host("gpu01", "10.0.0.1", sources={"ssh_port": "hosts.ini:12", "volumes": "hosts.ini:9"}),
    system=SYSTEM,
    gpus=GPUS,
    docker=DOCKER,
    place=PlaceReport("/home/ana/.orch"),
    image=f"{PLAIN}-gpu",
    container="orch-ana-mnist",
    asked=(999.0, 1001.0),
)


def seen(settings: dict[str, Any] | None = None, **change: Any) -> Examined:
    """A healthy host with some facts changed: `system__arch="arm"` changes a fact of a report."""
    reports: dict[str, dict[str, Any]] = {}
    for key, value in list(change.items()):
        report, parted, name = key.partition("__")
        if parted:
            reports.setdefault(report, {})[name] = change.pop(key)
    changed = {name: replace(getattr(WELL, name), **values) for name, values in reports.items()}
    host = replace(WELL.host, settings=replace(Settings(), **(settings or {})))
    return replace(WELL, host=host, **changed, **change)


def find(examined: Examined, name: str) -> Check:
    found = [c for c in diagnose(examined) if c.name == name]
    assert len(found) == 1, [c.name for c in diagnose(examined)]
    return found[0]


def test_a_healthy_host_is_well_in_every_check() -> None:
    checks = diagnose(WELL)
    assert {c.level for c in checks} == {Level.OK}
    assert [c.name for c in checks] == [
        *("reachable", "login", "processor", "tools", "root", "clock"),
        *("docker", "room", "image", "ssh port", "gpus", "driver", "toolkit"),
    ]


BAD = [
    ({"system__system": "Darwin"}, "system", "Darwin: runs need Linux"),
    ({"system__arch": "aarch64"}, "processor", "x86_64 only"),
    ({"system__avx": False}, "processor", "without AVX"),
    ({"system__tools": frozenset({"tar"})}, "tools", "missing: base64"),
    (
        {"place__mount": Mount("fuse.sshfs", frozenset({"rw"}))},
        "root",
        "only ana may look into its disk (fuse.sshfs, without allow_other), and Docker runs as root",
    ),
    ({"place__mount": Mount(trouble=("denied", "/home"))}, "root", "ana may not write in /home"),
    ({"system__disks": (Disk("/home/ana/.orch", 9000, 100),)}, "root", "105 MB free"),
    ({"docker__trouble": Trouble("down", "the Docker daemon does not run", "x")}, "docker", "not run"),
    ({"docker__client": "17.12.0"}, "docker", "client 17.12.0, server 26.1.0"),
    ({"docker__server": "18.09.1"}, "docker", "server 18.09.1"),
    ({"docker__disk": Disk("/var/lib/docker", 9000, 900)}, "room", "944 MB free in /var/lib/docker"),
    ({"docker__disk": Disk("/d", 9_000, 9_000), "docker__images": {}}, "room", "9.4 GB free"),
    ({"docker__disk": Disk("/d", 900_000, 600_000, 99)}, "inodes", "99 left"),
    ({"docker__images": {}, "tag": TagReport(False, "no such manifest")}, "image", "there is no tensorflow"),
    ({"image": "sha256:12ab"}, "image", "there is no image sha256:12ab on the host"),
    ({"settings": {"ssh_port": 22}}, "ssh port", "port 22 is taken by another program"),
    (
        {"settings": {"ssh_port": 2222}, "docker__holders": {2222: "orch-bob-speech"}},
        "ssh port",
        "port 2222 is taken by container orch-bob-speech",
    ),
    ({"settings": {"publish": ("6006",)}, "system__ports": {6006}}, "publish", "port 6006 is taken"),
    ({"place__sources": (Source("/data", "/data", "missing"),)}, "volumes", "not on the host: /data"),
    ({"gpus": GpuReport(problem="Driver/library version mismatch", hint="reboot")}, "gpus", "mismatch"),
    ({"gpus": GpuReport((A100, replace(A100, index=1, fault="GPU is lost")))}, "gpus", "GPU 1: GPU is lost"),
    ({"gpus": NO_GPU, "settings": {"gpus": "all"}}, "gpus", "nvidia-smi not found"),
    ({"settings": {"gpus": "3"}}, "gpus", "gpus = 3, but the host has 2"),
    ({"gpus": GpuReport((replace(A100, driver="450.80.01"),))}, "driver", "450.80.01 is too old"),
    (
        {"image": "tensorflow/tensorflow:2.15.0-gpu", "gpus__gpus": (replace(A100, driver="470.1"),)},
        "driver",
        "525",
    ),
    ({"docker__runtimes": frozenset({"runc"})}, "toolkit", "can't give GPUs"),
    ({"settings": {"engine": "podman"}, "docker__kind": "podman"}, "toolkit", "podman knows no GPUs"),
    (
        {"settings": {"engine": "podman"}, "docker__kind": "podman", "docker__server": "3.4.4"},
        "podman",
        "4.1 or newer",
    ),
    ({"settings": {"engine": "podman"}}, "podman", "podman is docker here"),
    (
        {"docker__security": frozenset({"rootless"}), "system__linger": False},
        "sessions",
        "when its last session ends",
    ),
    ({"docker__inside": "Failed to initialize NVML: Unknown Error"}, "container", "has lost its GPUs"),
]


@pytest.mark.parametrize(("change", "name", "message"), BAD, ids=[f"{n}: {m}" for _, n, m in BAD])
def test_what_is_wrong_fails_with_one_thing_to_do(change: dict[str, Any], name: str, message: str) -> None:
    check = find(seen(**change), name)
    assert check.level is Level.FAIL
    assert message in check.message
    assert check.hint


WARNED = [
    ({"gpus": GpuReport((replace(A100, driver="450.80.02"),))}, "driver", "below 460"),
    ({"gpus": GpuReport((replace(A100, driver=None),))}, "driver", "not known"),
    ({"gpus": GpuReport((replace(A100, mig=True),))}, "mig", "one slice"),
    ({"system__tools": frozenset({"tar", "base64"})}, "tools", "no flock"),
    ({"system__disks": (Disk("/home/ana/.orch", 9000, 4000),)}, "root", "4.2 GB free"),
    ({"docker__disk": Disk("/d", 90_000, 9_000)}, "room", "9.4 GB free"),
    ({"asked": (1100.0, 1101.0)}, "clock", "1 min behind"),
    ({"asked": (900.0, 901.0)}, "clock", "1 min ahead"),
    ({"system__time": None}, "clock", "not known"),
]


@pytest.mark.parametrize(("change", "name", "message"), WARNED, ids=[f"{n}: {m}" for _, n, m in WARNED])
def test_what_only_surprises_warns(change: dict[str, Any], name: str, message: str) -> None:
    check = find(seen(**change), name)
    assert check.level is Level.WARN
    assert message in check.message


FINE = [
    ({"gpus": NO_GPU, "image": PLAIN}, "gpus", "no NVIDIA GPU"),
    ({"docker__images": {}, "tag": TagReport(True)}, "image", "can be pulled"),
    ({"settings": {"dockerfile": "/x/Df"}, "image": "orch/a-base:1"}, "image", "builds it of /x/Df"),
    ({"docker__holders": {2222: "orch-bob-x"}}, "ssh port", "taken by container orch-bob-x, the next"),
    ({"settings": {"ssh_port": 2222}, "docker__holders": {2222: "orch-ana-mnist"}}, "ssh port", "is free"),
    ({"docker__runtimes": frozenset(), "system__tools": SYSTEM.tools | {"nvidia-container-runtime-hook"}},
     "toolkit", "can have"),
    ({"asked": (960.0, 1100.0)}, "clock", "as here"),  # a slow question proves nothing
    ({"system__arch": "aarch64", "image": "mine:1"}, "processor", "aarch64"),
    ({"docker__client": "19.03.8", "docker__server": "19.03.8-ce"}, "docker", "19.03.8"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name", "message"), FINE, ids=[f"{n}: {m}" for _, n, m in FINE])
def test_what_is_fine(change: dict[str, Any], name: str, message: str) -> None:
    check = find(seen(**change), name)
    assert check.level is Level.OK
    assert message in check.message


SKIPPED = [
    ({"docker__images": {}, "tag": TagReport(None, "dial tcp: i/o timeout")}, "image", "i/o timeout"),
    ({"settings": {"gpus": "none"}}, "gpus", "gpus = none"),
    ({"image": "nvcr.io/nvidia/tensorflow:22.05-tf2-py3"}, "driver", "not known"),
]


@pytest.mark.parametrize(("change", "name", "message"), SKIPPED, ids=[f"{n}: {m}" for _, n, m in SKIPPED])
def test_what_can_not_be_looked_at_says_so(change: dict[str, Any], name: str, message: str) -> None:
    check = find(seen(**change), name)
    assert check.level is Level.SKIP
    assert message in check.message


def test_the_place_of_a_setting_is_in_the_hint() -> None:
    taken = seen({"ssh_port": 2222}, docker__holders={2222: "orch-bob-speech"})
    assert find(taken, "ssh port").hint == "Set ssh_port = auto for gpu01 (hosts.ini:12), or another port."
    missing = seen(place__sources=(Source("/data", "/data", "missing"),))
    assert find(missing, "volumes").hint == "Make it there, or change volumes (hosts.ini:9)."


def test_an_engine_that_can_not_be_used_is_asked_nothing_more() -> None:
    down = seen(docker=DockerReport(Trouble("denied", "may not", "usermod -aG docker ACCOUNT")))
    names = [c.name for c in diagnose(down)]
    assert "room" not in names
    assert "toolkit" not in names
    assert find(down, "docker").hint == "usermod -aG docker ana"


VENV = {"engine": "venv"}


def test_a_venv_needs_no_docker_and_its_own_things() -> None:
    checks = diagnose(seen(VENV, docker=DockerReport(Trouble("missing", "docker is not installed", "x"))))
    assert {c.level for c in checks} == {Level.OK}
    assert [c.name for c in checks][-4:] == ["python", "libc", "gpus", "driver"]


@pytest.mark.parametrize(
    ("tensorflow", "pythons", "message"),
    [
        (None, (), "needs Python 3.7 to 3.10 or 3.10 to 3.13 (found: none)"),
        (None, (Python("/p", (3, 6, 9)),), "(found: 3.6.9)"),
        (
            "2.9.3",
            (Python("/p", (3, 12, 1)),),
            "TensorFlow 2.9.3 in a venv: it needs Python 3.7 to 3.10 (found: 3.12.1)",
        ),
        ("2.21.0", (Python("/p", (3, 8, 1)),), "3.10 to 3.13"),
        ("2.10.1", (Python("/p", (3, 12, 1)),), "3.7 to 3.10"),
        (None, (Python("/usr/bin/python3.10", (3, 10, 2), venv=False),), "python3.10 can't make one"),
    ],
)
def test_pythons_that_do_not_do(tensorflow: str | None, pythons: tuple[Python, ...], message: str) -> None:
    check = find(seen({**VENV, "tensorflow": tensorflow}, system__pythons=pythons), "python")
    assert check.level is Level.FAIL
    assert message in check.message


def test_the_python_is_the_one_that_a_deploy_takes() -> None:
    old, new = Python("/usr/bin/python3.8", (3, 8, 10), venv=False), Python("/usr/bin/python3.12", (3, 12, 1))
    assert find(seen(VENV, system__pythons=(new, old)), "python").message == "/usr/bin/python3.12 (3.12.1)"
    with_uv = seen(VENV, system__pythons=(new, old), system__uv="/usr/bin/uv")
    assert find(with_uv, "python").message == "/usr/bin/python3.8 (3.8.10)"
    none_fits = seen(VENV, system__pythons=(), system__uv="/usr/bin/uv")
    assert find(none_fits, "python").message == "none here fits: uv fetches Python 3.10"


def test_musl_and_old_libraries_can_not_run_the_wheels() -> None:
    assert "musl" in find(seen(VENV, system__glibc=None), "libc").message
    assert find(seen(VENV, system__glibc="2.12"), "libc").level is Level.FAIL


def test_sessions_that_end_with_the_login_matter_without_a_container() -> None:
    killed: dict[str, Any] = {"system__kill_user_processes": True}
    assert find(seen(VENV, **killed), "sessions").hint == "As root there: loginctl enable-linger ana."
    assert "sessions" not in [c.name for c in diagnose(seen(VENV, **killed, system__linger=True))]
    assert "sessions" not in [c.name for c in diagnose(seen(**killed))]


def test_an_unreached_host_has_one_check() -> None:
    (check,) = unreached(NotPermitted("host key unknown", where="gpu01", hint="Run: ssh gpu01"), "gpu01")
    assert (check.level, check.message, check.hint) == (Level.FAIL, "host key unknown", "Run: ssh gpu01")
    assert unreached(Unreachable("timed out"), "10.0.0.1")[0].hint == "Try by hand: ssh -v 10.0.0.1"
    assert unreached(ConfigError("config: line 2: bad"), "gpu01")[0].hint == "Mend it there"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("450.80.02", (450, 80, 2)),
        ("20.10.24+dfsg1", (20, 10, 24)),
        ("19.03.8-ce", (19, 3, 8)),
        ("N/A", ()),
        ("", ()),
        (None, ()),
    ],
)
def test_versions_are_numbers(text: str | None, numbers: tuple[int, ...]) -> None:
    assert version(text) == numbers


@pytest.mark.parametrize(
    ("said", "status", "found"),
    [
        ("", 0, True),
        ("no such manifest: docker.io/tensorflow/tensorflow:2.9.0-gpu-py3", 1, False),
        ("manifest for x not found: manifest unknown: manifest unknown", 1, False),
        ("errors: denied: requested access to the resource is denied", 1, False),
        (
            'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
            1,
            None,
        ),
        ("error pinging: dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: server not found", 1, None),
        ("toomanyrequests: You have reached your pull rate limit.", 1, None),
        ("docker manifest inspect is only supported on a Docker cli with experimental cli features", 1, None),
        ("", 124, None),
    ],
)
def test_what_a_registry_says_of_a_tag(said: str, status: int, found: bool | None) -> None:
    assert TAG.parse(Section(f"status\t{status}\nsaid\t{said}", 0)).found is found
