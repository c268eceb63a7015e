"""Real hosts on one machine: each has its own sshd, dockerd, network, disk, accounts and boot id.

    python -m tests.fleet.lab up        # as root on Debian; `make fleet` does the same
    python -m tests.fleet.lab env       # what to export, to try orch on it
    python -m tests.fleet.lab down

Everything lives under ``$ORCH_FLEET_DIR`` (default ``~/.cache/orch-fleet``): ``images/`` is the cached base
image, ``fleets/NAME/`` one fleet. ``$ORCH_FLEET_NAME`` (default ``fleet``) tells fleets apart that are up at
the same time.

A host is a mount, pid, uts and ipc namespace over a network namespace. Its root is an overlay over the
machine's, so that whatever happens there stays in ``fleets/NAME/hosts/HOST/disk``; the machine's /root, /home
and /tmp are not seen.
"""

from .counts import Counts
from .fleet import Fleet, why_not
from .gpus import Answer
from .host import Host
from .shell import LabError

__all__ = ["Answer", "Counts", "Fleet", "Host", "LabError", "why_not"]
