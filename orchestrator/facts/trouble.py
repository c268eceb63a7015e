"""Why a container engine can't be used: what docker 19 to 28, podman 4 and 5, and sudo say, with the cure."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Trouble:
    """Why the engine can't be used. `kind`: missing, denied, down or other. `hint` may name the ACCOUNT."""

    kind: str
    text: str
    hint: str


_Row = tuple[str, Trouble]

_SUDO: tuple[_Row, ...] = (
    (
        r"sudo: .*(terminal is required|password is required|no tty present|no askpass)",
        Trouble(
            "denied",
            "sudo asks for a password",
            "As root there, by visudo: ACCOUNT ALL=(root) NOPASSWD:SETENV: ENGINE.",
        ),
    ),
    (
        r"not in the sudoers file|is not allowed to (execute|run)|may not run sudo",
        Trouble(
            "denied",
            "sudo does not let this account call the engine",
            "As root there, by visudo: ACCOUNT ALL=(root) NOPASSWD:SETENV: ENGINE.",
        ),
    ),
    (
        r"sudo: (\S*/)?\S+: command not found",
        Trouble(
            "missing", "sudo finds no such engine", "Correct engine_command, or install the engine there."
        ),
    ),
)

_DOCKER: tuple[_Row, ...] = (
    (
        r"permission denied",
        Trouble(
            "denied",
            "Docker is there, but this account may not use it",
            "As root there: usermod -aG docker ACCOUNT, then log in anew "
            "(or engine_command = sudo -n docker).",
        ),
    ),
    (
        r"cannot connect|daemon running|no such file|refused",
        Trouble(
            "down",
            "the Docker daemon does not run",
            "As root there: systemctl start docker (or set engine = venv).",
        ),
    ),
)

_PODMAN: tuple[_Row, ...] = (
    (
        r"newuidmap\W+executable file not found|newuidmap: .*no such file",
        Trouble(
            "missing",
            "podman can't map user ids: newuidmap is not installed",
            "Install uidmap there (shadow-utils).",
        ),
    ),
    (
        r"no sub[ug]id ranges|new[ug]idmap.*exit status",
        Trouble(
            "denied",
            "podman has no subordinate user ids for this account",
            "As root there: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ACCOUNT; "
            "then as ACCOUNT: podman system migrate.",
        ),
    ),
    (
        r"max_user_namespaces|cannot clone|user namespaces are not enabled",
        Trouble(
            "denied",
            "the kernel lets this account make no user namespace, which podman needs",
            "As root there: sysctl user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1.",
        ),
    ),
)

_ELSEWHERE = re.compile(r"daemon at ((?!unix:///(?:var/)?run/docker\.sock)\S+?)\.? ")


def explain(text: str, kind: str = "docker") -> Trouble:
    """Say what an engine of that kind that can't be used is missing."""
    for pattern, trouble in (*_SUDO, *(_PODMAN if kind == "podman" else _DOCKER)):
        if re.search(pattern, text, re.IGNORECASE):
            elsewhere = trouble.kind == "down" and _ELSEWHERE.search(f"{text} ")
            return _at(elsewhere[1]) if elsewhere else trouble
    name = "podman" if kind == "podman" else "Docker"
    return Trouble("other", f"{name} does not answer: {_first(text)}", f"Try there: {kind} info")


def missing(command: str) -> Trouble:
    """Say that the engine's command is not on the host."""
    how = "Install Docker (https://docs.docker.com/engine/install), or engine = venv."
    if command.rpartition("/")[2] == "podman":
        how = "Install podman with uidmap, slirp4netns and catatonit, or engine = venv."
    return Trouble("missing", f"{command} is not installed", how)


def _at(address: str) -> Trouble:
    return Trouble(
        "down",
        f"no Docker daemon answers at {address}",
        "DOCKER_HOST or the docker context of the account points there: see docker context ls "
        "(a rootless one: systemctl --user start docker).",
    )


def _first(text: str) -> str:
    """Return the first line that is no warning of podman's log."""
    lines = [line for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if not line.startswith("time=")), lines[0] if lines else "")
    return said.removeprefix("Error: ")[:200]
