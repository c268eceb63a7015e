"""What was put into a container past orch: the real script with an engine's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.facts.changed import CHANGED, ChangedReport

from .shells import SHELLS, ask, program

DIFF = """\
C /usr/local/lib/python3.9/dist-packages
A /usr/local/lib/python3.9/dist-packages/wandb
A /usr/local/lib/python3.9/dist-packages/wandb-0.17.0.dist-info
A /usr/local/lib/python3.9/dist-packages/wandb-0.17.0.dist-info/RECORD
D /usr/lib/python3/dist-packages/pip-20.3.4.egg-info
A /opt/conda/lib/python3.8/site-packages/attrs-23.1.0.dist-info
C /var/lib/dpkg/status
A /var/lib/dpkg/info/hello.list
A /var/lib/dpkg/info/libx:amd64.list
A /var/lib/dpkg/info/hello.md5sums
C /usr/local/lib/orch
A /usr/local/lib/orch/startup
C /usr/local/lib/orch/entrypoint
A /usr/local/lib/orch/entrypoint/x
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_what_differs_from_the_image(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "diff").write_text(DIFF)
    tools = tmp_path / "tools"
    program(tools, "docker", f'[ "$*" = "diff orch-ana-mnist" ] && cat {tmp_path}/diff\n')
    (tmp_path / "p/home/.local/lib/python3.9/site-packages/rich-13.7.0.dist-info").mkdir(parents=True)
    values = {"docker": ("docker",), "container": "orch-ana-mnist", "place": f"{tmp_path}/p"}
    assert ask(CHANGED, shell, path=f"{tools}:/usr/bin:/bin", values=values) == ChangedReport(
        pip=("+attrs-23.1.0", "+wandb-0.17.0", "-pip-20.3.4"),
        apt=("+hello", "+libx"),
        files=("entrypoint",),
        home=("rich-13.7.0",),
    )
    program(tools, "docker", "exit 1\n")
    assert (
        ask(CHANGED, shell, path=f"{tools}:/usr/bin:/bin", values={**values, "place": "/no"})
        == ChangedReport()
    )
