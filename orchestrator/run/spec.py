"""What was asked of a run: written once, on its hosts, as spec.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class RunSpec:
    """A run as it was asked for. Times are seconds since the epoch; `env` holds names only, never values."""

    run: str
    argv: tuple[str, ...]
    hosts: tuple[str, ...]
    person: str
    project: str
    bundle: str
    name: str | None = None
    env: tuple[str, ...] = ()
    gpus: str = ""  # as asked: "" all free ones, "all", "none", a count, "ids:0,2"
    sub: str = ""  # the folder below work/ that the command runs in
    git: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""  # user@machine that asked
    asked: float = 0.0
    orch: str = ""
    version: int = VERSION

    def text(self) -> str:
        """Return the spec as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=True)

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> RunSpec:
        """Make a spec of its JSON; fields of a newer orch are passed over. Raises ValueError."""
        known: dict[str, Any] = {k: v for k, v in fields.items() if k in cls.__dataclass_fields__}
        lists = ("argv", "hosts", "env")
        try:
            return cls(**{**known, **{k: tuple(known[k]) for k in lists if k in known}})
        except TypeError as error:
            raise ValueError(f"not a run's spec: {error}") from error
