"""The text of a value to its type. Each converter raises ValueError saying what was expected."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.inventory.host import Volume
from orchestrator.inventory.lists import items, requirements
from orchestrator.inventory.names import port

Converter = Callable[[str, Path], Any]
"""Text and the folder that a relative local path starts from."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s?([bkmgtp]?)i?b?", re.IGNORECASE)  # go-units RAMInBytes, as Docker
_KEY_LINE = re.compile(r"(?:ssh|ecdsa|sk)-\S+\s+AAAA")


def simply(convert: Callable[[str], Any]) -> Converter:
    """Make a converter of a function that needs no folder."""
    return lambda text, _folder: convert(text)


def word(text: str) -> str:
    """Return a text without blanks that can't be taken for an option."""
    if re.search(r"\s", text) or text.startswith("-"):
        raise ValueError(f"expected one word, got '{text}'")
    return text


def image(text: str) -> str:
    """Check the name of an image; what it says of a digest must be a whole one."""
    name, at, told = word(text).partition("@")
    whole = re.fullmatch(r"sha256:[0-9a-f]{64}", told if at else name)
    if not whole and (at or name.startswith("sha256:")):
        raise ValueError(f"expected sha256: and 64 hex digits, got '{told or name}'")
    return text


def matching(pattern: str, what: str) -> Callable[[str], str]:
    """Make a check for texts that match a pattern wholly."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {what}, got '{text}'")
        return text

    return check


def choice(*known: str) -> Callable[[str], str]:
    """Make a check for one of a few words."""

    def check(text: str) -> str:
        if text not in known:
            raise ValueError(f"'{text}' is not supported; expected {' or '.join(known)}")
        return text

    return check


def boolean(text: str) -> bool:
    """Read yes or no, as Ansible spells them."""
    if text.lower() in ("yes", "true", "on", "1", "y"):
        return True
    if text.lower() in ("no", "false", "off", "0", "n"):
        return False
    raise ValueError(f"expected yes or no, got '{text}'")


def size(text: str) -> str:
    """Check a size as Docker writes it: `8g`, `512m`, `1.5GiB`, or bytes."""
    match = _SIZE.fullmatch(text)
    if not match or not float(match.group(1)):
        raise ValueError(f"expected a size such as 8g or 512m, got '{text}'")
    return match.group(1) + match.group(2).lower()


def count(text: str) -> int:
    """Read a whole number above 0."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(f"expected a number above 0, got '{text}'")
    return int(text)


def positive(text: str) -> str:
    """Check a number above 0, with or without decimals, and leave it as it is written."""
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not float(text):
        raise ValueError(f"expected a number above 0, got '{text}'")
    return text


def seconds(text: str) -> float:
    """Read seconds, more than 0."""
    return float(positive(text))


def auto_port(text: str) -> int | None:
    """Read a port, or `auto` for None."""
    return None if text == "auto" else port(text)


def ports(text: str) -> tuple[str, ...]:
    """Read a list of ports."""
    return tuple(str(port(item)) for item in items(text))


def port_span(text: str) -> str:
    """Check a span of ports such as 10000-10010."""
    begin, dash, end = text.partition("-")
    if not dash or port(begin) > port(end):
        raise ValueError(f"expected a span of ports such as 10000-10010, got '{text}'")
    return text


def list_of(check: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    """Make a reader of a list whose items pass a check."""
    return lambda text: tuple(check(item) for item in items(text))


def gpus(text: str) -> str:
    """Check `auto`, `all`, `none`, a count, or indices or UUIDs joined by commas."""
    if text in ("auto", "all", "none") or re.fullmatch(r"[1-9]\d{0,2}", text):
        return text
    chosen = items(text)
    if text == "0" or not all(re.fullmatch(r"\d{1,3}|(GPU|MIG)-[\w/-]+", item) for item in chosen):
        raise ValueError(f"expected auto, all, none, a count, or indices or UUIDs by comma, got '{text}'")
    return ",".join(chosen)


def host_folder(text: str) -> str:
    """Check a folder on a host: absolute or below the account's home (`~/`), and not the whole of either."""
    if not re.match(r"~?/+[^/]", text):
        raise ValueError(f"expected an absolute path or one that begins with ~/, got '{text}'")
    if ".." in text.split("/") or re.search(r"[\0-\x1f]", text):
        raise ValueError(f"expected a plain path, got '{text}'")
    return text.rstrip("/")


def host_folders(text: str) -> tuple[str, ...]:
    """Read a list of folders on a host."""
    return tuple(host_folder(item) for item in items(text))


def volumes(text: str) -> tuple[Volume, ...]:
    """Read a list of `source:target[:ro]`."""
    found = tuple(_volume(item) for item in items(text))
    for target in (v.target for v in found):
        if sum(v.target == target for v in found) > 1:
            raise ValueError(f"two volumes have the target {target}")
    return found


def _volume(text: str) -> Volume:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if mode not in ("", "ro", "rw") or not re.match(r"/+[^/]", target):
        raise ValueError(
            f"expected SOURCE:TARGET or SOURCE:TARGET:ro with a TARGET in the container, got '{text}'"
        )
    return Volume(host_folder(source), target.rstrip("/"), mode == "ro")


def local_path(text: str, folder: Path) -> str:
    """Return a local path made absolute: `~` is home, a relative one starts at `folder`."""
    if re.search(r"[\0-\x1f]", text):
        raise ValueError(f"expected a path, got '{text}'")
    return str(folder.absolute() / Path(text).expanduser())


def requirement_list(text: str, folder: Path) -> tuple[str, ...]:
    """Read pip requirements; an item that ends in .txt is a local file."""
    found = requirements(text)
    for item in found:
        if item.startswith("-"):
            raise ValueError(f"'{item}' is an option of pip; options go into a requirements file")
        if re.match(r"[\w.\[\]-]+\s+\w", item):
            raise ValueError(f"'{item}' is no requirement: packages are parted by commas")
    return tuple(local_path(item, folder) if item.endswith(".txt") else item for item in found)


def authorized_keys(text: str, folder: Path) -> tuple[str, ...]:
    """Read a list of key lines and of local files with such lines."""
    return tuple(item if _KEY_LINE.search(item) else local_path(item, folder) for item in items(text))


def arguments(text: str) -> tuple[str, ...]:
    """Part a text into words as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise ValueError(f"a quote is not closed: {text}") from None
