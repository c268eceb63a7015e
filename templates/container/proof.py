"""Says what an environment holds. Runs inside it, on Python 3.6 and newer, with no package of ours.

proof           one line of JSON: python, tensorflow or torch, cuda, gpus, user, uid, home, free_mb
proof --build   the packages that are installed, a line each; fails when TensorFlow (else PyTorch) is there
                and broken, or Python too old
"""

import getpass
import importlib.util
import json
import os
import platform
import subprocess
import sys

OLDEST = (3, 6)  # what a run's supervisor needs


def packages():
    """Return `name==version` of what is installed, sorted."""
    try:
        from importlib.metadata import distributions

        found = [(d.metadata["Name"], d.version) for d in distributions()]
    except ImportError:  # Python 3.7 and older
        import pkg_resources

        found = [(d.project_name, d.version) for d in pkg_resources.working_set]
    return sorted({"%s==%s" % (name.lower(), version) for name, version in found if name})


def tensorflow():
    """Return the version, whether it is built with CUDA, and how many GPUs it sees."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # what it could not load is told on stderr
    import tensorflow as tf

    return tf.__version__, tf.test.is_built_with_cuda(), len(tf.config.list_physical_devices("GPU"))


def pytorch():
    """Return the same of PyTorch; its version of CUDA is None where it has none."""
    import torch

    return torch.__version__, bool(torch.version.cuda), torch.cuda.device_count()


def framework():
    """Return what TensorFlow says, else PyTorch, each with its name; nothing where neither is there."""
    for name, ask in (("tensorflow", tensorflow), ("torch", pytorch)):
        if importlib.util.find_spec(name):
            version, cuda, gpus = ask()
            return {name: str(version), "cuda": bool(cuda), "framework_gpus": int(gpus)}
    return {}


def nvidia():
    """Return the UUIDs that nvidia-smi lists."""
    try:
        command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.startswith(("GPU-", "MIG-"))]


def user():
    """Return the name of the user, or its number where it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def free_mb(path):
    """Return the MiB free where `path` is."""
    try:
        room = os.statvfs(path)
    except OSError:
        return None
    return room.f_bavail * room.f_frsize // 1048576


def main():
    if sys.argv[1:] == ["--build"]:
        if sys.version_info < OLDEST:
            sys.exit("orch: the image's python3 is too old: %s" % platform.python_version())
        framework()
        print("\n".join(packages()))
        return
    answer = {
        "python": platform.python_version(),
        "gpus": nvidia(),
        "user": user(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "home": os.path.expanduser("~"),
        "free_mb": free_mb(sys.argv[1] if sys.argv[1:] else "."),
        "packages": packages(),
    }
    answer.update(framework())
    print(json.dumps(answer))


main()
