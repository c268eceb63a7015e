"""What a log or an exit status gives away."""

from __future__ import annotations

import pytest

from orchestrator.run.explain.exception import LONGEST, last_exception
from orchestrator.run.explain.hints import KNOWN, hint

LOGS = {
    "GPU memory": [
        "ResourceExhaustedError: OOM when allocating tensor with shape[64,56,56] on /job:worker/device:GPU:0",
        "failed to allocate 31.75G (34091302912 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
    ],
    "host memory": [
        "OOM when allocating tensor with shape[8] and type float on /job:localhost/replica:0/device:CPU:0",
        "numpy.core._exceptions.MemoryError: Unable to allocate 59.6 GiB",
        "OSError: [Errno 12] Cannot allocate memory",
    ],
    "shared memory": [
        "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1a2b'",
        "RuntimeError: unable to open shared memory object </torch_1> in read-write mode",
        "RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error.",
    ],
    "disk full": ["OSError: [Errno 28] No space left on device", "write: Disk quota exceeded"],
    "GPU lost": ["CUDA error: GPU is lost", "an uncorrectable ECC error was detected"],
    "NCCL": [
        "NCCL WARN Bootstrap : no socket interface found",
        "INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error",
    ],
    "worker port": [
        "UnknownError: Could not start gRPC server",
        "OSError: [Errno 98] Address already in use",
    ],
    "workers apart": ["UNAVAILABLE: failed to connect to all addresses"],
    "newer GPU": ["failed to load PTX: CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed"],
    "driver": ["failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"],
    "libdevice": ["libdevice not found at ./libdevice.10.bc"],
    "protobuf": [
        "TypeError: Descriptors cannot not be created directly.",
        "TypeError: Descriptors cannot be created directly.",
    ],
    "numpy": ["AttributeError: _ARRAY_API not found", "ImportError: numpy.core.umath failed to import"],
    "collectives late": ["RuntimeError: Collective ops must be configured at program startup"],
    "module": ["ModuleNotFoundError: No module named 'albumentations'"],
    "script": ["python3: can't open file 'train.py': [Errno 2] No such file or directory"],
    "certificates": ["ssl.SSLError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"],
    "network": ["socket.gaierror: [Errno -3] Temporary failure in name resolution"],
    "permission": ["PermissionError: [Errno 13] Permission denied: '/models/x'"],
    "no CUDA": [
        "W dso_loader.cc:64] Could not load dynamic library 'libcudnn.so.8'; dlerror: no such file",
        "Skipping registering GPU devices...",
    ],
    "slow start": ["CUDA kernels will be jit-compiled from PTX, which could take 30 minutes or longer."],
}
BY_STATUS = {"instruction": 132, "shared memory": 135}


def of(log: str = "", status: int | None = 1, *, ended: bool = True, gpus: bool = True) -> str | None:
    found = hint(log, status=status, ended=ended, gpus=gpus)
    return found.name if found else None


@pytest.mark.parametrize(("name", "log"), [(n, log) for n, logs in LOGS.items() for log in logs])
def test_words_of_programs(name: str, log: str) -> None:
    assert of(f"Epoch 1/9\n{log}\nmore\n") == name


@pytest.mark.parametrize(("name", "status"), BY_STATUS.items())
def test_exit_statuses(name: str, status: int) -> None:
    assert of(status=status) == name


def test_all_that_is_known_is_tested() -> None:
    assert {known.name for known in KNOWN} == {*LOGS, *BY_STATUS, "exit crash", "worker crash"}
    for known in KNOWN:
        assert known.words or known.statuses


@pytest.mark.parametrize("status", [134, 139])
def test_a_crash_at_the_exit_needs_both_words_and_status(status: int) -> None:
    words = "trained\nterminate called without an active exception\n"
    assert of(words, status) == "exit crash"
    assert of(words, 1) is None
    assert of("", status) is None


@pytest.mark.parametrize("status", [134, 139])
def test_a_crash_of_one_of_several_workers(status: int) -> None:
    found = hint("Epoch 9/9\n", status=status, ended=True, gpus=False, several=True)
    assert found
    assert found.name == "worker crash"
    said = "terminate called without an active exception\n"
    found = hint(said, status=status, ended=True, gpus=False, several=True)
    assert found
    assert found.name == "exit crash"


def test_the_log_of_one_that_ended_because_of_another_is_not_blamed() -> None:
    log = LOGS["workers apart"][0]
    assert hint(log, status=1, ended=True, gpus=False, kind="peer", several=True) is None


def test_a_name_in_the_words_is_named() -> None:
    log = "No module named 'first'\nNo module named 'albumentations'\n"
    found = hint(log, status=1, ended=True, gpus=False)
    assert found
    assert found.what.startswith("albumentations is neither")


def test_words_of_gpus_count_where_there_are_some() -> None:
    log = "Could not load dynamic library 'libcudart.so.11.0'; dlerror: no such file\n"
    assert of(log) == "no CUDA"
    assert of(log, gpus=False) is None
    assert of("Could not load dynamic library 'libnvinfer.so.7'") is None, "TensorRT, which nobody misses"


def test_a_recorded_cause_says_more_than_the_log() -> None:
    found = hint("Epoch 1/9\n", status=137, ended=True, gpus=True, kind="oom")
    assert found
    assert found.name == "host memory"
    assert of("Epoch 1/9\n", 137) is None


def test_of_a_run_that_is_well_only_what_ends_no_run_is_told() -> None:
    assert of(LOGS["GPU memory"][0], None, ended=False) is None
    assert of(LOGS["no CUDA"][0], None, ended=False) == "no CUDA"
    assert of("all is well\n", 1) is None


TRACE = """\
Epoch 1/9
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
tensorflow.errors.ResourceExhaustedError: OOM when
  allocating [Op:Conv2D]
"""


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (TRACE, "tensorflow.errors.ResourceExhaustedError: OOM when"),
        ("Traceback (most recent call last):\n  File\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("Traceback (most recent call last):\n  File\n", ""),
        ("ValueError: told by a logger\n", ""),
        ("", ""),
        ("Traceback (most recent call last):\n  F\nE: " + "x" * 999, "E: " + "x" * (LONGEST - 3)),
    ],
)
def test_the_last_exception_of_a_log(log: str, found: str) -> None:
    assert last_exception(log.splitlines()) == found
