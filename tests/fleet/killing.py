"""orch that is killed by SIGKILL: exactly at a step that it tells of, or at any time."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable

from tests.until import until

from .lab import Host
from .orch import Orch
from .test_files import sessions

ALL_STEPS = bool(os.environ.get("ORCH_TEST_ALL_STEPS"))
"""Whether also what takes long is killed at every step, and not at a few that are drawn."""

FEWEST = 5
"""Steps that any of the verbs has at least."""

# A step: a command is about to be sent to a host, or has ended there. No other process could be as exact.
_PROGRAM = """\
import os, signal, sys
from orchestrator.__main__ import main
from orchestrator.hosts import trace

class Steps:
    count, last = 0, int(sys.argv.pop(1))

    def step(self, *told):
        Steps.count += 1
        os.write(2, b"\\nstep\\n")
        if Steps.count == Steps.last:
            os.kill(os.getpid(), signal.SIGKILL)

    sending = ended = step

trace.listen(Steps())
main()
"""


def _until_step(step: int, orch: Orch, *words: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", _PROGRAM, str(step), *(str(word) for word in words)]
    return subprocess.run(
        argv, cwd=orch.cwd, env=orch.environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", timeout=240, check=False,
    )  # fmt: skip


def _counted(done: subprocess.CompletedProcess[str]) -> int:
    return len(re.findall("^step$", done.stderr, re.MULTILINE))


def steps(orch: Orch, *words: object) -> int:
    """How many steps a call has that nothing disturbs."""
    done = _until_step(0, orch, *words)
    assert done.returncode == 0, done.stderr
    return _counted(done)


def killed_at(step: int, orch: Orch, *words: object) -> bool:
    """Call orch, which is killed when it has come to that step; False: it has ended with fewer."""
    done = _until_step(step, orch, *words)
    hit = done.returncode == -9
    assert hit or (done.returncode == 0 and _counted(done) < step), (
        f"{done.returncode} at {step}: {done.stderr}"
    )
    return hit


def killed_after(seconds: float, orch: Orch, *words: object) -> None:
    """Call orch, and kill it after so long, whatever it does then; it may have ended by itself."""
    going = orch.start(*words)
    time.sleep(seconds)  # what is tried
    going.kill()
    _, said = going.communicate()
    assert going.returncode in (-9, 0), said


def moments(last: int, chance: random.Random, count: int, seconds: float) -> list[int | float]:
    """When to kill what takes long: at so many of its steps, or at all (ALL_STEPS); and at any time."""
    drawn = range(1, last + 1) if ALL_STEPS else sorted(chance.sample(range(1, last + 1), count))
    return [*drawn, chance.uniform(0.3, 1.0) * seconds]


def killed(moment: int | float, orch: Orch, *words: object) -> None:
    """Call orch, and kill it at a step (int), or after so many seconds (float)."""
    if isinstance(moment, int):
        killed_at(moment, orch, *words)
    else:
        killed_after(moment, orch, *words)


def at_each_step(orch: Orch, words: Callable[[str], tuple[object, ...]], then: Callable[[str], None]) -> int:
    """Kill a call at its first step, the next at its second, until one has ended before; return their number.

    `words` gives the words of a call, and `then` is done after each, by the number of the step.
    """
    for step in itertools.count(1):
        hit = killed_at(step, orch, *words(str(step)))
        then(str(step))
        if not hit:
            assert step > FEWEST
            return step
    raise AssertionError("there is a last step")


def alone(*hosts: Host) -> None:
    """End what tests of other files have left of ana's on the hosts themselves."""
    for host in hosts:
        host.run("pkill -KILL -u ana", check=False)


def nothing_goes_on(*hosts: Host) -> None:
    """Wait until nothing goes on there any more that an orch of ana's has begun."""
    for host in hosts:
        until(lambda host=host: not sessions(host), f"{host.name}: the end of all sessions", 120)  # type: ignore[misc]
        try:
            until(lambda host=host: not _processes(host), f"{host.name}: the end of all scripts", 120)  # type: ignore[misc]
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{_processes(host)}") from error


def _processes(host: Host) -> str:
    return host.run("ps -u ana -o pid=,args=", check=False).stdout.strip()
