"""Variables of a team's that are called like orch's keys: an Ansible inventory may have `env = production`.

Where a file has orch_KEY, it is orch's KEY, and KEY is the team's own in all files. An `env` that holds no
NAME=VALUE is never orch's.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.inventory.grammar import Book, Variables

PREFIX = "orch_"


def holders(book: Book) -> list[Variables]:
    """Return the variables of all groups and hosts."""
    return [*(g.variables for g in book.groups.values()), *(e.variables for e in book.hosts.values())]


def claim(book: Book, keys: Iterable[str]) -> list[str]:
    """Give orch its keys under their plain names, and take the team's own out; return what to tell of it."""
    claimed = {key for key in keys if any(PREFIX + key in variables for variables in holders(book))}
    told = []
    for variables in holders(book):
        for key in claimed:
            variables.pop(key, None)
            if PREFIX + key in variables:
                variables[key] = variables.pop(PREFIX + key)
        env = variables.get("env")
        if env and env.text and "=" not in env.text:
            del variables["env"]
            told.append(
                f"{env.place}: env = {env.text} is taken for your own variable: orch's is NAME=VALUE by "
                "comma. A line orch_env = (empty, or with orch's) says so for good"
            )
    return told[:1]
