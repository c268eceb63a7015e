"""Images on real hosts: Dockerfiles of one's own by both builders, odd bases, layers, packages, prune."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .lab import Fleet, Host
from .orch import Orch
from .package_index import package_index
from .registry import registry

NAME = "orch-ana-mnist"
BASE = "tensorflow/tensorflow:2.9.3"
BUILDKIT = "env DOCKER_BUILDKIT=1 docker"  # the daemon here has it, and its client asks for it so
PLAIN = f"""\
FROM {BASE}
# Debian without Python, as its own images are
RUN dpkg-query -W -f '${{Package}}\\n' | grep -E '^(lib)?python3' | xargs dpkg --purge --force-all \\
    && rm -rf /usr/lib/python3* /usr/local/lib/python3* /usr/bin/python3*
"""
TORCH = """\
__version__ = "2.1.0"
class version:
    cuda = None
class cuda:
    device_count = staticmethod(lambda: 0)
"""


@pytest.fixture(autouse=True)
def clean(gpu01: Host, gpu02: Host) -> Iterator[None]:
    """No container, nothing of the project, and none of its images, before and after."""
    for host in (gpu01, gpu02):
        _wipe(host)
    yield
    for host in (gpu01, gpu02):
        _wipe(host)


def _wipe(host: Host) -> None:
    host.run(f"docker ps -aq --filter name={NAME} | xargs -r docker rm -f; rm -rf /home/ana/.orch")


def environment(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        host.run(f"cat /home/ana/.orch/ana/mnist/hosts/{host.name}/environment.json").stdout
    )
    return found


def each_host(orch: Orch, fleet: Fleet, file: Path, **lines: str) -> Orch:
    """Settings of single hosts, laid over the fleet's inventory."""
    file.write_text("[gpu]\n" + "".join(f"{host} {line}\n" for host, line in lines.items()))
    return orch.having(ORCH_INVENTORY=f"{fleet.client.inventory('ana')}:{file}")


def test_a_dockerfile_of_ones_own_by_both_builders(
    orch: Orch, fleet: Fleet, gpu01: Host, gpu02: Host, tmp_path: Path
) -> None:
    """gpu01: PyTorch (a stand-in for its module), classic builder; gpu02: Debian without Python, BuildKit."""
    top = tmp_path / "image"
    (top / "conf/deep").mkdir(parents=True)
    (top / "Dockerfile").write_text(f"{PLAIN}COPY conf /conf\nUSER nobody\nENTRYPOINT false\n")
    (top / "torch.df").write_text(
        f"FROM {BASE}\nRUN rm -rf /usr/local/lib/python3.9\nCOPY conf /conf\n"
        "COPY torch.py /usr/lib/python3/dist-packages/\n"
    )
    (top / "torch.py").write_text(TORCH)
    (top / ".dockerignore").write_text("**/*.tmp\n!conf/deep/kept.tmp\nDockerfile\n")
    for name in ("conf/run.sh", "conf/a.tmp", "conf/deep/kept.tmp"):
        (top / name).write_text(f"{name}\n")
    (top / "conf/run.sh").chmod(0o750)
    (top / "conf/link").symlink_to("/etc/debian_version")
    lines = {
        "gpu01": f"dockerfile={top}/torch.df",
        "gpu02": f"dockerfile={top}/Dockerfile engine_command='{BUILDKIT}'",
    }
    orch = each_host(orch, fleet, tmp_path / "over.ini", **lines)

    made = orch("deploy", "--yes", "gpu01,gpu02")
    assert re.search(
        r"^gpu01   ready in \d+ s   Python 3\.9\.2   PyTorch 2\.1\.0 ", made.stdout, re.MULTILINE
    )
    assert re.search(r"^gpu02   ready in \d+ s   Python 3\.9\.2   no TensorFlow ", made.stdout, re.MULTILINE)
    assert "./Dockerfile + sshd, python3 if it has none   (built first, of 6 files, " in made.stderr
    assert "gpu02   step 2/3  RUN dpkg-query" in made.stderr
    for host in (gpu01, gpu02):
        inside = host.docker(
            "exec",
            NAME,
            "sh",
            "-c",
            "cd /conf && stat -c '%n %a %U' run.sh && readlink link && find . -name '*.tmp'",
        )
        assert inside.split() == ["run.sh", "750", "root", "/etc/debian_version", "./deep/kept.tmp"]
    assert orch("deploy", "gpu01,gpu02").stdout.count("unchanged") == 2

    (top / "conf/run.sh").write_text("changed\n")
    (top / "Dockerfile").write_text(f"{PLAIN}RUN false\n")
    planned = orch("deploy", "--dry-run", "gpu01,gpu02").stdout
    assert planned.count("build: 1 file of the build context changed: conf/run.sh\n") == 2
    assert planned.count("build: Dockerfile changed\n") == 1


@pytest.mark.parametrize("engine", ["docker", BUILDKIT])
def test_what_fails_in_it_is_told_with_its_line(orch: Orch, gpu01: Host, tmp_path: Path, engine: str) -> None:
    file = tmp_path / "Dockerfile"
    orch = orch.having(ORCH_DOCKERFILE=str(file), ORCH_ENGINE_COMMAND=engine)

    def last(text: str, code: int = 78) -> str:
        file.write_text(text)
        return orch("deploy", "--yes", "gpu01", code=code).stderr.splitlines()[-1]

    failing = f"FROM {BASE}\n\nRUN echo begun \\\n # why\n && exit 3\n"
    assert last(failing) == f"orch: {file}:3: RUN echo begun && exit 3 ended with status 3 on gpu01"
    assert re.match(
        rf"orch: {file}:2: COPY.* (not found|does not exist) on gpu01", last(f"FROM {BASE}\nCOPY gone /x\n")
    )
    assert last(f"FROM {BASE}\nRAN x\n") == f"orch: {file}:2: unknown instruction: RAN on gpu01"
    with registry(gpu01) as name:
        gone = last(f"ARG X\nFROM {name}/gone:1\n")
    assert gone.startswith(f"orch: {file}:2: there is no image {name}/gone:1. Correct FROM")
    assert gpu01.containers(all=True) == []


