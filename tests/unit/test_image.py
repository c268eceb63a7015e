"""What an image is built of, and that the scripts in it do what they are for."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from orchestrator.container.image.build import exports
from orchestrator.container.image.recipe import build_values, full_name, recipe
from orchestrator.container.inputs import Inputs
from orchestrator.hosts.command import Secret
from orchestrator.inventory import Settings
from orchestrator.render import render, source

from .deploys import BASE, IDENTITY


def dockerfile(settings: Settings | None = None, inputs: Inputs | None = None) -> str:
    return recipe(BASE, settings or Settings(), inputs or Inputs()).files["Dockerfile"]


def test_the_plain_image() -> None:
    lines = [line for line in dockerfile().splitlines() if not line.startswith("#")]
    assert lines[0] == f"FROM {BASE}"
    assert "ana" not in "".join(lines)
    assert not any(word in "".join(lines) for word in ("pip install", "COPY orch.crt", "ARG"))
    assert any("rm -f /etc/ssh/ssh_host_*" in line for line in lines)  # else all containers share one key
    assert lines[-1] == "CMD []"


def test_the_sshd_layer_comes_before_the_packages() -> None:
    text = dockerfile(Settings(apt_packages=("ffmpeg", "libgl1")), Inputs(requirements=("wandb",)))
    order = [text.index(w) for w in ("openssh-server", "apt ffmpeg libgl1", "pip install", "proof --build")]
    assert order == sorted(order)
    assert "-c constraints.txt -c pins.txt -r requirements.txt" in text


def test_packages_are_quoted() -> None:
    assert "apt 'a; rm -rf /'\n" in dockerfile(Settings(apt_packages=("a; rm -rf /",)))


def test_the_way_out_is_for_the_build_alone() -> None:
    settings = Settings(
        https_proxy="http://u:hunter2@proxy:3128", pip_index="https://pypi.lab/simple", no_proxy="lab"
    )
    made = recipe(BASE, settings, Inputs(requirements=("wandb",)))
    assert "ARG PIP_INDEX_URL" in made.files["Dockerfile"]
    assert "hunter2" not in "".join(made.files.values())
    assert {n: s.value for n, s in made.args.items()} == {
        "HTTPS_PROXY": "http://u:hunter2@proxy:3128",
        "https_proxy": "http://u:hunter2@proxy:3128",
        "NO_PROXY": "lab",
        "no_proxy": "lab",
        "PIP_INDEX_URL": "https://pypi.lab/simple",
    }
    assert "hunter2" not in str(build_values(settings))


def test_an_authority_of_ones_own_is_trusted_by_all() -> None:
    made = recipe(BASE, Settings(), Inputs(ca_bundle=b"-----BEGIN CERTIFICATE-----\n"))
    text = made.files["Dockerfile"]
    assert text.index("COPY orch.crt") < text.index("openssh-server")
    assert all(f"{name}=" in text for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"))


def test_the_digest_tells_recipes_apart() -> None:
    made = [
        recipe(BASE, Settings(), Inputs()),
        recipe(BASE + "-gpu", Settings(), Inputs()),
        recipe(BASE, Settings(apt_packages=("ffmpeg",)), Inputs()),
        recipe(BASE, Settings(apt_mirror="http://mirror"), Inputs()),
        recipe(BASE, Settings(), Inputs(requirements=("wandb",))),
        recipe(BASE, Settings(), Inputs(requirements=("wandb<1",))),
        recipe(BASE, Settings(jupyter=True), Inputs()),
    ]
    assert len({r.digest for r in made}) == len(made)
    proxied = recipe(BASE, Settings(http_proxy="http://p:1"), Inputs())
    assert proxied.digest == made[0].digest
    assert made[0].tag(IDENTITY) == f"orch/ana-mnist:{made[0].digest[:12]}"


def test_the_context_is_the_same_bytes_each_time() -> None:
    made = recipe(BASE, Settings(), Inputs(requirements=("wandb",)))
    assert made.context() == recipe(BASE, Settings(), Inputs(requirements=("wandb",))).context()
    with tarfile.open(fileobj=io.BytesIO(made.context())) as archive:
        assert {m.name for m in archive} == {*made.files, "pins.txt"}


def test_what_another_host_has_got_is_no_part_of_the_recipe() -> None:
    made = recipe(BASE, Settings(), Inputs(requirements=("wandb",)))
    with tarfile.open(fileobj=io.BytesIO(made.context(["wandb==0.15.0", "six==1.16.0"]))) as archive:
        pins = archive.extractfile("pins.txt")
        assert pins
        assert pins.read() == b"wandb==0.15.0\nsix==1.16.0\n"


UBUNTU, DEBIAN = "http://{}.ubuntu.com/ubuntu", "http://{}.debian.org/debian"
APT = {
    "focal": f"deb {UBUNTU.format('archive')} focal main\n"
    f"deb {UBUNTU.format('security')} focal-security main\n",
    "bullseye": f"deb {DEBIAN.format('deb')} bullseye main\n"
    f"deb {DEBIAN.format('security')}-security bullseye-security main\n",
}


def apt(
    tmp_path: Path,
    sources: str,
    mirror: str = "",
    *,
    gone: bool = False,
    packages: tuple[str, ...] = ("openssh-server", "ffmpeg"),
) -> tuple[str, list[str], int]:
    """Run the script with /etc/apt below `tmp_path` and an apt-get that only knows what is `gone`."""
    etc = tmp_path / "etc/apt"
    (etc / "sources.list.d").mkdir(parents=True)
    (etc / "apt.conf.d").mkdir()
    (etc / "sources.list").write_text(sources)
    for name in ("cuda.list", "cuda-ubuntu2004-x86_64.list", "nvidia-ml.list", "team.list"):
        (etc / "sources.list.d" / name).write_text("deb http://example.org x y\n")
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin/apt-get"
    answer = (
        f"grep -q -E 'archive.debian|old-releases' {etc}/sources.list || "
        "{ echo \"E: The repository 'x' does not have a Release file.\" >&2; exit 100; }"
    )
    fake.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n{answer if gone else ""}\n')
    fake.chmod(0o755)
    text = render("container/apt.sh.j2", mirror=mirror).replace("/etc/apt", str(etc))
    text = text.replace("/tmp/orch-apt.log", f"{tmp_path}/log").replace(
        "/var/lib/apt/lists/*", str(tmp_path / "none")
    )
    done = subprocess.run(
        ["sh", "-s", "--", *packages],
        input=text,
        text=True,
        capture_output=True,
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
        check=False,
    )
    assert sorted(p.name for p in (etc / "sources.list.d").iterdir()) == ["team.list"]
    return (etc / "sources.list").read_text(), (tmp_path / "calls").read_text().splitlines(), done.returncode


def test_the_rotated_keys_are_dropped_before_the_first_update(tmp_path: Path) -> None:
    sources, calls, status = apt(tmp_path, APT["focal"])
    assert (sources, status) == (APT["focal"], 0)
    assert [c.split()[-1] for c in calls] == ["update", "ffmpeg"]


def test_a_program_is_installed_only_where_the_base_lacks_it(tmp_path: Path) -> None:
    wanted = ("-m", "sh", "-m", "no-such-program", "ffmpeg")
    _, calls, _ = apt(tmp_path, APT["focal"], packages=wanted)
    assert calls[-1].split()[-2:] == ["no-such-program", "ffmpeg"]
    assert " sh " not in calls[-1]


@pytest.mark.parametrize(
    ("release", "moved"),
    [("focal", "http://old-releases.ubuntu.com/ubuntu"), ("bullseye", "http://archive.debian.org/debian")],
)
def test_a_base_past_its_support_is_found_where_it_moved(tmp_path: Path, release: str, moved: str) -> None:
    sources, calls, status = apt(tmp_path, APT[release], gone=True)
    assert status == 0
    assert all(moved in line for line in sources.splitlines())
    assert "Check-Valid-Until=false" in calls[-1]


def test_packages_come_from_the_mirror(tmp_path: Path) -> None:
    sources, _, _ = apt(tmp_path, APT["bullseye"], "https://mirror.lab/pub")
    assert [line.split()[1] for line in sources.splitlines()] == [
        "https://mirror.lab/pub/debian",
        "https://mirror.lab/pub/debian-security",
    ]


def test_a_mirror_may_be_named_with_the_distributions_folder() -> None:
    for url in ("https://m.lab", "https://m.lab/", "https://m.lab/ubuntu", "https://m.lab/debian/"):
        made = recipe(BASE, Settings(apt_mirror=url), Inputs())
        assert "mirror=https://m.lab\n" in made.files["apt"]


def constraints_for(tmp_path: Path, **packages: tuple[str, list[str]]) -> list[str]:
    """Run the script on a Python that has these packages: version and requirements."""
    for name, (version, requires) in packages.items():
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        lines = [
            f"Name: {name.replace('_', '-')}",
            f"Version: {version}",
            *(f"Requires-Dist: {r}" for r in requires),
        ]
        (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, "-S", "-c", source("container/constraints.py") or ""],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")[:-1]


def test_what_tensorflow_needs_is_kept(tmp_path: Path) -> None:
    lines = constraints_for(
        tmp_path,
        tensorflow_cpu=("2.9.3", ["numpy (>=1.20)", "keras<2.10.0,>=2.9.0rc0", "six", 'x>1; extra == "gpu"']),
        keras=("2.9.0", ["numpy>=1.9", 'typing-extensions>=3.7; python_version < "3.8"']),
        numpy=("1.23.5", []),
    )
    assert lines[:4] == ["tensorflow-cpu==2.9.3", "numpy<1.24", "protobuf<3.20", "transformers<5"]
    assert "keras<2.10.0,>=2.9.0rc0" in lines
    assert "numpy>=1.20" in lines
    assert not any(line.startswith(("x", "six")) for line in lines)
    assert any(line.startswith("typing-extensions>=3.7 ;") for line in lines)


def test_a_base_without_tensorflow_has_no_constraints(tmp_path: Path) -> None:
    assert constraints_for(tmp_path, numpy=("2.1.0", [])) == []


def test_a_new_tensorflow_is_pinned_and_little_else(tmp_path: Path) -> None:
    assert constraints_for(tmp_path, tensorflow=("2.21.0", ["numpy>=1.26"])) == [
        "tensorflow==2.21.0",
        "numpy>=1.26",
    ]


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_entrypoint_is_sh(shell: str) -> None:
    subprocess.run([shell, "-n"], input=render("container/entrypoint.sh.j2"), text=True, check=True)


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("python", "docker.io/library/python"),
        ("tensorflow/tensorflow:2.9.3", "docker.io/tensorflow/tensorflow:2.9.3"),
        ("nvcr.io/nvidia/tensorflow:22.06-tf2-py3", "nvcr.io/nvidia/tensorflow:22.06-tf2-py3"),
        ("localhost/mine", "localhost/mine"),
        ("registry:5000/mine", "registry:5000/mine"),
    ],
)
def test_a_short_name_is_of_docker_hub(written: str, full: str) -> None:
    assert full_name(written) == full


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_file_of_the_same_name_in_the_home_is_not_built(tmp_path: Path, shell: str) -> None:
    """Podman looks for --file where it is called, and only then in the context."""
    home, bin_folder = tmp_path / "home", tmp_path / "bin"
    for folder in (home, bin_folder):
        folder.mkdir()
    (home / "Dockerfile").write_text("FROM wrong\n")
    engine = bin_folder / "podman"
    engine.write_text('#!/bin/sh\npwd; ls -A; cat; echo "$PROXY"; exit 7\n')
    engine.chmod(0o755)
    values = {
        "engine": [str(engine)],
        "staged": "",
        "stale": "",
        "base": "",
        "tag": "t:1",
        "labels": [],
        "args": [],
    }
    text = render("container/build.sh.j2", file="Dockerfile", **values)
    done = subprocess.run(
        [shell, "-c", text],
        input=exports({"PROXY": Secret("http://p:1")}).decode() + "the context",
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        text=True,
        capture_output=True,
        check=False,
    )
    where, said = done.stdout.splitlines()
    assert (done.returncode, said) == (7, "the contexthttp://p:1")
    assert not Path(where).exists()
    assert Path(where).parent == tmp_path
