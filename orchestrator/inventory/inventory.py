"""The inventory: hosts, groups, and the choice of hosts by patterns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from orchestrator.inventory.host import Host
from orchestrator.inventory.layers import Layers, lay
from orchestrator.inventory.patterns import Chooser, Selection
from orchestrator.inventory.source import shown

_NO_FLAGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Inventory:
    """All hosts, in file order, with their settings; `files` are those that were read, lowest layer first."""

    files: tuple[Path, ...]
    _layers: Layers = field(repr=False)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts in file order."""
        return self._layers.hosts

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Each group's hosts, through child groups too; without `all`."""
        return self._layers.groups

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should hear about the files, a line each."""
        return self._layers.warnings

    def stranger(self, name: str) -> Host:
        """Make the host of an ssh name that no file has, with what [all:vars] and the environment say."""
        return self._layers.stranger(name)

    def _chooser(self, is_named: Callable[[str], bool]) -> Chooser:
        return Chooser(self._layers, [shown(path) for path in self.files], is_named)

    def select(
        self,
        patterns: Sequence[str],
        exclude: Sequence[str] = (),
        *,
        is_named: Callable[[str], bool] = lambda name: False,
    ) -> Selection:
        """Choose hosts by names, groups, globs and ranges (no pattern: all).

        A name that no inventory has is taken as an ssh name; where it is like a known one, only if `is_named`
        tells that ssh knows it. Raises UsageError when a pattern matches none.
        """
        return self._chooser(is_named).select(patterns, exclude)


def load(
    files: Sequence[Path],
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] = _NO_FLAGS,
) -> Inventory:
    """Read inventory files, the later laid over the earlier, then ORCH_<KEY> of `environ`, then `flags`.

    `flags` maps names of settings to texts, as they come from the command line.
    Raises ConfigError with file:line, ORCH_<KEY> or --flag for what is wrong.
    """
    return Inventory(tuple(files), lay(files, environ, flags))
