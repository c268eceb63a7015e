"""The engines' error texts (docker 19.03 to 28, podman 4 and 5, NVIDIA's toolkit), told as cause and cure."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.container.cluster_ports import port_taken
from orchestrator.container.plan import Plan
from orchestrator.errors import Busy, ConfigError, HostError, OrchError
from orchestrator.inventory import Host


@dataclass(frozen=True)
class Cause:
    """A text to look for (a regular expression), what it means and what to do."""

    pattern: str
    message: str
    hint: str
    kind: Callable[..., OrchError] = HostError
    theirs: bool = False  # holds for the build of a team's own Dockerfile too


GPUS_BY_CDI = (
    "Install nvidia-container-toolkit, then as root there: nvidia-ctk cdi generate "
    "--output=/etc/cdi/nvidia.yaml"
)
GPUS_BY_RUNTIME = (
    "Install nvidia-container-toolkit, then: nvidia-ctk runtime configure; systemctl restart docker"
)
"""How containers get at GPUs: podman's, and Docker's."""

CAUSES = (
    Cause(
        r"manifest (for \S+ )?(not found|unknown)|manifest unknown|repository does not exist|"
        r"pull access denied|invalid reference format|not found: manifest|"
        r"failed to (re)?solve[^\n]*: not found|did not resolve to an alias|access to the resource is denied",
        "there is no image {base}",
        "Correct `image` ({image}); for a private one, {engine} login on the host first.",
        ConfigError,
    ),
    Cause(
        r"toomanyrequests|rate limit",
        "the registry's limit of pulls is reached",
        "{engine} login on the host, set `image` to a mirror's, or bring it by {engine} save and load.",
        Busy,
        theirs=True,
    ),
    Cause(
        r"unresolvable CDI devices|stat nvidia\.com/gpu|error parsing device \"?nvidia\.com",
        "the host's engine knows no GPUs to give to containers",
        f"{GPUS_BY_CDI} (or gpus = none).",
    ),
    Cause(
        r"could not select device driver|unknown or invalid runtime name: nvidia|unknown flag: --gpus|"
        r"nvidia-container-(cli|runtime\S*)\W+(executable file )?not found|CDI device injection failed",
        "Docker can't give GPUs to containers here",
        f"{GPUS_BY_RUNTIME} (or gpus = none).",
    ),
    Cause(
        r"unsatisfied condition: (cuda|driver|brand)",
        "the NVIDIA driver is too old for {base}",
        "TensorFlow 2.9 needs driver 450.80.02 or newer. Update it, or set `image` to an older one.",
    ),
    Cause(
        r"driver rpc error: timed out",
        "the NVIDIA driver takes too long to wake",
        "As root there: nvidia-smi -pm 1 (persistence mode), then deploy again.",
    ),
    Cause(
        r"libnvidia-ml\.so|nvml error: driver not loaded|nvidia-container-cli: initialization error",
        "the NVIDIA driver is not usable from containers",
        "See what nvidia-smi says on the host, or set gpus = none.",
    ),
    Cause(
        r"no space left on device|disk quota exceeded|not enough space",
        "no space is left on the host",
        "Make room (orch image prune; {engine} system df; df -i, if files ran out), then deploy again.",
        theirs=True,
    ),
    Cause(
        r"listen \S+ (?P<what>\S+):\d+: bind: cannot assign requested address",
        "{what} is none of the host's addresses, and the container's ports can't be published on it",
        "Correct cluster_address ({cluster_address}).",
        ConfigError,
    ),
    Cause(
        r"port is already allocated|address already in use",
        "port {port} is taken by now",
        "Deploy again with ssh_port = auto, or another port.",
        Busy,
    ),
    Cause(
        r"Conflict\. The container name|the container name \S+ is already in use",
        "somebody made a container of the same name just now",
        "See who deploys too, then deploy again.",
        Busy,
    ),
    Cause(
        r"invalid mount config for type \"bind\": (l?stat )?(?P<what>\S+): permission denied",
        "Docker, which runs as root, may not look into {what}: the disk (NFS, FUSE) keeps root out",
        "Set `root` ({root}) to a disk that is the host's own, or engine = venv.",
        ConfigError,
    ),
    Cause(
        r"bind source path does not exist: (?P<what>[^\n.]+)|statfs (?P<what2>[^\n:]+): no such file",
        "volume {what} does not exist there",
        "Make it there, or correct `volumes` ({volumes}).",
        ConfigError,
    ),
    Cause(
        r"exec format error|does not match the (specified|detected host) platform|no matching manifest",
        "{base} is for another kind of processor than the host's",
        "Set `image` to one for it.",
        ConfigError,
    ),
    Cause(
        r"No matching distribution found for (?P<what>\S+)|Could not find a version that satisfies the "
        r"requirement (?P<what2>\S+)",
        "pip finds no {what} that fits this Python and TensorFlow",
        "Correct `requirements` ({requirements}).",
        ConfigError,
    ),
    Cause(
        r"ResolutionImpossible|conflicting dependencies|Invalid requirement",
        "pip can't bring the requirements together with this TensorFlow",
        "Correct `requirements` ({requirements}); the lines above name the conflict.",
        ConfigError,
    ),
    Cause(
        r"apt-get: (command )?not found",
        "{base} is built on no Debian or Ubuntu",
        "Set `image` ({image}) to one that has apt-get (musl and RPM systems don't).",
        ConfigError,
    ),
    Cause(
        r"exec: \"/bin/sh\": stat /bin/sh: no such file|unable to find user root: no matching",
        "{base} has no shell, or no root",
        "Set `image` ({image}) to a whole Debian or Ubuntu with what you need.",
        ConfigError,
    ),
    Cause(
        r"orch: the image's python3 is too old: (?P<what>\S+)",
        "the python3 of {base} is {what}, and orch needs 3.6 or newer",
        "Set `image` ({image}) to one with a newer Python.",
        ConfigError,
    ),
    Cause(
        r"E: Unable to locate package (?P<what>\S+)|"
        r"E: Package '(?P<what2>\S+)' has no installation candidate",
        "apt finds no package {what}",
        "Correct `apt_packages` ({apt_packages}), or see the host's way out: http_proxy, apt_mirror.",
    ),
    Cause(
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|x509: |certificate signed by unknown",
        "a certificate on the way out is not trusted",
        "Set ca_bundle to your network's authorities.",
    ),
    Cause(
        r"Temporary failure (in name resolution|resolving)|no such host|network is unreachable|"
        r"failed to lookup address|"
        r"i/o timeout|Client\.Timeout|connection refused|TLS handshake timeout|NewConnectionError",
        "the host has no way out to the registry",
        "Set http_proxy and https_proxy, apt_mirror or pip_index, or bring the image with docker save.",
    ),
    Cause(
        r"tried to kill container, but did not receive an exit event|is zombie and can not be killed|"
        r"could not kill container|cannot kill container",
        "the container can't be killed: a process in it hangs in the kernel",
        "See dmesg there; only a reboot of the host ends it.",
    ),
    Cause(
        r"not allowed to set the following environment variables: (?P<what>[^\n]+)",
        "sudo does not pass on {what}, which the engine is to read",
        "In sudoers, give the rule of this account NOPASSWD:SETENV: in place of NOPASSWD:.",
    ),
    Cause(
        r"container-init binary not found|stat \S*/catatonit",
        "podman has no init for containers there",
        "Install catatonit on the host.",
    ),
    Cause(
        r"insufficient UIDs or GIDs available|no sub[ug]id ranges",
        "the account has too few subordinate user ids for this image",
        "As root there: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ACCOUNT; then as the "
        "account: podman system migrate.",
    ),
    Cause(
        r"code: 132|Illegal instruction|AVX instructions",
        "this processor has no AVX, which TensorFlow is built with",
        "Use another host, or an `image` with a TensorFlow built for it.",
    ),
    Cause(
        r"orch: startup ended with status (?P<what>\d+)",
        "startup ended with status {what}",
        "Correct the script that `startup` names ({startup}).",
        ConfigError,
    ),
)
"""In this order: the first that is found names the cause."""


def explain_failure(
    host: Host,
    why: str,
    *,
    log: str = "",
    status: str | None = None,
    plan: Plan | None = None,
    base: str = "",
    theirs: bool = False,
) -> OrchError:
    """Return the error for what an engine said: the known cause, else its own words. `log`: last lines.

    `theirs`: only causes that hold for what is not of our making.
    """
    text = f"{why}\n{log}"
    values = {
        "base": base or (plan.recipe.base if plan else "the image"),
        "port": plan.port if plan else "",
        "engine": host.settings.engine if host.settings.in_container else "docker",
        **{name: host.came_from(name) for name in _SETTINGS},
    }
    taken = re.search(_TAKEN, text)
    if taken and plan and not theirs and int(taken[1]) != plan.port:
        return port_taken(host, plan.spec, int(taken[1]))
    for cause in CAUSES:
        match = re.search(cause.pattern, text, re.IGNORECASE)
        if match and (cause.theirs or not theirs):
            what = next((v for v in match.groupdict().values() if v), "")
            values["what"] = what.strip()
            hint = cause.hint.format(**values)
            return cause.kind(cause.message.format(**values), where=host.name, hint=hint, details=log or None)
    ended = f" with status {status}{_meaning(status)}" if status not in (None, "", "0") else ""
    return HostError(f"{_own_words(why)}{ended}", where=host.name, details=log or None)


def _meaning(status: str) -> str:
    """Say what an end by a signal may be: 137 alone does not tell whether memory ran out."""
    number = int(status) - 128 if status.isdecimal() else 0
    try:
        name = signal.Signals(number).name if number > 0 else ""
    except ValueError:
        name = ""
    if name == "SIGKILL":
        return " (SIGKILL: out of memory, or somebody killed it)"
    return f" ({name})" if name else ""


_SETTINGS = (
    "image", "root", "volumes", "requirements", "apt_packages", "startup", "cluster_address",
)  # fmt: skip

_TAKEN = r":(\d+)(?: failed: port is already allocated|\)?: bind: address already in use)"


_ADVICE = ("See '", "Run 'docker", "time=", "DEPRECATED", "The command '")
"""How lines begin that do not say what is wrong."""


def _own_words(text: str) -> str:
    """Return the last line that says something, without the client's advice and prefixes."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(_ADVICE)]
    last = (said or lines or ["it gave no reason"])[-1]
    return re.sub(r"^(docker: |Error: )?(Error response from daemon: )?", "", last)[:300]
