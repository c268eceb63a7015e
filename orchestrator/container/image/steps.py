"""What an engine's lines say of how far a pull or a build is: docker build and pull, BuildKit, podman."""

from __future__ import annotations

import re

_STEP = re.compile(r"(?:\[\d+/\d+\] )?step (\d+)/(\d+) ?: (.+)", re.IGNORECASE)  # classic builder, podman
_STAGE = re.compile(r"#\d+ \[(?:\S+ )?(\d+)/(\d+)\] (.+)")  # BuildKit
_LAYER = re.compile(r"([0-9a-f]{12}): (Pulling fs layer|Pull complete|Already exists)")
_SENDING = "sending the build context"
_WIDTH = 90


class Steps:
    """Hears one pull or build line by line. `passing`: what was heard last is only how far a step is."""

    def __init__(self) -> None:
        self.passing = False
        self._layers: dict[str, bool] = {}
        self._last = ""

    def hear(self, line: str) -> str | None:
        """Return in one short line what is being done now, when that is another thing than before."""
        said = self._said(line.strip())
        if not said or said == self._last:
            return None
        self._last = said
        return said

    def _said(self, line: str) -> str | None:
        self.passing = True
        if line.startswith(_SENDING):
            return line
        layer = _LAYER.match(line)
        if layer:
            self._layers[layer.group(1)] = layer.group(2) != "Pulling fs layer"
            return f"layer {sum(self._layers.values())} of {len(self._layers)}"
        step = _STEP.fullmatch(line) or _STAGE.fullmatch(line)
        if not step:
            return None
        self.passing = False
        text = f"step {step.group(1)}/{step.group(2)}  {' '.join(step.group(3).split())}"
        return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
