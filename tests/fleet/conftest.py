"""The real fleet for tests: brought up once, shared by all of them, and counted in pytest's summary."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Fleet, Host, LabError, why_not
from .lab.fleet import name_of_ours
from .orch import Orch, make_project

HERE = Path(__file__).parent
# Bringing up the fleet may mean to build its image first; that falls on the first test.
TIMEOUT = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands in this folder, so that ``-m 'not fleet'`` leaves it out."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.fleet)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(TIMEOUT))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests ran on real hosts."""
    stats = terminalreporter.stats
    reports = [
        r for kind in ("passed", "failed", "skipped") for r in stats.get(kind, []) if "fleet" in r.keywords
    ]
    if not reports:
        return
    skipped = [report for report in reports if report.skipped]
    why = {str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped}
    line = f"real fleet: {len(reports) - len(skipped)} tests ran on it, {len(skipped)} skipped"
    terminalreporter.write_line("; ".join([line, *sorted(why)]))


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """Hosts gpu01 and gpu02. Without root or packages: a skip on a person's machine, a failure in CI."""
    if reason := why_not():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(f"not tested on real hosts: {reason}")
    with name_of_ours() as name:
        fleet = Fleet(name)
        try:
            fleet.up()
        except LabError as error:
            pytest.fail(str(error))
        yield fleet
        fleet.down()


def _host(fleet: Fleet, name: str) -> Iterator[Host]:
    yield fleet[name]
    fleet[name].restore()


@pytest.fixture
def gpu01(fleet: Fleet) -> Iterator[Host]:
    """The first host; after the test its power, link and services are as they were."""
    yield from _host(fleet, "gpu01")


@pytest.fixture
def gpu02(fleet: Fleet) -> Iterator[Host]:
    """The second host; after the test its power, link and services are as they were."""
    yield from _host(fleet, "gpu02")


@pytest.fixture
def chance() -> random.Random:
    """Its seed is told where a test fails, to repeat it by ORCH_TEST_SEED."""
    seed = int(os.environ.get("ORCH_TEST_SEED") or random.randrange(10**6))
    print(f"ORCH_TEST_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder ``mnist`` with a plain Keras train.py of a few seconds that writes ./checkpoints."""
    return make_project(tmp_path / "mnist")


@pytest.fixture
def orch(fleet: Fleet, project: Path, tmp_path: Path) -> Orch:
    """The command ``orch``, run in ``project`` by the person ana, logging in as the account ana."""
    return Orch(fleet, home=tmp_path / "home", cwd=project, account="ana")
