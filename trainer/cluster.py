"""Who trains together: TF_CONFIG, checked before TensorFlow would wait for ever. Knows no TensorFlow."""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Tuple

from .errors import BadInput

ROLES = ("chief", "worker")
"""The roles that train, in the order in which TensorFlow numbers them."""

LOOPBACK = ("localhost", "127.", "[::1]")


class Cluster(NamedTuple):
    """The `host:port` of all workers, the chief first, and which of them this process is."""

    addresses: Tuple[str, ...] = ()
    rank: int = 0

    @property
    def workers(self) -> int:
        """How many processes train together; 1 without a TF_CONFIG."""
        return max(1, len(self.addresses))

    @property
    def chief(self) -> bool:
        """Whether this worker writes what is kept."""
        return self.rank == 0


def read(environ: Mapping[str, str]) -> Cluster:
    """The cluster of TF_CONFIG, or one of this process alone. Raises BadInput when TF_CONFIG is no good."""
    text = environ.get("TF_CONFIG", "").strip()
    if not text:
        return Cluster()
    try:
        config = json.loads(text)
    except ValueError as error:
        raise bad(f"not JSON: {error}") from None
    spec = part(config, "cluster")
    addresses = tuple(address for role in ROLES for address in listed(spec, role))
    if strange := sorted(set(spec) - set(ROLES)):
        raise bad(f"role {strange[0]!r} is not trained here; chief and worker are")
    check(addresses)
    return Cluster(addresses, rank(spec, part(config, "task"))) if len(addresses) > 1 else Cluster()


def part(config: Any, name: str) -> Mapping[str, Any]:
    """One of the two objects that TF_CONFIG consists of."""
    found = config.get(name, {}) if isinstance(config, dict) else None
    if not isinstance(found, dict):
        raise bad(f"{name!r} is no object")
    return found


def listed(spec: Mapping[str, Any], role: str) -> Tuple[str, ...]:
    """The addresses of a role."""
    found = spec.get(role, [])
    if not isinstance(found, list) or not all(isinstance(address, str) for address in found):
        raise bad(f"{role!r} is no list of host:port")
    return tuple(found)


def check(addresses: Tuple[str, ...]) -> None:
    """Refuse what makes workers wait for each other for ever."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise bad(f"{address!r} is not host:port")
        if addresses.count(address) > 1:
            raise bad(f"{address} stands there twice")
    near = [address for address in addresses if address.startswith(LOOPBACK)]
    if near and len(near) < len(addresses):
        raise bad(f"{near[0]} is this machine for each worker; name it by an address the others can reach")


def rank(spec: Mapping[str, Any], task: Mapping[str, Any]) -> int:
    """This process's place among all workers."""
    role, index = task.get("type"), task.get("index")
    if role not in ROLES or not isinstance(index, int) or isinstance(index, bool):
        raise bad("'task' needs a type (chief or worker) and an index")
    if not 0 <= index < len(listed(spec, role)):
        raise bad(f"task {role} {index}, but the cluster has {len(listed(spec, role))} of them")
    return index + (len(listed(spec, "chief")) if role == "worker" else 0)


def bad(reason: str) -> BadInput:
    """What is wrong, and where."""
    return BadInput(f"TF_CONFIG: {reason}")
