"""``python -m tests.fleet.lab up|down|status|env|image [NAME]``: a fleet for a person to try things on."""

import argparse
import sys

from .fleet import Fleet, base_folder, default_name, why_not
from .image import ensure
from .shell import LabError

NEXT = """\
next, in this shell:

{env}
    .venv/bin/orch doctor                   # or any other command
    ssh -F {client}/ssh_config root@gpu01
    make fleet-down

Accounts: root, ana (may use docker), bob (may not). Their hosts.ini: {client}/ACCOUNT/hosts.ini"""


def env(fleet: Fleet) -> str:
    """The lines that point a shell's orch at the fleet."""
    return f"    export ORCH_INVENTORY={fleet.client.inventory('root')}\n"


def up(fleet: Fleet) -> None:
    """Bring the fleet up, unless it is, and say what to type next."""
    if not fleet.is_up():
        fleet.up()
    status(fleet)
    print(NEXT.format(env=env(fleet), client=fleet.client.folder))


def status(fleet: Fleet) -> None:
    """One line a host."""
    fleet.attach()
    for host in fleet.hosts.values():
        print(f"{host.name}   {host.address}   {'up' if host.is_on() else 'off'}   {host.folder}")


def image(fleet: Fleet) -> None:
    """Build the base image, unless it is there, and start nothing."""
    if reason := why_not():
        raise LabError(reason)
    ensure(fleet.base)


def down(fleet: Fleet) -> None:
    """Take it all away."""
    fleet.down()
    print(f"fleet {fleet.name} is gone")


def main() -> int:
    """Run one verb; 1 with a line on stderr if it could not be done."""
    parser = argparse.ArgumentParser(prog="python -m tests.fleet.lab", description=__doc__)
    parser.add_argument("verb", choices=["up", "down", "status", "env", "image"])
    parser.add_argument(
        "name", nargs="?", default=default_name(), help="of the fleet (default: $ORCH_FLEET_NAME or fleet)"
    )
    args = parser.parse_args()
    try:
        fleet = Fleet(args.name)
        if args.verb == "env":
            print(env(fleet.attach()).strip())
        else:
            {"up": up, "down": down, "status": status, "image": image}[args.verb](fleet)
    except LabError as error:
        print(f"fleet: {error} (all of it is in {base_folder()})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
