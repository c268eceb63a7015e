"""A remote command is a value. All quoting is here; a `Secret` is masked wherever people read it.

A `Command` is argv; a `Script` is POSIX sh text. Neither runs anything: a `Machine` (base.py) does.
"""

from __future__ import annotations

import base64
import re
import secrets
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from orchestrator.errors import HostError
from orchestrator.hosts.masking import MASK, hide

_LONGEST_LINE = 100_000  # bytes; Linux takes 128 KiB in one argument (MAX_ARG_STRLEN)

# What sh, bash, zsh, fish, csh and tcsh all leave alone inside single quotes: no quote, backslash
# (fish), `!` (csh history) or line end (csh).
_SAFE_IN_ANY_SHELL = re.compile(r"[^'\\!\r\n\0]*\Z")


@dataclass(frozen=True)
class Secret:
    """A value that shows as *** everywhere but on the host that needs it."""

    value: str

    def __post_init__(self) -> None:
        hide(self.value)

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK})"


@dataclass(frozen=True)
class Raw:
    """Shell text that is not quoted: a redirection, or `"$HOME"/x`. Never made from anybody's input."""

    text: str


Word = str | Secret | Raw


def quote(word: Word) -> str:
    """Return `word` quoted for a POSIX shell, with a secret revealed."""
    if isinstance(word, Raw):
        return word.text
    return shlex.quote(word.value if isinstance(word, Secret) else word)


def show(word: Word) -> str:
    """Return `word` quoted for people: a secret stays masked."""
    return MASK if isinstance(word, Secret) else quote(word)


@dataclass(frozen=True)
class Command:
    """Words for a POSIX shell."""

    words: tuple[Word, ...]

    @classmethod
    def of(cls, *words: Word) -> Command:
        """Make a command of its words: `Command.of("docker", "ps", "-q")`."""
        return cls(words)

    def shell(self) -> str:
        """Return the line for a POSIX shell, secrets revealed."""
        return " ".join(quote(w) for w in self.words)

    def __str__(self) -> str:
        return " ".join(show(w) for w in self.words)


@dataclass(frozen=True)
class Script:
    """POSIX sh text with a name for messages. Runs as one function, its stdin /dev/null."""

    name: str
    text: str
    asks: bool = False
    """It only asks: the host ends it where nobody waits for its answer any more."""


@dataclass(frozen=True)
class Frame:
    """What is sent to `sh -s` for a script, and the marks between which both streams of its answer stand."""

    begin: bytes
    end: bytes
    stdin: bytes


# Beside the script something waits for the end of stdin. The shell leads a process group (sshd gives each
# command a session), so 0 is the script with all that it started and left in the group. The watch is gone
# before the answer is whole, after which stdin may end.
_WATCHED = (
    "exec 3<&0; "
    "( read -r orch_gone <&3; trap '' TERM; kill -TERM 0; sleep 2; kill -KILL 0 ) >/dev/null 2>&1 & "
    '( orch_main ) </dev/null 3<&-; set -- "$?"; { kill "$!"; wait "$!"; } 2>/dev/null; '
)
_ALONE = '( orch_main ) </dev/null; set -- "$?"; '


def framed(script: Script, *, watched: bool = False) -> Frame:
    """Wrap a script in a function that is called on the last line, between two random marks.

    A shell that reads its script from stdin may be cut anywhere: with the call on the last line, in
    braces, a cut script runs nothing. The end mark carries the status: `<mark> <status>`. The marks stand
    on both streams, so that the noise of login files is cut off, and the answer is whole although a
    process that the script left behind keeps the streams open.

    `watched`: the script is ended when its stdin ends, which has to stay open until its answer is whole.
    """
    mark = "orch-" + secrets.token_hex(12)
    text = (
        f"orch_main() {{\n:\n{script.text.rstrip()}\n}}\n"
        f"{{ LC_ALL=C; export LC_ALL; echo '{mark}-begin'; echo '{mark}-begin' >&2; "
        f"{_WATCHED if watched else _ALONE}"
        f"printf '\\n%s %s\\n' '{mark}-end' \"$1\" >&2; printf '\\n%s %s\\n' '{mark}-end' \"$1\"; exit; }}\n"
    )
    return Frame(
        f"{mark}-begin\n".encode(), f"\n{mark}-end ".encode(), text.encode("utf-8", "surrogateescape")
    )


def on_path(folders: Iterable[str], script: Script) -> Script:
    """Put folders of the host in front of PATH for a script."""
    front = ":".join(on_host(f).text for f in folders)
    return replace(script, text=f"PATH={front}:$PATH; export PATH\n{script.text}") if front else script


def lasting(command: Command | Script, *, mark: str = "") -> Script:
    """Return a script that runs a command in a shell that stays, and so turns an end by signal N into 128+N.

    It prints `mark` first: what stands before it on stdout is noise of login files.
    An SSH client may not be told of the signal at all; Ctrl-C and Ctrl-\\ of a terminal are the command's.
    """
    begin = f"trap : INT QUIT; {f'printf %s {quote(mark)}; ' if mark else ''}"
    if isinstance(command, Script):
        return Script(command.name, f"{begin}(\n{command.text}\n); exit")
    return Script("stream", f"{begin}( {command.shell()} ); exit")


def line_of(command: Command | Script, folders: Iterable[str], *, host: str, mark: str) -> str:
    """Return the line that starts a command on a host, for a login shell of any kind. Raises HostError."""
    line = for_any_shell(on_path(folders, lasting(command, mark=mark)))
    if len(line) > _LONGEST_LINE:
        raise HostError(
            f"a command of {len(line)} bytes is too long to be started: {_LONGEST_LINE} at most",
            where=host,
            hint="Send what is long as a file",
        )
    return line


def on_host(path: str) -> Raw:
    """Return a path as a word for a shell on the host: `~/` becomes the account's home there."""
    if path == "~" or path.startswith("~/"):
        return Raw('"$HOME"' + (quote(path[1:]) if path[1:] else ""))
    return Raw(quote(path))


def for_any_shell(command: Command | Script) -> str:
    """Return a line that a login shell of any kind hands to /bin/sh unchanged.

    Used where stdin is needed for data, so that the script can't go there.
    """
    text = command.text if isinstance(command, Script) else command.shell()
    if _SAFE_IN_ANY_SHELL.match(text):
        return f"/bin/sh -c '{text}'"
    packed = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
    return f"/bin/sh -c 'eval \"$(printf %s {packed} | base64 -d)\"'"
