"""Inventories written out and read, for the tests of the inventory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.inventory import Host, Inventory, load


class Desk:
    """A folder to write inventories in; it is the current folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str | bytes, name: str = "hosts.ini") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def read(
        self,
        *texts: str | bytes,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, str] | None = None,
    ) -> Inventory:
        """Read texts as layers: hosts.ini, then 1.ini, 2.ini."""
        files = [self.write(text, f"{i}.ini" if i else "hosts.ini") for i, text in enumerate(texts)]
        return load(files, environ=environ or {}, flags=flags or {})

    def host(self, *texts: str | bytes, **more: Mapping[str, str]) -> Host:
        """Read an inventory of one host."""
        (host,) = self.read(*texts, **more).hosts
        return host

    def error(self, *texts: str | bytes, **more: Mapping[str, str]) -> str:
        """Read an inventory that must be refused; return the one line, checked for its exit code."""
        with pytest.raises(ConfigError) as caught:
            self.read(*texts, **more)
        assert caught.value.exit_code == 78
        assert "\n" not in str(caught.value)
        return str(caught.value)


def names(inventory: Inventory) -> list[str]:
    return [host.name for host in inventory.hosts]
