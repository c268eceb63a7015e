"""What the proof says when the environment is broken."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.container.causes import explain_failure
from orchestrator.container.proof import check, look, parse
from orchestrator.container.telling import cpu_only_warning, framework
from orchestrator.errors import HostError
from orchestrator.hosts.command import Command
from orchestrator.hosts.fake import FakeMachine
from orchestrator.render import source

from .deploys import host

PLAIN = {"python": "3.8.10", "user": "ana", "uid": 1001, "gid": 1001, "home": "/home/ana"}

TRACE = """Traceback (most recent call last):
  File "/usr/local/lib/python3.9/dist-packages/tensorflow/__init__.py", line 37, in <module>
  File "{numpy}/numpy/core/_multiarray_umath.py", line 44, in __getattr__
ImportError: numpy.core.multiarray failed to import
"""


@pytest.mark.parametrize(
    ("numpy", "hinted"),
    [
        ("/home/ana/.local/lib/python3.9/site-packages", True),
        ("/usr/local/lib/python3.9/dist-packages", False),
    ],
)
def test_packages_installed_by_hand_are_named_where_they_break_it(numpy: str, hinted: bool) -> None:
    machine = FakeMachine()
    machine.answer("proof", err=TRACE.format(numpy=numpy), status=1)
    with pytest.raises(HostError, match="multiarray failed to import") as told:
        look(machine, Command(("python3", "proof")))
    assert ("remove home/.local" in str(told.value)) is hinted


TORCH = """\
__version__ = "2.1.0+cu118"
class version:
    cuda = "11.8"
class cuda:
    device_count = staticmethod(lambda: 2)
"""
TENSORFLOW = (
    '__version__ = "2.9.3"\nclass test:\n    is_built_with_cuda = staticmethod(lambda: False)\n'
    "class config:\n    list_physical_devices = staticmethod(lambda kind: [])\n"
)


def proof(folder: Path, *words: str, **modules: str) -> subprocess.CompletedProcess[str]:
    """Run the proof on a Python that has these modules."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-S", "-c", source("container/proof.py") or "", *words],
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_tensorflow_is_asked_first_then_pytorch_then_nobody(tmp_path: Path) -> None:
    for modules, words in (
        ({}, ("no TensorFlow", None, 0)),
        ({"torch": TORCH}, ("PyTorch 2.1.0+cu118", True, 2)),
        ({"tensorflow": TENSORFLOW}, ("TensorFlow 2.9.3", False, 0)),
    ):
        seen = parse(json.loads(proof(tmp_path, **modules).stdout))
        assert (framework(seen) or "no TensorFlow", seen.cuda, seen.gpu_count) == words


def test_without_a_framework_nvidia_smi_alone_counts() -> None:
    check(parse({**PLAIN, "gpus": ["GPU-a", "GPU-b"]}), gpus=2, uid=1001, where="gpu01")
    with pytest.raises(HostError, match=r"1 of 2 GPUs are seen .*on the host nvidia-smi"):
        check(parse({**PLAIN, "gpus": ["GPU-a"]}), gpus=2, uid=1001, where="gpu01")
    torch = {**PLAIN, "torch": "2.1.0", "gpus": ["GPU-a", "GPU-b"]}
    with pytest.raises(HostError, match=r"0 of 2 GPUs are seen .*than PyTorch"):
        check(parse({**torch, "cuda": True, "framework_gpus": 0}), gpus=2, uid=1001, where="gpu01")
    on_cpu = parse({**torch, "cuda": False, "framework_gpus": 0})
    assert cpu_only_warning(on_cpu, 2) == "PyTorch 2.1.0 is built without CUDA: it trains on the CPU"


def test_a_broken_framework_or_an_old_python_makes_no_image(tmp_path: Path) -> None:
    broken = proof(tmp_path, "--build", torch="import libtorch_cuda\n")
    assert (broken.returncode, "No module named 'libtorch_cuda'" in broken.stderr) == (1, True)
    aged = "import sys\nsys.version_info = (3, 5, 2)\n"
    text = aged + (source("container/proof.py") or "").partition('"""\n\n')[2]
    old = subprocess.run([sys.executable, "-c", text, "--build"], capture_output=True, text=True, check=False)
    assert old.returncode == 1
    error = explain_failure(host(image="mine:1"), old.stderr, base="mine:1")
    assert re.match(
        r"gpu01: the python3 of mine:1 is \S+, and orch needs 3.6 or newer\. Set `image`", str(error)
    )
