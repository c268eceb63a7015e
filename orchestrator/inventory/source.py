"""Lines of an inventory file and where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import ConfigError

_ODD = {
    "\u00a0": "a no-break space",
    "\u2007": "a figure space",
    "\u202f": "a narrow no-break space",
    "\u200b": "a zero-width space",
    "\ufeff": "a byte order mark",
    "\u2018": "a curly quote",
    "\u2019": "a curly quote",
    "\u201c": "a curly quote",
    "\u201d": "a curly quote",
    "\0": "a NUL byte",
}
"""What word processors and web pages put where a plain blank or quote is meant."""

_ODD_CHARACTER = re.compile("[" + "".join(_ODD) + "]")


@dataclass(frozen=True)
class Place:
    """Where something stands: `file:line`, the line itself, and the folder that its paths start from."""

    name: str
    text: str = field(default="", compare=False)
    folder: Path = field(default=Path(), compare=False)

    def __str__(self) -> str:
        return self.name

    def error(self, message: str, hint: str | None = None) -> ConfigError:
        """Make the error that says what is wrong here."""
        return ConfigError(message, where=self.name, hint=hint)

    def refuse_odd(self, part: str) -> None:
        """Raise ConfigError with the column when `part` of the line has a blank or quote that isn't plain."""
        found = _ODD_CHARACTER.search(part)
        if found:
            column = self.text.find(found.group()) + 1
            raise self.error(f"column {column}: {_ODD[found.group()]}", "Type a plain one")


def shown(path: Path) -> str:
    """Return a path as a person would write it: below the current folder relative, below home with ~."""
    for base, prefix in ((_here(), ""), (Path.home(), "~/")):
        if base and path.is_relative_to(base):
            return f"{prefix}{path.relative_to(base)}"
    return str(path)


def _here() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the folder was removed under us
        return None


def lines(path: Path) -> Iterator[tuple[Place, str]]:
    """Yield place and text of each line that says something, stripped, without comment lines.

    Raises ConfigError when the file can't be read or isn't a text in the INI form.
    """
    name, folder = shown(path), path.parent
    data = _read(path, name)
    _refuse_other_forms(data, name)
    for number, raw in enumerate(re.split(rb"\r\n|\r|\n", data), 1):
        if raw.decode("utf-8", "replace").strip()[:1] not in ("", "#", ";"):
            text = _decoded(raw, f"{name}:{number}")
            yield Place(f"{name}:{number}", text, folder), text.strip()


def _refuse_other_forms(data: bytes, name: str) -> None:
    """Say what Ansible reads or runs and orch does not, by its first line."""
    first = next((line.strip() for line in data.splitlines() if line.strip()[:1] not in (b"", b"#")), b"")
    if data.startswith(b"#!"):
        what = "a program"
    elif data.startswith(b"$ANSIBLE_VAULT;"):
        what = "encrypted by ansible-vault"
    elif name.endswith((".yml", ".yaml")) or re.fullmatch(rb"---( .*)?|[\w.-]+:", first):
        what = "YAML"
    elif re.fullmatch(rb"\{(\s*\".*)?", first):
        what = "JSON"
    else:
        return
    hint = f"Let Ansible name the hosts for a hosts.ini of orch's: ansible all -i {name} --list-hosts"
    raise ConfigError(f"this is {what}; orch reads inventories in the INI form", where=name, hint=hint)


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"column {error.start + 1}: not UTF-8", where=where, hint="Save the file as UTF-8"
        ) from None


def _read(path: Path, name: str) -> bytes:
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise ConfigError(
            "this is a folder", where=name, hint="Name the inventory files in it, each by --inventory"
        ) from None
    except OSError as error:
        listed = isinstance(error, FileNotFoundError) and "," in name
        hint = f"Hosts are named without a file: --hosts {name.strip(',')}" if listed else None
        raise ConfigError(f"can't read the inventory: {error.strerror}", where=name, hint=hint) from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError("this is UTF-16", where=name, hint="Save the file as UTF-8")
    return data.removeprefix(b"\xef\xbb\xbf")
