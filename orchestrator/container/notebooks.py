"""Jupyter in an environment: whether it is there, and how it gets into the home."""

from __future__ import annotations

from orchestrator.container.engine import Environment
from orchestrator.errors import HostError
from orchestrator.hosts.base import Machine
from orchestrator.hosts.command import Command, Script
from orchestrator.render import render, source

DEADLINE = 1800.0
"""Seconds for pip on a slow line."""

_LINES = 12  # of what pip said last

# The working directory is off the path: a folder `notebook` of the user's is no Jupyter.
_LOOK = (
    "import sys; sys.path.pop(0); from importlib.util import find_spec; "
    "print('orch-jupyter', any(map(find_spec, ('jupyterlab', 'notebook'))), sys.prefix != sys.base_prefix)"
)


def find_jupyter(machine: Machine, environment: Environment) -> tuple[bool, bool]:
    """Return whether Jupyter is there, and whether its Python is that of a venv. Raises HostError."""
    command = environment.enter(Command.of("python3", "-c", _LOOK))
    answer = machine.ask(Script("jupyter", command.shell(), asks=True)).text
    words = answer.partition("orch-jupyter ")[2].split()
    if len(words) < 2:
        raise HostError("its Python does not say whether Jupyter is there", where=machine.host.name)
    return words[0] == "True", words[1] == "True"


def install_jupyter(machine: Machine, environment: Environment) -> None:
    """Install it into the home, which outlives deploys. Raises HostError with pip's last words."""
    into = environment.enter(Command.of("/bin/sh", "-s"), stdin=True).shell()
    constraints = source("container/constraints.py")
    index = machine.host.settings.pip_index
    text = render("service/install.sh.j2", into=into, constraints=constraints, index=index)
    result = machine.run(Script("install-jupyter", text), deadline=DEADLINE)
    if result.status:
        said = result.text.rstrip().splitlines()
        raise HostError(
            f"Jupyter could not be installed: {said[-1] if said else result.complaint}",
            where=machine.host.name,
            details="\n".join(said[-_LINES:]),
        )
