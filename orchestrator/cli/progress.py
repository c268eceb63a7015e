"""Progress of work that takes long: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchestrator.cli.waiting import WAITING, can_redraw


@contextmanager
def bytes_sent(what: str, total: int | None, begun: int = 0) -> Iterator[Callable[[int], None]]:
    """Show how many of `total` bytes (None: nobody knows) are done; `begun` of them were before.

    The block calls the function that it gets with the count so far.
    """
    if not can_redraw():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with (
        WAITING.hidden(),
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as bar,
    ):
        task = bar.add_task(what, total=total, completed=begun)
        yield lambda done: bar.update(task, completed=done if total is None else min(done, total))
