"""The exception that a Python program died of, from the end of what it printed."""

import re

MOST = 300  # characters of an exception that are kept
LOOSE = 100  # lines that may follow: a message of several lines, what C++ prints while the interpreter ends

# a bar of Keras, which ends without a newline, may stand before it
_HEAD = re.compile(r"( *\| *| *\+ |.*\S)?(Exception Group )?Traceback \(most recent call last\):$")
_NAMED = re.compile(r"[A-Za-z_][\w.]*(: .*|:|)$")
_BARE = re.compile(r"(SyntaxError|IndentationError|TabError)(: .*|)$")  # of the script itself
_IN_GROUP = re.compile(r" *\| ([^\s|].*)$")
_IN_USER_CODE = ": in user code:"  # Keras: the exception that it stands for is in the message, indented
_INNER = re.compile(r"    ([A-Za-z_][\w.]*: .+)")
_FRAME = re.compile(r"[\s|+-]*$")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def exception(text, loose):
    """Return the exception line of the last traceback in `text`; None when it doesn't end with one.

    `loose`: more lines may follow it. Of a chain or a group it is the last one.
    """
    lines = [_ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in text.split("\n")]
    while lines and _FRAME.match(lines[-1]):
        lines.pop()
    if lines and _BARE.match(lines[-1]):
        return _short(lines[-1])
    at = _last_head(lines)
    if at is None:
        return None
    number = _in_group(lines, at) if lines[at].lstrip()[:1] in ("|", "+") else _plain(lines, at)
    if number is None or len(lines) - 1 - number > (LOOSE if loose else 0):
        return None
    return _short(_meant(lines, number))


def _meant(lines, number):
    inner = (_INNER.match(line) for line in lines[number + 1 :] if lines[number].endswith(_IN_USER_CODE))
    return next((found.group(1) for found in inner if found), lines[number])


def _last_head(lines):
    return next((n for n in range(len(lines) - 1, -1, -1) if _HEAD.match(lines[n])), None)


def _plain(lines, at):
    return next((n for n in range(at + 1, len(lines)) if _NAMED.match(lines[n])), None)


def _in_group(lines, at):
    return next((n for n in range(len(lines) - 1, at, -1) if _IN_GROUP.match(lines[n])), None)


def _short(line):
    found = _IN_GROUP.match(line)
    text = "".join(c for c in (found.group(1) if found else line) if c.isprintable())
    return text[:MOST]
