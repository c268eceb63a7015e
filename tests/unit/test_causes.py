"""What engines, pip and apt say when it goes wrong, told as one line with what to do."""

import pytest

from orchestrator.container.causes import explain_failure
from orchestrator.errors import Busy, ConfigError, HostError, OrchError

from .deploys import host

DAEMON = "docker: Error response from daemon: "
KNOWN: list[tuple[str, type[OrchError], str]] = [
    (
        f'{DAEMON}could not select device driver "" with capabilities: [[gpu]].\n'
        "ERRO[0000] error waiting for container: context canceled",
        HostError,
        "nvidia-container-toolkit",
    ),
    (
        f"{DAEMON}OCI runtime create failed: nvidia-container-cli: requirement error: unsatisfied condition: "
        "cuda>=11.2, please update your driver to a newer version: unknown.",
        HostError,
        "driver is too old for tf:9",
    ),
    (
        "nvidia-container-cli: initialization error: driver rpc error: timed out: unknown.",
        HostError,
        "nvidia-smi -pm 1",
    ),
    (
        "libnvidia-ml.so.1: cannot open shared object file: no such file or directory",
        HostError,
        "what nvidia-smi says",
    ),
    ("unknown flag: --gpus\nSee 'docker run --help'.", HostError, "can't give GPUs"),
    (
        f"{DAEMON}manifest for tf:9 not found: manifest unknown: manifest unknown",
        ConfigError,
        "no image tf:9",
    ),
    (
        f"{DAEMON}pull access denied for no/such, repository does not exist or may require 'docker login'",
        ConfigError,
        "docker login",
    ),
    ("toomanyrequests: You have reached your pull rate limit.", Busy, "limit of pulls"),
    ("failed to register layer: write /usr/lib/x: no space left on device", HostError, "no space is left"),
    (
        f"{DAEMON}driver failed: Bind for 127.0.0.1:2222 failed: port is already allocated.",
        Busy,
        "ssh_port = auto",
    ),
    (
        f'{DAEMON}Conflict. The container name "/orch-x" is already in use by container "ae49".',
        Busy,
        "same name",
    ),
    (
        f'{DAEMON}invalid mount config for type "bind": stat /home/ana/.orch: permission denied.',
        ConfigError,
        "Docker, which runs as root, may not look into /home/ana/.orch: the disk (NFS, FUSE) keeps root out",
    ),
    (
        f'{DAEMON}invalid mount config for type "bind": bind source path does not exist: /data/x.',
        ConfigError,
        "volume /data/x does not exist",
    ),
    ("exec /bin/sh: exec format error", ConfigError, "another kind of processor"),
    (
        "ERROR: Could not find a version that satisfies the requirement nosuch==1 (from versions: none)\n"
        "ERROR: No matching distribution found for nosuch==1",
        ConfigError,
        "pip finds no nosuch==1",
    ),
    ("ERROR: ResolutionImpossible: for help visit https://pip.pypa.io", ConfigError, "lines above"),
    ("/usr/local/lib/orch/apt: 27: apt-get: not found", ConfigError, "tf:9 is built on no Debian"),
    ("E: Unable to locate package nosuch", HostError, "apt finds no package nosuch"),
    (
        "Get https://registry-1.docker.io/v2/: dial tcp: lookup registry-1.docker.io: no such host",
        HostError,
        "no way out",
    ),
    ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))", HostError, "ca_bundle"),
    ("The command '/bin/sh -c python3' returned a non-zero code: 132", HostError, "no AVX"),
    (
        "Error: unresolvable CDI devices nvidia.com/gpu=all",
        HostError,
        "nvidia-ctk cdi",
    ),
    (
        'Error: the container name "orch-x" is already in use by 25bf.',
        Busy,
        "same",
    ),
    ("Error: statfs /data/x: no such file or directory", ConfigError, "volume /data/x does not exist"),
    (
        'Error: short-name "tf:9" did not resolve to an alias and more',
        ConfigError,
        "no image tf:9",
    ),
    (
        "Error: container-init binary not found on the host: stat /usr/libexec/podman/catatonit",
        HostError,
        "Install catatonit",
    ),
    (
        "potentially insufficient UIDs or GIDs available in user namespace (requested 0:42)",
        HostError,
        "--add-subuids",
    ),
    ("sudo: sorry, you are not allowed to set the following environment variables: A", HostError, "SETENV"),
    (
        f"{DAEMON}cannot stop container: x: tried to kill container, but did not receive an exit event",
        HostError,
        "reboot of the host",
    ),
    ("Error: rootlessport listen tcp 127.0.0.1:2222: bind: address already in use", Busy, "ssh_port = auto"),
]


@pytest.mark.parametrize(("text", "kind", "words"), KNOWN, ids=[str(i) for i in range(len(KNOWN))])
def test_a_known_text_is_told_with_its_cure(text: str, kind: type[OrchError], words: str) -> None:
    error = explain_failure(host(image="tf:9"), text, base="tf:9")
    assert type(error) is kind
    assert words in str(error)
    assert str(error).startswith("gpu01: ")
    assert "\n" not in str(error)


def test_a_failing_startup_is_named_from_the_containers_last_lines() -> None:
    log = "installing\norch: startup ended with status 3"
    error = explain_failure(host(startup="/x/start.sh"), "the container ended", log=log, status="1")
    assert isinstance(error, ConfigError)
    assert "startup ended with status 3" in str(error)
    assert "hosts.ini:10" in str(error)
    assert error.details == log


def test_an_unknown_text_is_told_in_its_own_words() -> None:
    error = explain_failure(host(), f"{DAEMON}the moon is full.\nSee 'docker run --help'.")
    assert str(error) == "gpu01: the moon is full."
    ended = explain_failure(host(), "the container ended", status="139")
    assert str(ended) == "gpu01: the container ended with status 139 (SIGSEGV)"
    killed = str(explain_failure(host(), "the container ended", status="137"))
    assert killed.endswith("status 137 (SIGKILL: out of memory, or somebody killed it)")
    assert str(explain_failure(host(), "the container ended", status="2")).endswith("status 2")


def test_a_hint_names_the_engine_that_is_used() -> None:
    denied = explain_failure(host(engine="podman"), "requested access to the resource is denied", base="x")
    assert "podman login on the host" in str(denied)
