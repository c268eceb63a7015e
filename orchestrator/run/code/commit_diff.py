"""What the code that is sent has, and its commit has not: `git diff HEAD`, and the names of new files."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import threading
from pathlib import Path

from orchestrator.run.code.bundle import Bundle
from orchestrator.run.code.commit import PATIENCE, git_environment

MOST = 1_000_000
"""Bytes; a larger diff is left out, which its first lines say."""

_NAMES = 50_000_000
"""Bytes of names that are read of a repository."""

# Every setting of a person's own that would change the form is overruled. What was in a deleted file is not
# shown: nothing of it is sent.
_DIFF = (
    *("diff", "HEAD", "--relative", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--irreversible-delete", "--src-prefix=a/", "--dst-prefix=b/", "--", "."),
)


def diff_of(bundle: Bundle) -> bytes:
    """Return a diff that `git apply` takes, of nothing but what the bundle holds.

    Lines with `#` in front name new files. Empty where nothing differs, and without git, a repository, a
    commit, or an answer in time.
    """
    with _Git(bundle.top, *_DIFF) as differs, _Git(bundle.top, "ls-files", "-z") as known:
        names, diff = known.said(_NAMES), differs.said(MOST)
    if names is None or diff is None:
        return b""
    new = _new(bundle, names)
    head = ["# new, in no commit:", *(f"#   {name}" for name in new)] if new else []
    if len(diff) > MOST:
        head.append(f"# left out: the diff is larger than {MOST // 1_000_000} MB")
        diff = b""
    sent = b"".join(section for section in _sections(diff) if _is_sent(section, bundle))
    return "".join(f"{line}\n" for line in head).encode() + sent


class _Git:
    """A question to git that has been asked; both are at work at the same time."""

    def __init__(self, top: Path, *words: str) -> None:
        settings = ["-c", "core.quotePath=true", "-c", "diff.suppressBlankEmpty=false"]
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                ["git", "-C", str(top), *settings, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=git_environment(),
            )
        except OSError:
            return
        self._limit = threading.Timer(PATIENCE, self._process.kill)
        self._limit.daemon = True
        self._limit.start()

    def __enter__(self) -> _Git:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process:
            self._limit.cancel()
            self._process.kill()
            self._process.communicate()

    def said(self, most: int) -> bytes | None:
        """Return what git said, at most `most` bytes and one; None when it failed or took too long."""
        if not self._process or not self._process.stdout:
            return None
        found = self._process.stdout.read(most + 1)
        if len(found) <= most and self._process.wait():
            return None
        return found


def _new(bundle: Bundle, names: bytes) -> list[str]:
    known = {os.fsdecode(name) for name in names.split(b"\0")}
    new = (entry.path for entry in bundle.entries if entry.kind != "dir" and entry.path not in known)
    return [name if name.isprintable() else json.dumps(name) for name in new]


def _sections(diff: bytes) -> list[bytes]:
    """Return the part of each file. Lines of content begin with one of ` +-\\`."""
    return [part for part in re.split(rb"(?m)^(?=diff --git )", diff) if part]


def _is_sent(section: bytes, bundle: Bundle) -> bool:
    """Tell whether a file's part may be shown: the file is sent, or it is gone and only its name is shown."""
    head, _, rest = section.partition(b"\n")
    if rest.startswith(b"deleted file mode"):
        return True
    both = head.removeprefix(b"diff --git ")
    first = both[: len(both) // 2]  # both halves are one name, as nothing is taken for renamed
    name = ast.literal_eval("b" + first.decode("ascii")) if first.startswith(b'"') else first
    return bundle.holds(os.fsdecode(name.removeprefix(b"a/")))
