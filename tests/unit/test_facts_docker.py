"""The engine's answers, read from texts of the shapes that docker 20 to 28 print."""

import json

import pytest

from orchestrator.facts.docker import DockerReport, explain, parse
from orchestrator.facts.question import Section

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
        ("something new\nand more", "other"),
    ],
)
def test_what_is_wrong_is_told_apart(text: str, kind: str) -> None:
    assert explain(text).kind == kind
    assert "\n" not in explain(text).text


def test_errors_stand_in_the_json_or_beside_it() -> None:
    beside = parse(
        Section("client\tDocker version 28.2.2\nstatus\t1\ninfo\tCannot connect to the Docker daemon", 0)
    )
    inside = report(info={"ServerErrors": ["permission denied while trying to connect"], "ServerVersion": ""})
    assert beside.trouble
    assert inside.trouble
    assert (beside.trouble.kind, inside.trouble.kind) == ("down", "denied")


def test_no_docker_and_no_answer_and_podman() -> None:
    kinds = []
    for text in ("missing\tdocker", "", "client\tpodman version 4.9.3\n"):
        trouble = parse(Section(text, 0)).trouble
        assert trouble
        kinds.append(trouble.kind)
    assert kinds == ["missing", "other", "podman"]
