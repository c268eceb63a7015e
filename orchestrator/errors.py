"""The errors that orch raises, and the exit code of each.

    OrchError                 1   something failed; one line says what, where and what to do
    |-- UsageError            2   the command line asks for something that can't be
    |-- ConfigError          78   hosts.ini, a setting or a file it names is wrong (carries file:line)
    |-- Busy                 75   try later: no free GPU, another deploy, a live run
    |-- Refused               1   orch will not do it: somebody else's container, a live run
    `-- HostError             1   a host said no, or something went wrong on it
        |-- Unreachable      69   no connection: refused, timed out, no such name
        |-- NotPermitted     77   host key unknown or changed, login refused
        `-- LostConnection   69   it was there and went away before the answer was whole

`Interrupted` is Ctrl-C (130) where a verb wants to say something on the way out.
"""

from __future__ import annotations

import re

OK, FAILED, USAGE, UNREACHABLE, BUSY, NOT_PERMITTED, BAD_CONFIG, INTERRUPTED = 0, 1, 2, 69, 75, 77, 78, 130

_UNSEEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
"""What would break the one line or talk to the terminal, in a name that is quoted to a person."""


class OrchError(Exception):
    """One clear line: what happened, where (`where` is a host or file:line), and what to do (`hint`)."""

    exit_code = FAILED

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, details: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.where, self.hint, self.details = message, where, hint, details

    def __str__(self) -> str:
        line = f"{self.where}: {self.message}" if self.where else self.message
        if self.hint:
            line = f"{line.rstrip('.')}. {self.hint}" if line[-1:] not in "?!" else f"{line} {self.hint}"
        return _UNSEEN.sub(lambda found: repr(found.group())[1:-1], line)


class UsageError(OrchError):
    """The command line asks for something that can't be."""

    exit_code = USAGE


class ConfigError(OrchError):
    """A setting, or a file that a setting names, is wrong."""

    exit_code = BAD_CONFIG


class Busy(OrchError):
    """What is needed is in use by someone; later it may work."""

    exit_code = BUSY


class Refused(OrchError):
    """orch could do it and will not: it would harm a run, a container or a file."""


class HostError(OrchError):
    """A host said no, or something went wrong on it. `where` is the host's name."""


class Unreachable(HostError):
    """No connection to the host."""

    exit_code = UNREACHABLE


class NotPermitted(HostError):
    """The host's key is not trusted, or the host does not let us in."""

    exit_code = NOT_PERMITTED


class LostConnection(HostError):
    """The connection ended before the answer was whole. Nothing is known of the work there."""

    exit_code = UNREACHABLE


class Interrupted(OrchError):
    """Ctrl-C, where there is something to say about it."""

    exit_code = INTERRUPTED


def reason(error: OSError) -> str:
    """Return why the system said no, in the words that stand behind a colon: `no such file or directory`."""
    return (error.strerror or str(error) or type(error).__name__).lower()
