"""Sets that many decisions hold in almost the same form: what is equal is held once.

What a decision says of records, it says of most of them for good, and the decisions of a node for its many links say
much the same. So the bulk is a base that never changes, and that all whose bulk is equal share; beside it lies what has
changed since. When that has become more than a few, there is a new base.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final
from weakref import WeakValueDictionary

_REST_MIN: Final = 64
_REST_FRACTION: Final = 64
"""A base is made anew when so many members, or this part of it, have changed."""

_SETS: Final[WeakValueDictionary[int, frozenset[str]]] = WeakValueDictionary()


class RestingSet(AbstractSet[str]):
    """A set of texts."""

    __slots__ = ("_added", "_base", "_removed")

    def __init__(self, members: Iterable[str] = ()) -> None:
        self._base = _shared(frozenset(members))
        self._added: set[str] = set()
        """None of the base."""
        self._removed: set[str] = set()
        """Of the base."""

    def __contains__(self, member: object) -> bool:
        return member in self._added or (member in self._base and member not in self._removed)

    def __iter__(self) -> Iterator[str]:
        if self._removed:
            yield from self._base - self._removed
        else:
            yield from self._base
        yield from self._added

    def __len__(self) -> int:
        return len(self._base) - len(self._removed) + len(self._added)

    @classmethod
    def _from_iterable(cls, members: Iterable[str]) -> frozenset[str]:  # type: ignore[override]
        return frozenset(members)

    def frozen(self) -> frozenset[str]:
        """What is in the set now."""
        if not self._added and not self._removed:
            return self._base
        return (self._base - self._removed) | self._added

    def common(self, members: AbstractSet[str]) -> AbstractSet[str]:
        """Those of some texts that are in the set."""
        return ((members & self._base) - self._removed) | (members & self._added)

    def change(self, added: AbstractSet[str], removed: AbstractSet[str]) -> None:
        """Take members in and, of others, out."""
        self._removed.update(self._base & removed)
        self._added.difference_update(removed)
        self._removed.difference_update(added)
        self._added.update(added - self._base)
        if len(self._added) + len(self._removed) > max(_REST_MIN, len(self._base) // _REST_FRACTION):
            self._base = _shared(self.frozen())
            self._added, self._removed = set(), set()


def _shared(members: frozenset[str]) -> frozenset[str]:
    known = _SETS.setdefault(hash(members), members)
    return known if known == members else members
