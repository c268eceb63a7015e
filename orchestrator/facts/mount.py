"""What a folder on a host stands on, as `facts/mount.sh.j2` prints it."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.facts.lines import Lines

_WHY = {
    "file": "{path} is a file",
    "link": "{path} is a link to what is not there",
    "read-only": "the disk of {path} is read-only",
    "denied": "{account} may not write in {path}",
}


@dataclass(frozen=True)
class Mount:
    """The file system under a folder that is there or is to be made. None, or empty: not known."""

    kind: str = ""  # ext4, nfs4, tmpfs, ...
    options: frozenset[str] = frozenset()
    locks: bool | None = None  # whether flock works; None: there is no file to try it on
    trouble: tuple[str, str] | None = None  # why the folder can't be made or written: a word, and where

    @property
    def executes(self) -> bool:
        """Whether programs and compiled libraries there can be run."""
        return "noexec" not in self.options

    @property
    def private(self) -> bool:
        """Whether nobody but the account sees what is there, not even root: FUSE without allow_other."""
        return self.kind.startswith("fuse") and not self.options & {"allow_other", "allow_root"}

    def problem(self, account: str) -> str | None:
        """Return why the folder can't be made or written, in words."""
        if not self.trouble:
            return None
        word, path = self.trouble
        return _WHY[word].format(path=path, account=account or "the account")


def mount(lines: Lines) -> Mount:
    """Return what a script's answer tells of one folder."""
    kind, options, *_ = [*next(iter(lines.all("mount", 2)), ()), "", ""]
    trouble = next((t for t in lines.all("trouble", 2) if t[0] in _WHY), None)
    return Mount(
        kind=kind,
        options=frozenset(options.split(",")) - {""},
        locks={"yes": True, "no": False}.get(lines.text("locks")),
        trouble=(trouble[0], trouble[1]) if trouble else None,
    )
