"""Who logs in, which GPUs and which image: settings and facts put together."""

import pytest

from orchestrator.container.inputs import Inputs
from orchestrator.container.spec import base_image, expected_gpus, login_user, wanted_gpus
from orchestrator.errors import HostError
from orchestrator.facts.docker import DockerReport
from orchestrator.facts.gpu import Gpu, GpuReport
from orchestrator.facts.place import Source
from orchestrator.facts.system import SystemReport
from orchestrator.inventory import Settings, Volume

from .deploys import facts, gpus, host, spec_of

ANA = SystemReport(uid=1001, gid=1002, user="ana")
PODMAN = DockerReport(kind="podman", client="4.9.3", server="4.9.3", security=frozenset({"rootless"}))


@pytest.mark.parametrize(
    ("account", "container_user", "security", "expected"),
    [
        (ANA, None, set(), ("ana", 1001, 1002, "/home/ana")),
        (SystemReport(uid=0, gid=0, user="root"), None, set(), ("orch", 1000, 1000, "/home/orch")),
        (SystemReport(uid=0, gid=0, user="root"), "root", set(), ("root", 0, 0, "/root")),
        (ANA, None, {"rootless"}, ("root", 0, 0, "/root")),
        (ANA, "lab", set(), ("lab", 1001, 1002, "/home/lab")),
        (SystemReport(uid=7, gid=7, user="LAB\\Ana.B"), None, set(), ("ana-b", 7, 7, "/home/ana-b")),
        (SystemReport(uid=7, gid=7, user="42"), None, set(), ("orch", 7, 7, "/home/orch")),
        (SystemReport(uid=7, gid=7, user="José"), None, set(), ("jos-", 7, 7, "/home/jos-")),
        (SystemReport(uid=7, gid=7, user="a.b@lab"), None, set(), ("a-b-lab", 7, 7, "/home/a-b-lab")),
        (SystemReport(uid=7, gid=7, user="x" * 40), None, set(), ("x" * 32, 7, 7, f"/home/{'x' * 32}")),
        (SystemReport(uid=7, gid=7, user="root"), None, set(), ("orch", 7, 7, "/home/orch")),
        (SystemReport(uid=7, gid=7, user="LAB\\"), None, set(), ("orch", 7, 7, "/home/orch")),
    ],
)
def test_who_logs_in(
    account: SystemReport, container_user: str | None, security: set[str], expected: tuple[object, ...]
) -> None:
    engine = DockerReport(security=frozenset(security))
    user = login_user(Settings(container_user=container_user), account, engine)
    assert (user.name, user.uid, user.gid, user.home) == expected


def test_rootless_podman_keeps_the_accounts_uid() -> None:
    user = login_user(Settings(), ANA, PODMAN)
    assert (user.name, user.uid, user.gid) == ("ana", 1001, 1002)


@pytest.mark.parametrize(
    ("wish", "there", "given", "expected"),
    [
        ("auto", 0, "none", 0),
        ("auto", 4, "all", 4),
        ("none", 4, "none", 0),
        ("2", 4, "2", 2),
        ("0,3", 4, "0,3", 2),
    ],
)
def test_gpus_as_wished(wish: str, there: int, given: str, expected: int) -> None:
    known = facts(gpus=gpus(there))
    spec, _ = spec_of(host(gpus=wish), known, Inputs())
    assert spec.gpus == given
    assert expected_gpus(spec, known.gpus) == expected


def test_a_gpu_with_a_fault_is_not_expected() -> None:
    report = GpuReport((Gpu(index=0, uuid="GPU-0"), Gpu(index=1, fault="GPU is lost")))
    spec, _ = spec_of(host(), facts(gpus=report), Inputs())
    assert expected_gpus(spec, report) == 1


@pytest.mark.parametrize(("wish", "words"), [("8", "8 .*has 4 GPUs"), ("all", "no GPU"), ("0,9", "GPU 9 ")])
def test_more_gpus_than_there_are(wish: str, words: str) -> None:
    with pytest.raises(HostError, match=rf"{words}.*hosts\.ini:10"):
        wanted_gpus(host(gpus=wish), gpus(0 if wish == "all" else 4))


def test_the_image_follows_the_gpus() -> None:
    assert base_image(host(), gpus(0)) == "tensorflow/tensorflow:2.9.3"
    assert base_image(host(), gpus(1)) == "tensorflow/tensorflow:2.9.3-gpu"
    assert base_image(host(gpus="none"), gpus(1)) == "tensorflow/tensorflow:2.9.3"
    assert base_image(host(tensorflow="2.9.1"), gpus(1)) == "tensorflow/tensorflow:2.9.1-gpu"
    assert base_image(host(image="mine"), gpus(1)) == "mine"


def test_volumes_are_absolute() -> None:
    known = facts(place__sources=(Source("~/sets", "/home/ana/sets", "folder"),))
    spec, _ = spec_of(host(volumes=(Volume("~/sets", "/sets", True),)), known, Inputs())
    assert spec.volumes == ("/home/ana/sets:/sets:ro",)


def test_what_the_engine_needs_besides() -> None:
    for known, options in (
        (facts(), ()),
        (facts(docker__security=frozenset({"userns"})), ("--userns=host",)),
        (facts(docker__security=frozenset({"selinux"})), ("--security-opt=label=disable",)),
        (facts(system__selinux="Enforcing"), ("--security-opt=label=disable",)),
        (facts(docker=DockerReport(kind="podman")), ("--http-proxy=false",)),
        (facts(docker=PODMAN), ("--userns=keep-id", "--user=0:0", "--http-proxy=false")),
    ):
        assert spec_of(host(), known, Inputs())[0].options == options
