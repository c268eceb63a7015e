"""What is installed in the environment and was not when it was deployed."""

import json
import os
import sys

from supervisor.files import read_bytes, read_json, remove
from supervisor.installed import installed, package

IMAGE_PACKAGES = "/usr/local/lib/orch/packages.txt"  # what the image has, as name==version


def added_packages(search, known):
    """Return `name==version` of what is installed and is not in the lists of the deploy (files `known`)."""
    before = set()
    for path in known:
        before.update(
            package(line.strip(), "==") for line in read_bytes(path).decode("utf-8", "replace").splitlines()
        )
    return sorted(installed(search) - before) if before else []


def note_packages(path):
    """Add to spec.json what was installed since the deploy. One that can't be written stays as it is."""
    known = [IMAGE_PACKAGES, os.path.join(os.environ.get("VIRTUAL_ENV", "/nowhere"), "packages.txt")]
    added, spec = added_packages(sys.path[1:], known), read_json(path)
    if not added or not spec:
        return
    part = "{}.part-{}-{}".format(path, os.uname()[1], os.getpid())  # the other workers may share the home
    try:
        with open(part, "w") as file:
            file.write(json.dumps(dict(spec, packages=added)) + "\n")
        os.rename(part, path)
    except OSError:
        remove(part)
