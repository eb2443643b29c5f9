"""T7: whether the committed transactions of a world stand in one order that agrees with the clock on the wall.

The chains say who wrote which version of which key and which versions each transaction had read. From that follows
who must stand before whom: whoever wrote a version before whoever read it or wrote the next one, and whoever read a
version before whoever wrote the next one. Operations that are declared commutative and follow one another on a key may
stand in any order among themselves. Whoever had ended before another one was called stands before it. A circle in
this is an order that cannot be.

A second checker, ``tests/oracle/serializability.py``, looks at what clients saw of lists and knows nothing of chains.
"""

from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise
from typing import Final, TypeAlias

from msgspec import Struct

Name: TypeAlias = Hashable
"""Of a transaction."""
Key: TypeAlias = Hashable
"""Of an item, with its shard."""


class Write(Struct, frozen=True):
    """One transaction's change of one key."""

    writer: bytes
    version: int
    kind: type | None
    """Of a commutative operation; None for one that is not."""


class Lifetime(Struct, frozen=True):
    """When a client called, and when it knew."""

    called_ns: int
    returned_ns: int | None


class Order:
    """Versions and reads of all keys."""

    def __init__(self) -> None:
        self._writes: Final[dict[Key, list[Write]]] = {}
        self._reads: Final[dict[Key, list[tuple[bytes, int]]]] = {}

    def wrote(self, key: Key, write: Write) -> None:
        """In the order of the chain."""
        self._writes.setdefault(key, []).append(write)

    def read(self, key: Key, reader: bytes, version: int) -> None:
        """One that took place has read this version; 0 is that of a key that was never there."""
        self._reads.setdefault(key, []).append((reader, version))

    def find_circle(self, lifetimes: Mapping[bytes, Lifetime]) -> list[bytes]:
        """Transactions that must each stand before the next, and the last before the first; none if all is well."""
        edges: dict[Name, set[Name]] = {}
        for key in {**self._writes, **self._reads}:
            self._add_key(edges, key)
        _add_time(edges, lifetimes)
        return [name for name in _circle(edges) if isinstance(name, bytes)]

    def _add_key(self, edges: dict[Name, set[Name]], key: Key) -> None:
        writes = self._writes.get(key, [])
        runs: list[list[Write]] = []
        for write in writes:
            if runs and write.kind is not None and runs[-1][-1].kind is write.kind:
                runs[-1].append(write)
            else:
                runs.append([write])
        for first, second in pairwise(runs):
            for before in first:
                edges.setdefault(before.writer, set()).update(after.writer for after in second)
        for reader, version in self._reads.get(key, []):
            for write in writes:
                if write.writer == reader:
                    continue
                if write.version <= version:
                    edges.setdefault(write.writer, set()).add(reader)
                else:
                    edges.setdefault(reader, set()).add(write.writer)


def _add_time(edges: dict[Name, set[Name]], lifetimes: Mapping[bytes, Lifetime]) -> None:
    """By a chain of moments: each transaction leads to the moment of its end, and from the one before its call."""
    events: list[tuple[int, bool, bytes]] = []
    for name, lifetime in lifetimes.items():
        events.append((lifetime.called_ns, False, name))
        if lifetime.returned_ns is not None:
            events.append((lifetime.returned_ns, True, name))
    moment = 0
    for _, is_return, name in sorted(events):
        if is_return:
            edges.setdefault(name, set()).add(moment + 1)
            edges.setdefault(moment, set()).add(moment + 1)
            moment += 1
        else:
            edges.setdefault(moment, set()).add(name)


def _circle(edges: Mapping[Name, Iterable[Name]]) -> list[Name]:
    """Some circle, found by going on from where there is a way; empty if there is none."""
    is_done: dict[Name, bool] = {}
    for root in edges:
        if root in is_done:
            continue
        is_done[root] = False
        path = [root]
        work = [iter(edges[root])]
        while work:
            for target in work[-1]:
                if target not in is_done:
                    is_done[target] = False
                    path.append(target)
                    work.append(iter(edges.get(target, ())))
                    break
                if not is_done[target]:
                    return path[path.index(target) :]
            else:
                work.pop()
                is_done[path.pop()] = True
    return []
