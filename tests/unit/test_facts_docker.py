"""The engine's answers, read from texts of the shapes that docker 20 to 28 print."""

import json

import pytest

from orchestrator.facts.docker import DockerReport, parse
from orchestrator.facts.question import Section
from orchestrator.facts.trouble import explain

INFO = {
    "DockerRootDir": "/var/lib/docker",
    "ServerVersion": "24.0.7",
    "Architecture": "x86_64",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"],
    "Runtimes": {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}},
}


def container(name: str, running: bool = True, labels: dict[str, str] | None = None) -> str:
    return json.dumps(
        {
            "id": "f" * 63 + name[-1],
            "name": f"/{name}",
            "image": "sha256:aa",
            "state": {"Running": running, "ExitCode": 0 if running else 137},
            "labels": labels,
            "bindings": {"22/tcp": [{"HostIp": "127.0.0.1", "HostPort": "2222"}], "80/tcp": None},
        }
    )


def report(*lines: str, info: object = INFO) -> DockerReport:
    answer = ["client\tDocker version 24.0.7, build afdd53b", "status\t0", "info\t/var/lib/docker"]
    return parse(Section("\n".join([*answer, "info\t" + json.dumps(info), *lines]), 0))


def test_an_engine_that_works() -> None:
    found = report("disk\t/var/lib/docker\t1000000\t500000\t77", "info\tWARNING: No swap limit support")
    assert found.trouble is None
    assert (found.client, found.server, found.root) == ("24.0.7", "24.0.7", "/var/lib/docker")
    assert "rootless" in found.security
    assert "nvidia" in found.runtimes
    assert found.disk
    assert (found.disk.free_mb, found.disk.inodes_free) == (488, 77)


def test_containers_images_and_who_holds_a_port() -> None:
    found = report(
        "ps\tf1\torch-ana-mnist\t127.0.0.1:2222->22/tcp\tana",
        "ps\tf2\tweb\t0.0.0.0:8000-8001->8000-8001/tcp, :::8000-8001->8000-8001/tcp, 9000/tcp\t",
        "ps\tf3\tidle\t\t",
        "container\t" + container("orch-ana-mnist", labels={"orch.person": "ana"}),
        "container\t" + container("orch-bob-x", running=False),
        'image\tbase:1\t{"id": "sha256:bb", "arch": "amd64", "labels": null, "digests": null}',
    )
    assert found.holders == {2222: "orch-ana-mnist", 8000: "web", 8001: "web"}
    mine, other = found.container("orch-ana-mnist"), found.container("orch-bob-x")
    assert mine
    assert other
    assert (mine.running, mine.ours, mine.ports) == (True, True, {2222})
    assert (other.running, other.ours, other.exit_code) == (False, False, 137)
    assert found.images["base:1"].id == "sha256:bb"
    assert found.container("no") is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "Got permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock: dial unix /var/run/docker.sock: connect: permission denied",
            "denied",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
            "down",
        ),
        (
            "error during connect: dial unix /run/user/7/docker.sock: connect: no such file or directory",
            "down",
        ),
        ("sudo: a password is required", "denied"),
        ("sudo: no tty present and no askpass program specified", "denied"),
        ("Sorry, user ana is not allowed to execute '/usr/bin/docker info' as root on gpu01.", "denied"),
        ("sudo: docker: command not found", "missing"),
        ("something new\nand more", "other"),
    ],
)
def test_what_is_wrong_is_told_apart(text: str, kind: str) -> None:
    assert explain(text).kind == kind
    assert "\n" not in explain(text).text


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ('Error: cannot find newuidmap: exec: "newuidmap": executable file not found', "missing", "uidmap"),
        ("cannot set up namespace using newuidmap: exit status 1", "denied", "--add-subuids"),
        ('no subuid ranges found for user "ana" in /etc/subuid', "denied", "podman system migrate"),
        ("user namespaces are not enabled in /proc/sys/user/max_user_namespaces", "denied", "sysctl"),
        ('time="x" level=warning msg="y"\nError: the moon is full', "other", "podman info"),
    ],
)
def test_what_podman_lacks_is_told_with_its_cure(text: str, kind: str, words: str) -> None:
    trouble = explain(text, "podman")
    assert trouble.kind == kind
    assert words in trouble.hint
    assert "level=" not in trouble.text


def test_a_daemon_that_is_looked_for_elsewhere_is_named_with_its_address() -> None:
    said = "Cannot connect to the Docker daemon at {}. Is the docker daemon running?"
    usual = explain(said.format("unix:///var/run/docker.sock"))
    other = explain(said.format("unix:///run/user/1001/docker.sock"))
    assert usual.text == "the Docker daemon does not run"
    assert other.text == "no Docker daemon answers at unix:///run/user/1001/docker.sock"
    assert "DOCKER_HOST" in other.hint
    assert "systemctl --user start docker" in other.hint


def test_errors_stand_in_the_json_or_beside_it() -> None:
    beside = parse(
        Section("client\tDocker version 28.2.2\nstatus\t1\ninfo\tCannot connect to the Docker daemon", 0)
    )
    inside = report(info={"ServerErrors": ["permission denied while trying to connect"], "ServerVersion": ""})
    assert beside.trouble
    assert inside.trouble
    assert (beside.trouble.kind, inside.trouble.kind) == ("down", "denied")


def test_no_docker_and_no_answer() -> None:
    kinds = []
    for text in ("missing\tdocker", "", "client\tpodman version 4.9.3\n"):
        trouble = parse(Section(text, 0)).trouble
        assert trouble
        kinds.append(trouble.kind)
    assert kinds == ["missing", "other", "other"]


PODMAN = {
    "host": {
        "arch": "amd64",
        "cgroupVersion": "v1",
        "security": {"rootless": True, "selinuxEnabled": False, "seccompEnabled": True},
        "idMappings": {"uidmap": [{"host_id": 1001, "size": 1}, {"host_id": 100000, "size": 65536}]},
    },
    "store": {"graphRoot": "/home/ana/.local/share/containers/storage"},
    "version": {"Version": "4.9.3"},
}


def podman(info: object) -> DockerReport:
    text = 'time="x" level=warning msg="no shared mount"\n' + json.dumps(info, indent=2)
    lines = ["client\tpodman version 4.9.3", "status\t0", *(f"info\t{line}" for line in text.splitlines())]
    return parse(Section("\n".join([*lines, "cdi\t/etc/cdi/nvidia.yaml"]), 0))


def test_podman_says_the_same_in_its_own_way() -> None:
    found = podman(PODMAN)
    assert found.trouble is None
    assert (found.kind, found.client, found.server, found.arch) == ("podman", "4.9.3", "4.9.3", "amd64")
    assert found.root == "/home/ana/.local/share/containers/storage"
    assert found.security == {"rootless", "seccomp"}
    assert (found.subids, found.limits) == (65536, False)
    assert found.cdi == ("/etc/cdi/nvidia.yaml",)
    rooted = podman({**PODMAN, "host": {"security": {"rootless": False}}})
    assert (rooted.security, rooted.subids, rooted.limits) == (frozenset(), None, True)
    assert not report(info={**INFO, "CgroupDriver": "none"}).limits
