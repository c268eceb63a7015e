"""Where a training is: what a checkpoint must know beside weights and optimizer. Knows no TensorFlow."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Dict, Mapping, NamedTuple, Optional


class Position(NamedTuple):
    """So many epochs are done, and so many steps of the next one, which has `steps` in all."""

    epoch: int = 0
    step: int = 0
    steps: int = 0
    means: Mapping[str, float] = MappingProxyType({})
    """Loss and metrics over those steps of the next epoch."""
    best: Optional[float] = None
    """The smallest validation loss so far."""

    def __str__(self) -> str:
        done = f"{self.epoch} epoch{'s' * (self.epoch != 1)}"
        return done + (f" and {self.step} of {self.steps} steps done" if self.step else " done")

    def text(self) -> str:
        """As JSON, for a checkpoint."""
        return json.dumps({**self._asdict(), "means": dict(self.means)})

    @classmethod
    def of(cls, text: str) -> Position:
        """What `text` wrote; fields that it doesn't know are left out."""
        fields = json.loads(text)
        return cls(**{name: fields[name] for name in cls._fields if name in fields})

    def fitting(self, steps: int) -> Position:
        """The place to go on from when an epoch now has `steps`: an epoch cut otherwise is begun anew."""
        return self if self.steps == steps or not self.step else self._replace(step=0, steps=steps, means={})


def whole(before: Mapping[str, float], seen: int, since: Mapping[str, float], more: int) -> Dict[str, float]:
    """The means over an epoch that was taken up: `before` over `seen` examples, `since` over `more`."""
    share = more / max(1, seen + more)
    return {
        name: value if name not in before else before[name] + (value - before[name]) * share
        for name, value in since.items()
    }
