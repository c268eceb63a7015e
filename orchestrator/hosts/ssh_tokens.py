"""The caller as ssh knows him, and what ssh's % tokens, ~ and ${NAME} stand for (ssh_config(5), TOKENS)."""

from __future__ import annotations

import getpass
import os
import pwd
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass


def home(environ: Mapping[str, str] | None = None) -> str:
    """Return the caller's home: $HOME, or where cron gives none, the account's."""
    return (os.environ if environ is None else environ).get("HOME") or _account_home()


def _account_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def home_moved() -> bool:
    """Whether $HOME is not the account's home, where ssh itself would look for `~`."""
    return os.path.realpath(home()) != os.path.realpath(_account_home())


def local_user() -> str:
    """Return the local user's name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an uid without an account
        return str(os.getuid())


def _from_environment(name: re.Match[str]) -> str:
    return os.environ.get(name[1], name[0]).replace("%", "%%")


@dataclass(frozen=True)
class Tokens:
    """The values of the tokens for one host."""

    name: str
    address: str
    port: int
    user: str
    alias: str | None

    def expand(self, text: str) -> str:
        """Replace the tokens; an unknown one stays as it is."""
        if "%" not in text:
            return text
        short = socket.gethostname().partition(".")[0]
        known = {
            "%": "%",
            "h": self.address,
            "n": self.name.rpartition("@")[2],
            "p": str(self.port),
            "r": self.user,
            "u": local_user(),
            "d": home(),
            "i": str(os.getuid()),
            "l": socket.gethostname(),
            "L": short,
            "k": self.alias or self.address,
        }
        return re.sub(r"%(.)", lambda m: known.get(m[1], m[0]), text)

    def path(self, text: str) -> str:
        """Expand `${NAME}`, the tokens, `~/`, and the account's ~/.ssh where $HOME is another."""
        named = re.sub(r"\$\{(\w+)\}", _from_environment, text.strip('"'))
        expanded = self.expand(named)
        own, account = home(), _account_home()
        if expanded == "~" or expanded.startswith("~/"):
            return own + expanded[1:]
        prefix = f"{account}/.ssh/"
        return f"{own}/.ssh/{expanded[len(prefix) :]}" if expanded.startswith(prefix) else expanded
