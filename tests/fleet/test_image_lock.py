"""image.lock on real hosts: the same packages on another day, what is not as locked is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Fleet, Host
from .orch import Orch
from .package_index import package_index
from .small import BUILT, built
from .test_images import each_host, environment

NAME = "orch-ana-mnist"
SMALL = "orch-small:1"


@pytest.fixture(autouse=True)
def clean(gpu01: Host, gpu02: Host) -> Iterator[None]:
    """Nothing of the project, and none of its images, before and after."""
    _wipe(gpu01, gpu02)
    yield
    _wipe(gpu01, gpu02)


def _wipe(*hosts: Host) -> None:
    for host in hosts:
        host.run(
            f"docker ps -aq --filter name={NAME} | xargs -r docker rm -f; rm -rf /home/ana/.orch;"
            " docker images -q orch/ana-mnist | xargs -r docker rmi -f"
        )


def demo(host: Host) -> str:
    return host.docker("exec", NAME, "python3", "-m", "pip", "list").split("demo")[1].split()[0]


def test_a_locked_deploy_is_the_same_on_another_day_and_else_refused(
    orch: Orch, fleet: Fleet, gpu01: Host, gpu02: Host, tmp_path: Path, project: Path
) -> None:
    """The index of gpu02 is that of a day on which `demo` is newer."""
    built(orch, gpu01)
    _wipe(gpu01)
    gpu02.run(f"docker load -q -i {BUILT}; docker rmi $(docker images -q orch/ana-mnist)")
    with package_index(gpu01) as url:
        wanted = tmp_path / "wanted.txt"
        wanted.write_text(f"--trusted-host {gpu01.address}\ndemo\n")
        lines = {"gpu01": f"pip_index={url}/one", "gpu02": f"pip_index={url}/two"}
        orch = each_host(orch, fleet, tmp_path / "over.ini", **lines).having(
            ORCH_REQUIREMENTS=str(wanted), ORCH_IMAGE=SMALL
        )
        none = orch("deploy", "--yes", "--locked", "gpu01", code=78)
        assert f"orch: there is no {project}/image.lock. Deploy once without --locked" in none.stderr

        orch("deploy", "--yes", "gpu01")
        text = _locked(orch, project)
        _a_hidden_record_is_told(orch, gpu01)
        _the_same_elsewhere(orch, gpu01, gpu02)
        _another_list_is_refused(orch, gpu01, wanted)
        (project / "image.lock").write_text(text.replace("demo==1.0", "demo==1.0\n    gone==3"))
        _a_package_that_is_missing_is_refused(orch, gpu02)

    (project / "image.lock").write_text(text.replace("base_id = ", "base_id = 00"))
    _another_base_is_refused(orch.having(ORCH_PROJECT="mnist"))
    (project / "image.lock").write_text("x\n")
    said = orch("deploy", "--locked", "gpu02", code=78).stderr
    assert f"orch: {project}/image.lock:1: this is no image.lock." in said


def _locked(orch: Orch, project: Path) -> str:
    """Lock what gpu01 has; locking it again changes nothing."""
    locked = orch("image", "lock", "gpu01")
    assert re.match(rf"image\.lock   docker amd64 {SMALL}   \d+ packages   as on gpu01\n", locked.stdout)
    text = (project / "image.lock").read_text()
    assert "\n    demo==1.0\n" in text
    orch("image", "lock", "gpu01")
    assert (project / "image.lock").read_text() == text
    assert "unchanged" in orch("deploy", "--locked", "gpu01").stdout
    return text


def _a_hidden_record_is_told(orch: Orch, gpu01: Host) -> None:
    record = "/home/ana/.orch/ana/mnist/hosts/gpu01/environment.json"
    gpu01.run(f"chmod 000 {record}")
    hidden = orch("exec", "gpu01", "--", "true", code=77)
    assert f"orch: gpu01: {record} can't be read by this account" in hidden.stderr
    gpu01.run(f"chmod 644 {record}")


def _the_same_elsewhere(orch: Orch, gpu01: Host, gpu02: Host) -> None:
    made = orch("deploy", "--yes", "--locked", "gpu02")
    assert "packages as image.lock has them" in made.stderr
    assert demo(gpu02) == "1.0"
    assert environment(gpu01)["env"] == environment(gpu02)["env"]
    assert "unchanged" in orch("deploy", "--locked", "gpu02").stdout


def _another_list_is_refused(orch: Orch, gpu01: Host, wanted: Path) -> None:
    wanted.write_text(f"--trusted-host {gpu01.address}\ndemo\nsix\n")
    refused = orch("deploy", "--yes", "--locked", "gpu02", code=78)
    assert "orch: gpu02: it would not be what image.lock says: requirement six is new." in refused.stderr
    wanted.write_text(f"--trusted-host {gpu01.address}\ndemo\n")


def _a_package_that_is_missing_is_refused(orch: Orch, gpu02: Host) -> None:
    """What is deployed stays as it is."""
    planned = orch("deploy", "--dry-run", "--locked", "gpu02").stdout
    assert "lock: what is deployed is not what image.lock says" in planned
    before = environment(gpu02)
    missing = orch("deploy", "--yes", "--locked", "gpu02", code=78).stderr
    assert "orch: gpu02: it would not be what image.lock says: package gone missing (3 locked)." in missing
    assert environment(gpu02) == before
    assert gpu02.containers() == [NAME]


def _another_base_is_refused(orch: Orch) -> None:
    other = orch("deploy", "--yes", "--locked", "gpu02", code=78)
    assert f"base {SMALL} " in other.stderr
    assert "(00" in other.stderr
