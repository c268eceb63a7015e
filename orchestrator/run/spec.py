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
    git: Mapping[str, Any] = field(default_factory=dict)  # commit, branch, dirty, diff (SHA-256 of code.diff)
    by: str = ""  # user@machine that asked
    asked: float = 0.0
    orch: str = ""
    timeout: float = 0  # seconds after which it is stopped; 0: never
    note: str = ""
    tags: tuple[str, ...] = ()
    restarts: int = 0  # how often it may be started again by itself,
    retry_on: tuple[str, ...] = ()  # and after which causes
    kind: str = "train"  # train | tensorboard | jupyter
    idle: float = 0  # seconds without use after which a service ends; 0: never
    parent: Mapping[str, Any] = field(
        default_factory=dict
    )  # of one that runs again: run, kind (rerun, resume)
    orch_env: str = ""  # what the host adds: the environment's identity,
    image: Mapping[str, Any] = field(
        default_factory=dict
    )  # its image: name, base (digest), id; of a container
    packages: tuple[str, ...] = ()  # name==version of what was installed since the deploy
    version: int = VERSION

    @property
    def service(self) -> bool:
        """Whether it is no training but something that people look at."""
        return self.kind != "train"

    def text(self) -> str:
        """Return the spec as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=True)

    def asked_text(self) -> str:
        """Return the same without the end of the object, and without what the host adds to it."""
        fields = {k: v for k, v in asdict(self).items() if k not in ("orch_env", "image")}
        return json.dumps(fields, ensure_ascii=True)[:-1]

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> RunSpec:
        """Make a spec of its JSON; fields of a newer orch are passed over. Raises ValueError."""
        known: dict[str, Any] = {k: v for k, v in fields.items() if k in cls.__dataclass_fields__}
        lists = ("argv", "hosts", "env", "tags", "retry_on", "packages")
        try:
            return cls(**{**known, **{k: tuple(known[k]) for k in lists if k in known}})
        except TypeError as error:
            raise ValueError(f"not a run's spec: {error}") from error
