"""The register that does not choose: writes that did not know of each other are all kept.

Each value has the version vector that its writer had seen, itself included. A value is gone when another one's vector
covers its own: its writer had seen it. What nobody has seen together stays side by side until somebody writes again.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeAlias, TypeVar

from bobbin.errors import UsageError
from bobbin.reactive.messages import U64_MAX, PeerId

V = TypeVar("V", bound=Hashable)
Version: TypeAlias = frozenset[tuple[PeerId, int]]
"""A version vector: how many writes of each peer are covered, each peer once, no zeros."""
Entry: TypeAlias = tuple[Version, V]


class Mv(Generic[V]):
    """A register of all values that are not superseded."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[Entry[V]] = ()) -> None:
        self._entries = _undominated(frozenset(entries))

    @property
    def entries(self) -> frozenset[Entry[V]]:
        """The whole state."""
        return self._entries

    @property
    def values(self) -> frozenset[V]:
        """What there is to see: nothing at first, one value after a write, several after concurrent ones."""
        return frozenset(value for _, value in self._entries)

    def seen(self) -> dict[PeerId, int]:
        """How many writes of each peer are covered by what is here."""
        seen: dict[PeerId, int] = {}
        for version, _ in self._entries:
            for peer, count in version:
                seen[peer] = max(seen.get(peer, 0), count)
        return seen

    def has_seen(self, entry: Entry[V]) -> bool:
        """Whether a value is here, or is gone because its writer's successors are."""
        return entry in self._entries or any(
            version != entry[0] and _covers(dict(version), entry[0]) for version, _ in self._entries
        )

    def set(self, value: V, peer: PeerId) -> bool:
        """Write in place of everything that is here. Returns whether the values changed."""
        seen = self.seen()
        seen[peer] = seen.get(peer, 0) + 1
        if seen[peer] > U64_MAX:
            raise UsageError(f"peer {peer} has written as often as can be counted")
        before = self.values
        self._entries = frozenset({(frozenset(seen.items()), value)})
        return self.values != before

    def merge(self, other: "Mv[V]") -> bool:
        """Take in the state of a replica. Returns whether the values changed."""
        if other.entries <= self._entries:
            return False
        before = self.values
        self._entries = _undominated(self._entries | other.entries)
        return self.values != before

    def fork(self) -> "Mv[V]":
        """A replica in this state."""
        return Mv(self._entries)


def _undominated(entries: frozenset[Entry[V]]) -> frozenset[Entry[V]]:
    """Those whose version no other one covers. Equal versions, which only a faulty peer makes, cover neither."""
    # A version that covers another one has counted further, so only those that have are looked at.
    versions = sorted(
        ((sum(count for _, count in version), version, dict(version)) for version in {one for one, _ in entries}),
        key=lambda one: one[0],
    )
    gone = {
        version
        for place, (total, version, _) in enumerate(versions)
        if any(further > total and _covers(seen, version) for further, _, seen in versions[place + 1 :])
    }
    return frozenset(entry for entry in entries if entry[0] not in gone)


def _covers(seen: dict[PeerId, int], version: Version) -> bool:
    return all(seen.get(peer, 0) >= count for peer, count in version)
