"""Files of the worker's folder: read whatever is there, written as a whole."""

import json
import os


def remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def read_json(path):
    """Return the object in a file; an empty one where there is none, or no sense in it."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_bytes(path, last=None):
    """Return a file's bytes, or `last` of them; none where it can't be read."""
    try:
        with open(path, "rb") as file:
            if last is not None:
                file.seek(max(0, os.fstat(file.fileno()).st_size - last))
            return file.read()
    except OSError:
        return b""


def fill(path, mode, data):
    with open(path, mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
