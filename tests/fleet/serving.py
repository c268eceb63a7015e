"""`orch tensorboard` and `orch jupyter` as a person has them: the way stands until it is left."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.until import until

from .orch import Orch


class Way:
    """A call that leads somewhere; `url` is what it printed, `said` all that it said since."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.said = process, ""
        assert process.stdout
        self.listening = threading.Thread(target=self._listen, daemon=True)
        self.listening.start()
        self.url = process.stdout.readline().strip()
        if not self.url:
            process.wait(timeout=30)
            self.listening.join()
            raise AssertionError(f"exit {process.returncode}: {self.said}")

    def _listen(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.said += line

    @property
    def run(self) -> str:
        """The run's id."""
        until(lambda: "run     " in self.said)
        return re.findall(r"run     (\S+)", self.said)[-1]

    def get(self, path: str = "", token: str = "") -> tuple[int, str]:
        """Status and text of an answer that comes through the forward."""
        headers = {"Authorization": f"token {token}"} if token else {}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.url + path, headers=headers), timeout=60
            ) as answer:
                return answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            return error.code, ""

    def leave(self) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=30)


@contextmanager
def way(orch: Orch, *words: object) -> Iterator[Way]:
    """A call that has printed its URL; it is ended afterwards."""
    with orch.start(*words) as process:
        try:
            yield Way(process)
        finally:
            if process.poll() is None:
                process.kill()
