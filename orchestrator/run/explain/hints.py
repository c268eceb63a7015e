"""Failures that a log or an exit status gives away: what it is, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A failure that many people met. It is seen by its words in the log, or by its exit status.

    `what` may name groups of the pattern: `{name}`; RUN in `todo` is the run that it is about.
    """

    name: str
    what: str
    todo: str
    words: str = ""  # a regular expression over the log
    statuses: tuple[int, ...] = ()  # as a shell sees them: 128 + N for signal N
    kinds: tuple[str, ...] = ()  # of a recorded cause
    gpu: bool = False  # only where the run was given GPUs
    several: bool = False  # only of a run on several hosts
    both: bool = False  # words and status: either alone is seen in other failures too
    mild: bool = False  # it ends no run: told also of one that lives or succeeded


@dataclass(frozen=True)
class Hint:
    """What is probably wrong, and what to do about it."""

    name: str
    what: str
    todo: str


KNOWN = (
    Known(
        "exit crash",
        "the interpreter died on its way out, after the work was done",
        "What it wrote is whole. Several workers at their end do this to some TensorFlow versions.",
        words=r"terminate called without an active exception",
        statuses=(134, 139),
        both=True,
    ),
    Known(
        "shared memory",
        "/dev/shm is full",
        "Give it more: shm_size in hosts.ini, then orch deploy.",
        words=r"/dev/shm.{0,120}No space left|No space left.{0,80}/dev/shm|"
        r"unable to (?:open|write to|mmap) (?:a )?(?:file )?(?:in )?shared memory|insufficient shared memory|"
        r"killed by signal: Bus error",
        statuses=(135,),
    ),
    Known(
        "disk full",
        "a disk is full",
        "Make room there (orch image prune; old runs), or set root to another disk.",
        words=r"No space left on device|\[Errno (?:28|122)\]|Disk quota exceeded",
    ),
    Known(
        "host memory",
        "the host ran out of memory",
        "A smaller batch or fewer loaders at once, or a larger `memory` in hosts.ini.",
        words=r"OOM when allocating tensor.{0,200}device:CPU|\bMemoryError\b|"
        r"Cannot allocate memory|bad_alloc",
        kinds=("oom",),
    ),
    Known(
        "GPU memory",
        "the GPU ran out of memory",
        "A smaller batch, or a GPU that nobody else uses: orch gpu-status",
        words=r"ResourceExhaustedError|OOM when allocating|CUDA_ERROR_OUT_OF_MEMORY|CUDA out of memory|"
        r"[Ff]ailed to allocate \S+ .{0,40}(?:from device|memory)|CUBLAS_STATUS_ALLOC_FAILED",
        gpu=True,
    ),
    Known(
        "GPU lost",
        "a GPU failed",
        "See: orch doctor. Most such GPUs come back with a reboot of the host.",
        words=r"GPU is lost|fallen off the bus|uncorrectable ECC|CUDA_ERROR_ECC_UNCORRECTABLE|"
        r"CUDA_ERROR_HARDWARE_STACK_ERROR|NVRM: Xid",
        gpu=True,
    ),
    Known(
        "NCCL",
        "the GPUs could not talk to each other (NCCL)",
        "Say more with --env NCCL_DEBUG=INFO; between hosts name the network: --env NCCL_SOCKET_IFNAME=...",
        words=r"NCCL WARN|\bNCCL (?:operation )?\S* ?(?:error|failed)|unhandled (?:cuda|system) error|"
        r"nccl(?:System|Internal|UnhandledCuda|Remote)Error",
    ),
    Known(
        "worker port",
        "a worker's port is taken",
        "An older worker may still live there: orch ps",
        words=r"Could not start gRPC server|Address already in use",
    ),
    Known(
        "workers apart",
        "the workers did not reach each other",
        "Each host must reach the others' cluster_ports: orch doctor",
        words=r"failed to connect to all addresses",
    ),
    Known(
        "newer GPU",
        "the GPU is newer than this TensorFlow's CUDA",
        "Take a newer image, or an older GPU.",
        words=r"CUDA_ERROR_INVALID_PTX|CUDA_ERROR_NO_BINARY_FOR_GPU|no kernel image is available",
        gpu=True,
    ),
    Known(
        "driver",
        "the driver does not fit the image's CUDA, or gives no GPU",
        "See: orch doctor",
        words=r"driver version is insufficient|CUDA_ERROR_NO_DEVICE|no CUDA-capable device|"
        r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|forward compatibility was attempted",
        gpu=True,
    ),
    Known(
        "libdevice",
        "XLA does not find libdevice",
        "--env XLA_FLAGS=--xla_gpu_cuda_data_dir=FOLDER, with the CUDA toolkit in it",
        words=r"libdevice not found|Can't find libdevice",
    ),
    Known(
        "protobuf",
        "this protobuf is too new for this TensorFlow",
        "requirements = protobuf<3.20 in hosts.ini, then orch deploy",
        words=r"Descriptors cannot (?:not )?be created directly",
    ),
    Known(
        "numpy",
        "this numpy is too new for a package that was built for an older one",
        "requirements = numpy<1.24 in hosts.ini, then orch deploy",
        words=r"_ARRAY_API not found|numpy\.core\.\S+ failed to import|compiled using NumPy 1",
    ),
    Known(
        "collectives late",
        "the strategy was made after TensorFlow had begun to work",
        "In the script: memory growth first, then the strategy, then all else.",
        words=r"Collective ops must be configured at program startup|"
        r"cannot be modified after being initialized",
    ),
    Known(
        "module",
        "{module} is neither in the environment nor in the code that was sent",
        "A package: requirements in hosts.ini, then orch deploy. A file: see .gitignore and .orchignore.",
        words=r"No module named '(?P<module>[^']+)'",
    ),
    Known(
        "script",
        "{file} was not sent, or is in another folder",
        "See what was: orch ls RUN",
        words=r"can't open file '(?P<file>[^']+)'",
    ),
    Known(
        "certificates",
        "the certificate of a server is not trusted",
        "Behind a proxy that makes its own: ca_bundle in hosts.ini, then orch deploy",
        words=r"CERTIFICATE_VERIFY_FAILED",
    ),
    Known(
        "network",
        "a server could not be reached from the host",
        "Behind a proxy: http_proxy and https_proxy in hosts.ini, then orch deploy",
        words=r"Temporary failure in name resolution|Could not resolve host|Network is unreachable",
    ),
    Known(
        "permission",
        "the run's user may not do that",
        "It writes to its own folder (work/) and to volumes that are not :ro.",
        words=r"\[Errno (?:13|30)\]|PermissionError",
    ),
    Known(
        "instruction",
        "the processor lacks instructions that the program was built for",
        "TensorFlow needs AVX: another host, or a build of it for this one",
        statuses=(132,),
    ),
    Known(
        "worker crash",
        "a crash in native code: TensorFlow 2.9 often has one while a worker's interpreter ends",
        "Whether all was done by then: the log's last lines, and the files that the script writes last.",
        statuses=(134, 139),
        several=True,
    ),
    Known(
        "no CUDA",
        "TensorFlow did not find CUDA, and uses the processor",
        "The image needs a tag with -gpu: image in hosts.ini, then orch deploy",
        words=r"Could not load dynamic library 'lib(?:cudart|cublas|cufft|curand|cusolver|cusparse|cudnn)\b|"
        r"Skipping registering GPU devices|Cannot dlopen some GPU libraries",
        gpu=True,
        mild=True,
    ),
    Known(
        "slow start",
        "the GPU is newer than this TensorFlow, whose kernels are made anew: half an hour of silence",
        "Wait, or take a newer image.",
        words=r"CUDA kernels will be jit-compiled from PTX",
        gpu=True,
        mild=True,
    ),
)
"""In the order of what says more, where several fit."""


def hint(
    log: str, *, status: int | None, ended: bool, gpus: bool, kind: str = "", several: bool = False
) -> Hint | None:
    """Return what is known of a failure like this one.

    `log` is text of the log (its beginning and end will do), `status` the exit status as a shell sees it,
    `ended` whether the run has ended otherwise than well, `gpus` whether it was given any, `kind` what kind
    of cause is recorded, `several` whether it has workers on several hosts.
    """
    if kind == "peer":
        ended = False  # what its log says of its end comes from that of another
    for known in KNOWN:
        if (known.gpu and not gpus) or (known.several and not several) or not (ended or known.mild):
            continue
        groups = {} if kind in known.kinds else _seen(known, log, status)
        if groups is not None:
            return Hint(known.name, known.what.format(**groups), known.todo)
    return None


def _seen(known: Known, log: str, status: int | None) -> dict[str, str] | None:
    """Return the groups of the last match, None where the failure is not seen."""
    by_status = status in known.statuses
    if known.both and not by_status:
        return None
    found = [*re.finditer(known.words, log)] if known.words else []
    if found:
        return found[-1].groupdict()
    return {} if by_status and not known.both else None
