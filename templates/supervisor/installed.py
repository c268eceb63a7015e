"""What is installed in an environment, by the names of `*-info` folders: listing them costs a millisecond."""

import os
import re


def installed(search):
    """Return `name==version` of what is in the folders of a search path."""
    found = set()
    for folder in search:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        stems = [os.path.splitext(name)[0] for name in names if name.endswith((".dist-info", ".egg-info"))]
        found.update(package(re.sub(r"-py[0-9.]+$", "", stem), "-") for stem in stems if "-" in stem)
    return found


def package(text, sign):
    """Return `name==version` of a text in which `sign` stands between the two."""
    name, _, version = text.rpartition(sign)
    return "{}=={}".format(re.sub("[-_.]+", "-", name).lower(), version)
