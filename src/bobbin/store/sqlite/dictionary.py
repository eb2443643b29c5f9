"""Values that repeat, stored once under a number: texts, and places (group and app).

``numbers`` looks values up and adds those that are new; it runs inside a write transaction, so two processes never
give one value two numbers. What it found is *remembered* only after the commit: the numbers of a transaction that was
rolled back are given again, to other values. Compacting drops values that nothing uses and raises the generation of
the store; a cache of an older generation is forgotten before it is used (``SqliteStore`` compares at the start of
every write).

The cache is bounded: when the recent half is full it becomes the old half, and the old one is dropped. What is asked
for again moves to the recent half.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

import apsw

Place = tuple[str, str]
"""Group and app."""

Value = TypeVar("Value", str, Place)

_REMEMBERED_LENGTH_MAX: Final = 64
"""Longer texts are not remembered: they hardly repeat, and the cache must stay small."""


class _Dictionary(ABC, Generic[Value]):
    """One table of values, and what of it is remembered."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._recent: dict[Value, int] = {}
        self._old: dict[Value, int] = {}

    def numbers(self, connection: apsw.Connection, values: Iterable[Value]) -> dict[Value, int]:
        """The number of each value. Adds what is missing, so this belongs in a write transaction."""
        known: dict[Value, int] = {}
        unknown: list[Value] = []
        for value in values:
            number = self._recent.get(value) or self._old.get(value)
            if number is None:
                unknown.append(value)
            else:
                known[value] = number
        if unknown:
            known.update(self._find(connection, unknown))
            missing = [value for value in unknown if value not in known]
            if missing:
                known.update(self._add(connection, missing))
        return known

    def remember(self, numbers: Mapping[Value, int]) -> None:
        """Keep numbers that are committed."""
        for value, number in numbers.items():
            if self._length(value) <= _REMEMBERED_LENGTH_MAX:
                self._recent[value] = number
                if len(self._recent) >= self._entries_max:
                    self._old, self._recent = self._recent, {}

    def forget(self) -> None:
        """Drop everything that is remembered."""
        self._recent, self._old = {}, {}

    @abstractmethod
    def _length(self, value: Value) -> int: ...

    @abstractmethod
    def _find(self, connection: apsw.Connection, values: list[Value]) -> Mapping[Value, int]: ...

    @abstractmethod
    def _add(self, connection: apsw.Connection, values: list[Value]) -> Mapping[Value, int]: ...


class Texts(_Dictionary[str]):
    """The table ``text``."""

    def _length(self, value: str) -> int:
        return len(value)

    def _find(self, connection: apsw.Connection, values: list[str]) -> Mapping[str, int]:
        wanted = apsw.carray(tuple(values))
        return dict(connection.execute("SELECT value, id FROM text WHERE value IN carray(?)", (wanted,)))

    def _add(self, connection: apsw.Connection, values: list[str]) -> Mapping[str, int]:
        last = connection.execute("SELECT coalesce(max(id), 0) FROM text").get
        added = dict(zip(values, range(last + 1, last + 1 + len(values)), strict=True))
        connection.executemany("INSERT INTO text(value, id) VALUES (?, ?)", added.items())
        return added


class Places(_Dictionary[Place]):
    """The table ``place``."""

    def _length(self, value: Place) -> int:
        return len(value[0]) + len(value[1])

    def _find(self, connection: apsw.Connection, values: list[Place]) -> Mapping[Place, int]:
        found: dict[Place, int] = {}
        for place in values:
            number = connection.execute("SELECT id FROM place WHERE group_path = ? AND app = ?", place).get
            if number is not None:
                found[place] = number
        return found

    def _add(self, connection: apsw.Connection, values: list[Place]) -> Mapping[Place, int]:
        last = connection.execute("SELECT coalesce(max(id), 0) FROM place").get
        added = dict(zip(values, range(last + 1, last + 1 + len(values)), strict=True))
        rows = ((group, app, number) for (group, app), number in added.items())
        connection.executemany("INSERT INTO place(group_path, app, id) VALUES (?, ?, ?)", rows)
        return added
