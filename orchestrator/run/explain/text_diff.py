"""The code of two runs as a unified diff."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from orchestrator.run.code.bundle import Bundle, Entry

LARGEST = 1_000_000
"""Bytes of a file above which it is only said to differ."""

_LOOKED_AT = 8000  # bytes in which a NUL makes a file binary, as git has it


def code_diff(before: Bundle, after: Bundle) -> Iterator[str]:
    """Yield the lines of a unified diff, in the order of names; what is no text is said to differ."""
    old, new = ({e.path: e for e in bundle.entries if e.kind != "dir"} for bundle in (before, after))
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path):
            yield from _file(path, _content(before, old.get(path)), _content(after, new.get(path)))
            yield from _mode(path, old.get(path), new.get(path))


def _file(path: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    if before == after:
        return
    old = f"a/{path}" if before is not None else "/dev/null"
    new = f"b/{path}" if after is not None else "/dev/null"
    if any(data is not None and _is_binary(data) for data in (before, after)):
        yield f"Binary files {old} and {new} differ"
        return
    yield from difflib.unified_diff(_lines(before), _lines(after), old, new, lineterm="")


def _lines(data: bytes | None) -> list[str]:
    *lines, rest = (data or b"").decode("utf-8", "replace").split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines


def _content(bundle: Bundle, entry: Entry | None) -> bytes | None:
    """Return what a file holds, or where a link leads; of a large file something that is no text."""
    if entry is None:
        return None
    if entry.kind == "link":
        return f"link to {entry.target}\n".encode("utf-8", "surrogateescape")
    if entry.size > LARGEST:
        return b"\0" + entry.sha256.encode()
    return b"".join(bundle.content(entry))


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_LOOKED_AT]


def _mode(path: str, old: Entry | None, new: Entry | None) -> Iterator[str]:
    if old and new and old.kind == new.kind == "file" and old.executable != new.executable:
        yield f"{path} is {'executable' if new.executable else 'not executable any more'}"
