"""Says what an environment holds. Runs inside it, on Python 3.6 and newer, with no package of ours.

proof           one line of JSON: python, tensorflow, cuda, gpus, user, uid, home, free_mb
proof --build   the packages that are installed, a line each; fails when TensorFlow is there and broken
"""

import getpass
import importlib.util
import json
import os
import platform
import subprocess
import sys


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
    """Return the version, whether it is built with CUDA, and how many GPUs it sees; None without it."""
    if not importlib.util.find_spec("tensorflow"):
        return None
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # what it could not load is told on stderr
    import tensorflow as tf

    return tf.__version__, tf.test.is_built_with_cuda(), len(tf.config.list_physical_devices("GPU"))


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
        tensorflow()
        print("\n".join(packages()))
        return
    version, cuda, seen = tensorflow() or (None, None, None)
    answer = {
        "python": platform.python_version(),
        "tensorflow": version,
        "cuda": cuda,
        "tensorflow_gpus": seen,
        "gpus": nvidia(),
        "user": user(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "home": os.path.expanduser("~"),
        "free_mb": free_mb(sys.argv[1] if sys.argv[1:] else "."),
        "packages": packages(),
    }
    print(json.dumps(answer))


main()
