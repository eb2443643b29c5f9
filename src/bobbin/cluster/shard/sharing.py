"""Who touches which key, so that a transaction is compared with those it may be in the way of, and with nobody else.

Two that touch a key by operations of one declared commutative kind are not in each other's way there, however many they
are. So whoever does something else at a key stands apart from those who only add: to find whom to compare with costs as
many as there are to compare with.
"""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from bobbin.cluster.transactions.names import TxId


class Touching(Protocol):
    """A transaction, as far as it is looked at here."""

    @property
    def tx(self) -> TxId: ...

    @property
    def kinds(self) -> dict[bytes, int]:
        """By affected key: the tag of the one commutative kind of operation on it; 0 for anything else."""
        ...


T = TypeVar("T", bound=Touching)


class Sharing(Generic[T]):
    """Transactions by the keys that they touch."""

    def __init__(self) -> None:
        self._unsorted: dict[TxId, T] = {}
        """Taken in since somebody was last compared with them; often nobody is, and then they go from here."""
        self._others: dict[bytes, dict[TxId, T]] = {}
        """Those that do more at a key than to add to it."""
        self._adding: dict[bytes, dict[int, dict[TxId, T]]] = {}
        """Those that only add, by the tag of how. No dict in here, nor above, is empty."""

    def add(self, one: T) -> None:
        """Take in a transaction."""
        self._unsorted[one.tx] = one

    def add_all(self, ones: Mapping[TxId, T]) -> None:
        """Take in several, by their ids."""
        self._unsorted.update(ones)

    def remove(self, one: T) -> None:
        """Let a transaction go that was taken in."""
        if self._unsorted.pop(one.tx, None) is not None:
            return
        for key, tag in one.kinds.items():
            at = self._adding[key] if tag else None
            there = self._others[key] if at is None else at[tag]
            del there[one.tx]
            if there:
                continue
            if at is None:
                del self._others[key]
            else:
                del at[tag]
                if not at:
                    del self._adding[key]

    def in_the_way_of(self, one: Touching) -> list[T]:
        """Those that touch a key of this one, and not all in the same commutative way; each once."""
        if self._unsorted:
            self._sort()
        others, adding = self._others, self._adding
        found: dict[TxId, T] = {}
        for key, tag in one.kinds.items():
            if key in others:
                found |= others[key]
            if key in adding:
                for kind, there in adding[key].items():
                    if kind != tag:
                        found |= there
        return list(found.values())

    def _sort(self) -> None:
        for tx, one in self._unsorted.items():
            for key, tag in one.kinds.items():
                if not tag:
                    self._others.setdefault(key, {})[tx] = one
                else:
                    self._adding.setdefault(key, {}).setdefault(tag, {})[tx] = one
        self._unsorted.clear()
