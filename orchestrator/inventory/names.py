"""Names of hosts and groups, and the port behind a name."""

from __future__ import annotations

import ipaddress
import re

from orchestrator.inventory.ranges import expand

_NAME = re.compile(r"[\w.@%+][\w.@%+:-]*")
_SPAN = r"\[(?:[a-z]:[a-z]|[0-9]+:[0-9]+)(?::[0-9]+)?\]"
_LABEL = rf"(?:\w|{_SPAN})(?:[\w-]|{_SPAN})*(?<![_-])"
_PORTED = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.IGNORECASE)
"""Names behind which Ansible takes `:22` for a port; behind any other it is part of the name."""


def ipv6(text: str) -> bool:
    """Whether `text` is an IPv6 address, with or without a zone (`fe80::1%eth0`)."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def check_name(name: str) -> str:
    """Return the name of a host. Raises ValueError when it can't be one: it also names folders on hosts."""
    if name.endswith(":"):
        raise ValueError(f"'{name}' ends in a colon; is this YAML? orch reads inventories in the INI form")
    if ipv6(name):
        return name
    if name in ("all", "ungrouped"):
        raise ValueError(f"'{name}' can't be the name of a host: it stands for hosts")
    if re.search(r"\[\d+-\d+\]", name):
        raise ValueError(f"a range is written with a colon here: {name.replace('-', ':')}")
    if any(c in name for c in "*?"):
        raise ValueError(f"'{name}' is a pattern, and a host needs a name")
    if not _NAME.fullmatch(name) or name in (".", "..") or ":" in name:
        raise ValueError(f"'{name}' can't be the name of a host")
    return name


def splitport(word: str) -> tuple[str, int | None]:
    """Part `name:port`, `[IPv6]:port` or a name alone. Raises ValueError when the port can't be one."""
    if ipv6(word):
        return word, None
    bracketed = re.fullmatch(r"\[([^\[\]]+)\]:(.*)", word)
    if not bracketed and ipv6(word[1:-1]):
        raise ValueError(f"brackets are for an address with a port: write {word[1:-1]} or {word}:22")
    if bracketed and (ipv6(bracketed.group(1)) or ":" not in bracketed.group(1)):
        return bracketed.group(1), port(bracketed.group(2))
    plain = re.fullmatch(r"(.*[^:]):(\d+)", word)
    if plain and not _PORTED.fullmatch(plain.group(1)):
        raise ValueError(
            f"'{word}': no port can stand behind such a name; write ansible_port={plain.group(2)}"
        )
    return (plain.group(1), port(plain.group(2))) if plain else (word, None)


def address(text: str) -> str:
    """Return what ssh connects to, without the brackets of IPv6. Raises ValueError when a port is in it."""
    inner = text.removeprefix("[").removesuffix("]")
    if ipv6(inner):
        return inner
    if ":" in text:
        raise ValueError(f"expected a name or an address, got '{text}'; a port goes into ansible_port")
    if re.search(r"\s", text) or text.startswith("-"):
        raise ValueError(f"expected a name or an address, got '{text}'")
    return text


def port(text: str) -> int:
    """Return a TCP port. Raises ValueError when `text` isn't one."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise ValueError(f"expected a port (1 to 65535), got '{text}'")
    return int(text)


def hosts_of(word: str) -> tuple[list[str], int | None]:
    """Return the names that the first word of a host line stands for, and their port.

    Raises ValueError when a name, a range or the port is wrong.
    """
    stem, number = splitport(word)
    names = [stem] if ipv6(stem) else expand(stem)
    return [check_name(name) for name in names], number
