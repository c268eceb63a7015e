"""What was changed by hand on a host is seen and named, and a deploy puts it right."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import pytest

from .lab import Host
from .orch import Orch

NAME = "orch-ana-mnist"
INFO = "Metadata-Version: 2.1\nName: {0}\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture(autouse=True)
def clean(gpu01: Host) -> Iterator[None]:
    gpu01.wipe()
    yield
    gpu01.wipe()


def wheel(name: str) -> bytes:
    """A package of one module, as pip takes it."""
    out = io.BytesIO()
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", INFO.format(name))
        archive.writestr(f"{info}/WHEEL", WHEEL)
        archive.writestr(f"{info}/RECORD", "")
    return out.getvalue()


def by_hand(text: str) -> list[str]:
    return [line.partition("by hand: ")[2] for line in text.splitlines() if "by hand: " in line]


def test_a_container_that_was_changed_by_hand(orch: Orch, gpu01: Host) -> None:
    orch("deploy", "--yes", "gpu01")
    assert f"{NAME}, as it was deployed" in orch("doctor", "-v", "gpu01").stdout
    tag = gpu01.docker("inspect", "-f", "{{.Config.Image}}", NAME).strip()
    gpu01.docker("update", "--memory", "2g", "--memory-swap", "2g", "--cpus", "1.5", "--restart", "no", NAME)
    gpu01.docker("network", "disconnect", "bridge", NAME)
    gpu01.docker("tag", "tensorflow/tensorflow:2.9.3", tag)
    gpu01.docker("rename", NAME, "mine")
    changes = [
        f"name {NAME} -> mine",
        "memory no limit -> 2.1 GB",
        "cpus no limit -> 1.5",
        "restart unless-stopped -> no",
        "networks bridge -> none",
        f"image: {tag} is another image now",
    ]
    counter = gpu01.counter()
    planned = orch("deploy", "--dry-run", "gpu01")
    assert (counter.read().connections, counter.read().execs) == (1, 1)
    assert by_hand(planned.stdout) == changes
    assert "  container  replace  " in planned.stdout
    assert by_hand(orch("doctor", "gpu01").stdout) == changes

    orch("deploy", "--yes", "gpu01")
    assert gpu01.containers(all=True) == [NAME]
    assert orch("deploy", "gpu01").stdout.startswith("gpu01   unchanged")

    noted = orch.having(ORCH_SHM_SIZE="1g", ORCH_IMAGEE="x")
    said = noted("train", "-d", "--hosts", "gpu01", "--", "true").stderr
    assert "note: changed since the deploy of gpu01: shm_size (ORCH_SHM_SIZE). To have it: " in said
    assert "ORCH_IMAGEE is no setting. Did you mean ORCH_IMAGE?" in said

    gpu01.docker("pause", NAME)
    assert f"{NAME} is paused" in orch("doctor", "gpu01").stdout
    assert "  container  unpause  " in orch("deploy", "--yes", "gpu01").stderr
    gpu01.docker("stop", "-t", "0", NAME)
    assert f"{NAME} is stopped" in orch("doctor", "gpu01").stdout
    gpu01.docker("rm", "-f", NAME)
    gone = orch("deploy", "--dry-run", "gpu01").stdout
    assert "  container  create " in gone
    assert by_hand(gone)[0].endswith(" is gone")


def test_what_was_installed_by_hand_is_told_by_doctor(orch: Orch, gpu01: Host) -> None:
    orch("deploy", "--yes", "gpu01")
    files = "/home/ana/.orch/ana/mnist/workspace"
    for name in ("inside", "athome"):
        path = gpu01.disk / files.lstrip("/") / f"{name}-1.0-py3-none-any.whl"
        path.write_bytes(wheel(name))
    pip = "python3 -m pip install -q --no-index --no-deps"
    gpu01.docker("exec", NAME, "sh", "-c", f"{pip} /workspace/inside-1.0-py3-none-any.whl")
    as_ana = ("exec", "-u", "1500:1500", "-e", "HOME=/home/ana", NAME, "sh", "-c")
    gpu01.docker(*as_ana, f"{pip} --user /workspace/athome-1.0-py3-none-any.whl")
    control = r"Package: hello-orch\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    deb = f"mkdir -p /tmp/d/DEBIAN && printf '{control}' > /tmp/d/DEBIAN/control"
    deb += " && dpkg-deb -b /tmp/d /tmp/d.deb && dpkg -i /tmp/d.deb"
    gpu01.docker("exec", NAME, "sh", "-c", deb)
    gpu01.docker("exec", NAME, "sh", "-c", "echo '# mine' >> /usr/local/lib/orch/entrypoint")

    counter = gpu01.counter()
    said = orch("doctor", "gpu01").stdout
    assert counter.read().execs == 1
    for words in (
        "pip, by hand in the container: +inside-1.0",
        "pip, in the home: athome-1.0",
        "apt, by hand in the container: +hello-orch",
        "by hand: /usr/local/lib/orch: entrypoint",
    ):
        assert words in said
    assert orch("deploy", "gpu01").stdout.startswith("gpu01   unchanged"), "a deploy looks into no container"
