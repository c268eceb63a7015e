"""Stand-ins for NVIDIA's programs: ``nvidia-smi`` with answers a test lays out, and the toolkit's hook."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .host import Host

PROGRAM = "/usr/local/bin/nvidia-smi"
ANSWERS = "/var/lib/orch-fleet/nvidia-smi"

# dockerd looks for this program when it starts, and takes --gpus only if it is there.
HOOK = "/usr/local/bin/nvidia-container-runtime-hook"

SCRIPT = f"""\
#!/bin/sh
echo "$*" >>{ANSWERS}/asked
for answer in {ANSWERS}/[0-9]*; do
    . "$answer/answer"
    case "$*" in $match)
        sleep "$delay"
        cat "$answer/out"
        sh "$answer/shell"
        cat "$answer/err" >&2
        exit "$code" ;;
    esac
done
echo "nvidia-smi (stand-in): no answer laid out for: $*" >&2
exit 2
"""


@dataclass(frozen=True)
class Answer:
    """One answer: ``match`` is a shell pattern over all the arguments, ``delay`` is in seconds.

    ``shell`` is run where it is asked, and what it prints comes behind ``out``: for what is true just then.
    """

    out: str
    match: str = "*"
    code: int = 0
    err: str = ""
    delay: float = 0
    shell: str = ""


def install(host: "Host", answers: Sequence[Answer]) -> None:
    """Put the stand-in and its answers on the host, in place of earlier ones."""
    host.run(f"rm -rf {ANSWERS} && mkdir -p {ANSWERS} && : >{ANSWERS}/asked && chmod 666 {ANSWERS}/asked")
    for number, answer in enumerate(answers):
        folder = f"{ANSWERS}/{number:03}"
        head = f"match={shlex.quote(answer.match)} code={answer.code} delay={answer.delay}\n"
        host.run(f"mkdir {folder} && cat >{folder}/answer", input=head)
        host.run(f"cat >{folder}/out", input=answer.out)
        host.run(f"cat >{folder}/err", input=answer.err)
        host.run(f"cat >{folder}/shell", input=answer.shell)
    host.run(f"cat >{PROGRAM} && chmod 755 {PROGRAM}", input=SCRIPT)


def uninstall(host: "Host") -> None:
    """Leave the host without ``nvidia-smi``."""
    host.run(f"rm -rf {PROGRAM} {ANSWERS}")


def install_toolkit(host: "Host") -> None:
    """Let Docker take ``--gpus``; the containers get no device by it."""
    host.run(f"printf '#!/bin/sh\\n' >{HOOK} && chmod 755 {HOOK}")
    host.restart_docker()


def uninstall_toolkit(host: "Host") -> None:
    """Make Docker refuse ``--gpus`` again; nothing where it does."""
    if host.run(f"test -e {HOOK}", check=False).returncode == 0:
        host.run(f"rm {HOOK}")
        host.restart_docker()
