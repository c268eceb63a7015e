"""Groups of groups: who is below whom, and whose variables win."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from orchestrator.inventory.grammar import ALL, PRIORITY, UNGROUPED, Book, Group, Variables
from orchestrator.inventory.source import Place


class Tree:
    """The groups of a book. Raises ConfigError when a group is its own descendant."""

    def __init__(self, book: Book) -> None:
        self._groups: dict[str, Group] = {n: g for n, g in book.groups.items() if n != ALL}
        self._groups.setdefault(UNGROUPED, Group(UNGROUPED, Place("")))
        self._hosts = tuple(book.hosts)
        self._order = {name: i for i, name in enumerate(self._groups)}
        for name in book.groups:
            self._refuse_cycle(book.groups, name)

    @staticmethod
    def _refuse_cycle(groups: Mapping[str, Group], start: str) -> None:
        way: list[tuple[str, tuple[str, ...]]] = [(start, (start,))]
        seen: set[str] = set()
        while way:
            name, path = way.pop()
            group = groups.get(name)
            for child, place in group.children.items() if group else ():
                if child == start:
                    raise place.error(f"groups in a circle: {' > '.join((*path, child))}")
                if child not in seen:
                    seen.add(child)
                    way.append((child, (*path, child)))

    @cached_property
    def _depths(self) -> dict[str, int]:
        """How far below `all` a group stands, by its longest way: Ansible's rule of who wins."""
        depths = dict.fromkeys(self._groups, 1)
        for name in self._downwards:
            for child in self._children(name):
                depths[child] = max(depths[child], depths[name] + 1)
        return depths

    @cached_property
    def _downwards(self) -> list[str]:
        """The groups, each before its children."""
        done: dict[str, None] = {}

        def visit(name: str) -> None:
            if name not in done:
                for child in self._children(name):
                    visit(child)
                done[name] = None

        for name in self._groups:
            visit(name)
        return list(reversed(done))

    def _children(self, name: str) -> list[str]:
        return [child for child in self._groups[name].children if child in self._groups]

    @cached_property
    def _parents(self) -> dict[str, list[str]]:
        parents: dict[str, list[str]] = {name: [] for name in self._groups}
        for name in self._groups:
            for child in self._children(name):
                parents[child].append(name)
        return parents

    @cached_property
    def _homes(self) -> dict[str, list[str]]:
        """The groups that list a host themselves."""
        homes: dict[str, list[str]] = {name: [] for name in self._hosts}
        for group in self._groups.values():
            for host in group.hosts:
                homes[host].append(group.name)
        return homes

    def groups_of(self, host: str) -> tuple[str, ...]:
        """Return the groups that hold a host, itself or through a child, in file order, without `all`."""
        found: set[str] = set()
        above = [g for g in self._homes[host] if g != UNGROUPED] or [UNGROUPED]
        while above:
            name = above.pop()
            if name not in found:
                found.add(name)
                above += self._parents[name]
        return tuple(sorted(found, key=self._order.__getitem__))

    def variables(self, host: str) -> Variables:
        """Return what a host's groups say: child over parent, then ansible_group_priority, then by name."""
        merged: Variables = {}
        for name in sorted(self.groups_of(host), key=self._strength):
            merged.update(self._groups[name].variables)
        return merged

    def _strength(self, name: str) -> tuple[int, int, str]:
        priority = self._groups[name].variables.get(PRIORITY)
        return self._depths[name], int(priority.text) if priority else 1, name

    def members(self) -> dict[str, tuple[str, ...]]:
        """Return each group's hosts, in file order."""
        found: dict[str, list[str]] = {name: [] for name in self._groups}
        for host in self._hosts:
            for name in self.groups_of(host):
                found[name].append(host)
        return {name: tuple(hosts) for name, hosts in found.items()}
