"""The exception that ended a Python program, as its log has it."""

from __future__ import annotations

import re

LONGEST = 300
"""Characters of an exception that are kept."""

_BEGIN = "Traceback (most recent call last):"
_IN_USER_CODE = ": in user code:"  # Keras: the exception that it stands for is in the message, indented
_INNER = re.compile(r"    ([A-Za-z_][\w.]*: .+)")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::|\Z)")


def last_exception(lines: list[str]) -> str:
    """Return the line that names the last exception in a log, at most LONGEST characters; else nothing.

    It follows the frames of a traceback, which are indented, and may go on in lines of its own.
    """
    found, inside = "", False
    for line in lines:
        if line.rstrip().endswith(_BEGIN):
            inside = True
        elif inside and line and not line[0].isspace():
            inside = False
            found = line if _EXCEPTION.match(line) else found
        elif found.endswith(_IN_USER_CODE) and (inner := _INNER.match(line)):
            found = inner[1]
    return found[:LONGEST]