def test_bases_that_can_hold_no_container_of_ours(orch: Orch, gpu01: Host) -> None:
    gpu01.run(f"printf 'FROM {BASE}\\nRUN rm /usr/bin/apt-get\\n' | docker build -t no-apt:1 -")
    gpu01.run("tar c -T /dev/null | docker import - empty:1")
    try:
        for image, words in (
            ("no-apt:1", "is built on no Debian or Ubuntu"),
            ("empty:1", "has no shell, or no root"),
        ):
            refused = orch.having(ORCH_IMAGE=image)("deploy", "--yes", "gpu01", code=78)
            assert f"orch: gpu01: {image} {words}. Set `image` (ORCH_IMAGE)" in refused.stderr
        digest = f"sha256:{'ab' * 32}"
        with registry(gpu01) as name:
            wrong = orch.having(ORCH_IMAGE=f"{name}/tf@{digest}")("deploy", "--yes", "gpu01", code=78)
        assert f"orch: gpu01: there is no image {name}/tf@{digest}. Correct `image`" in wrong.stderr
        absent = orch.having(ORCH_IMAGE=digest)("deploy", "--yes", "gpu01", code=78)
        assert f"orch: ORCH_IMAGE: there is no image {digest} on gpu01." in absent.stderr
    finally:
        gpu01.docker("image", "rm", "-f", "no-apt:1", "empty:1")


def test_other_packages_cost_only_their_layer_and_end_no_run(orch: Orch, gpu01: Host, tmp_path: Path) -> None:
    """On an image by its id; afterwards the old image goes, and only that."""
    base = gpu01.docker("image", "inspect", "-f", "{{.Id}}", BASE).strip()
    orch = orch.having(ORCH_IMAGE=base)
    first, second = (orch.having(ORCH_REQUIREMENTS=wanted) for wanted in ("six", "six,toolz"))
    first("deploy", "--yes", "gpu01")
    old = environment(gpu01)
    waits = "until [ -e /orch/go ]; do sleep 0.2; done"
    first("train", "-d", "--hosts", "gpu01", "--name", "old", "--", "sh", "-c", waits)

    made = second("deploy", "--yes", "gpu01")
    assert "  container  beside " in made.stderr
    assert "packages none -> toolz" in made.stderr
    new = environment(gpu01)
    steps = [history(gpu01, e["image_id"]) for e in (old, new)]
    same = [a for a, b in zip(*steps, strict=False) if a == b]
    assert any("openssh-server" in made_by for _, made_by in same)
    assert not any("pip install" in made_by for _, made_by in same)
    second("train", "--wait", "--hosts", "gpu01", "--name", "new", "--", "python3", "-c", "import toolz, six")
    gpu01.run("touch /home/ana/.orch/ana/mnist/go")
    assert "succeeded" in orch("tail", "old").stderr
    assert "its last run has ended" in second("deploy", "--yes", "gpu01").stderr
    assert gpu01.containers(all=True) == [NAME]

    whose = {row["id"]: row["containers"] for row in images(orch)}
    old_id, new_id = (e["image_id"].removeprefix("sha256:") for e in (old, new))
    assert (whose[old_id], whose[new_id]) == ([], [NAME])
    foreign = {row["id"] for row in images(orch.having(ORCH_PERSON="bob"))}
    assert not foreign & {old_id, new_id}
    asked = orch("image", "prune", "gpu01", code=2)
    assert re.match(r"gpu01   frees about [1-9]\S* [kM]B\n", asked.stderr)
    assert re.search(r"^gpu01   removed \d+ images?, about ", orch("image", "prune", "--yes", "gpu01").stdout)
    left = {row["id"] for row in images(orch)}
    assert left == {new_id}
    assert base in gpu01.docker("images", "-q", "--no-trunc").split()
    down = orch("down", "--yes", "gpu01")
    assert "next:   orch image prune gpu01" in down.stderr


def history(host: Host, image: str) -> list[tuple[str, str]]:
    """Each step of an image, the lowest first: its id, and what it was made by."""
    shown = host.docker("history", "--no-trunc", "--format", "{{.ID}}\t{{.CreatedBy}}", image)
    pairs = [line.split("\t", 1) for line in shown.splitlines()]
    return [(step, made_by) for step, made_by in reversed(pairs)]


def images(orch: Orch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(orch("image", "ls", "--json", "gpu01").stdout)["rows"]
    return found


def test_hosts_of_one_deploy_get_the_same_packages(
    orch: Orch, fleet: Fleet, gpu01: Host, gpu02: Host, tmp_path: Path
) -> None:
    """Each host's own index offers another version, as the same one does on another day."""
    with package_index(gpu01) as url:
        wanted = tmp_path / "wanted.txt"
        wanted.write_text(f"--trusted-host {gpu01.address}\ndemo\n")
        lines = {"gpu01": f"pip_index={url}/one", "gpu02": f"pip_index={url}/two"}
        orch = each_host(orch, fleet, tmp_path / "over.ini", **lines).having(ORCH_REQUIREMENTS=str(wanted))
        said = orch("deploy", "--yes", "gpu01,gpu02").stderr
    assert len(re.findall(r"build orch/ana-mnist:\w+ with the packages of another host", said)) == 1
    first, second = environment(gpu01), environment(gpu02)
    assert first["env"] == second["env"]
    assert first["image_id"] != second["image_id"]  # each was built where it is
