"""What a tangle adds up to below each depth: the standing index that the modern mode reads.

Messages come in by depth, so two sides that have synchronised before differ near the top. For each level of depth there
is a hash of everything up to and including it, chained from the root: if two sides agree on the hash below a depth,
they have the same messages there, with and without data alike. Adding at the top costs one hash; a change further down
costs one for each level above it, once, when somebody asks.

The index stands beside the ``Tangle`` of the same id and is kept up to date by whoever keeps that. A question costs the
logarithm of the tangle, or what it returns.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from blake3 import blake3
from msgspec import Struct

from bobbin.tangles.exchange import Credential
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern_frames import HASH_BYTES, Mark, id_bytes
from bobbin.tangles.ranges import EMPTY, Range
from bobbin.tangles.tangle import Tangle

_TAG: Final = b"bobbin-tangle-depth/v1"
_MARK_STEP: Final = 4
"""Each mark stands so many times as far below the top as the one before."""
_ERASED_BIT: Final = 0x80


class Item(Struct, frozen=True, gc=False):
    """One message as the index knows it."""

    id: MessageId
    digest: bytes
    """32 bytes, of the id and of whether the data is there."""


def digest_of(id: MessageId, *, has_data: bool) -> bytes:
    """The digest that stands for a message with its data, or without. The id is a hash, so a turned bit is nobody's."""
    raw = id_bytes(id)
    return raw if has_data else bytes([raw[0] ^ _ERASED_BIT]) + raw[1:]


class _Entry(Struct, gc=False):
    depth: int
    has_data: bool
    digest: bytes
    credential: Credential


class DepthIndex:
    """The messages of one tangle by depth, and what they add up to."""

    def __init__(self) -> None:
        self._entries: dict[MessageId, _Entry] = {}
        self._levels: dict[int, dict[MessageId, None]] = {}
        self._depths: list[int] = []
        """The depths at which there are messages, ascending."""
        self._chain: list[bytes] = []
        """For each of the first depths: the hash of everything up to and including it. As long as it is valid."""
        self._counts: list[int] = []
        """The same for how many there are."""
        self._credentials: dict[Credential, dict[int, int]] = {}
        """For each credential that messages have: how many, by depth."""
        self._least: dict[Credential, int] = {}
        """The least of these depths."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def __iter__(self) -> Iterator[MessageId]:
        return iter(self._entries)

    def has_data(self, id: MessageId) -> bool | None:
        """Whether a message is here with its data; None where it is not here."""
        entry = self._entries.get(id)
        return None if entry is None else entry.has_data

    # ---- changing ------------------------------------------------------------------------------------------------

    def put(self, id: MessageId, depth: int, *, has_data: bool, credential: Credential) -> None:
        """Take a message, or what it has become: its data came, or went."""
        self.discard(id)
        self._entries[id] = _Entry(depth, has_data, digest_of(id, has_data=has_data), credential)
        if depth not in self._levels:
            self._levels[depth] = {}
            insort(self._depths, depth)
        self._levels[depth][id] = None
        by_depth = self._credentials.setdefault(credential, {})
        by_depth[depth] = by_depth.get(depth, 0) + 1
        self._least[credential] = min(depth, self._least.get(credential, depth))
        self._forget(depth)

    def discard(self, id: MessageId) -> bool:
        """Forget a message. Says whether it was here."""
        entry = self._entries.pop(id, None)
        if entry is None:
            return False
        self._forget(entry.depth)
        level = self._levels[entry.depth]
        del level[id]
        if not level:
            del self._levels[entry.depth]
            del self._depths[bisect_left(self._depths, entry.depth)]
        by_depth = self._credentials[entry.credential]
        by_depth[entry.depth] -= 1
        if not by_depth[entry.depth]:
            del by_depth[entry.depth]
        if not by_depth:
            del self._credentials[entry.credential], self._least[entry.credential]
        elif self._least[entry.credential] not in by_depth:
            self._least[entry.credential] = min(by_depth)
        return True

    def _forget(self, depth: int) -> None:
        """What the levels from this depth on add up to is no longer known."""
        first = bisect_left(self._depths, depth)
        del self._chain[first:], self._counts[first:]

    # ---- asking --------------------------------------------------------------------------------------------------

    @property
    def top(self) -> int:
        """The greatest depth; -1 if there is nothing."""
        return self._depths[-1] if self._depths else -1

    @property
    def have(self) -> Range:
        """The depths at which something may be had. What is held without its data counts: it is in the root, too.

        A pzp peer goes by what has data. Then two sides that both wish for everything would never come to the same root
        where one of them holds something without data above all that has some.
        """
        return Range(0, self.top) if self._depths else EMPTY

    def below(self, depth: int) -> bytes:
        """What everything below a depth adds up to."""
        return self._hash_of(bisect_left(self._depths, depth))[:HASH_BYTES]

    @property
    def root(self) -> bytes:
        """What everything adds up to."""
        return self._hash_of(len(self._depths))[:HASH_BYTES]

    def count(self, low: int, high: int) -> int:
        """How many messages stand from one depth to another, both included."""
        self._hash_of(len(self._depths))
        first, end = bisect_left(self._depths, low), bisect_right(self._depths, high)
        return self._count_of(end) - self._count_of(first) if first < end else 0

    def items(self, low: int, high: int) -> list[Item]:
        """The messages from one depth to another, both included, by depth."""
        first, end = bisect_left(self._depths, low), bisect_right(self._depths, high)
        return [Item(id, self._entries[id].digest) for depth in self._depths[first:end] for id in self._levels[depth]]

    def marks(self) -> tuple[Mark, ...]:
        """What stands below the top, and below some depths ever further down."""
        if not self._depths:
            return ()
        end = self.top + 1
        depths = [end]
        step = 1
        while end - step > 0:
            depths.append(end - step)
            step *= _MARK_STEP
        return tuple(Mark(depth, self.count(depth, self.top), self.below(depth)) for depth in depths)

    def agreed_floor(self, marks: Sequence[Mark]) -> int:
        """The greatest depth of the peer's marks below which both have the same; 0 if there is none."""
        return max((mark.depth for mark in marks if mark.depth > 0 and self.below(mark.depth) == mark.below), default=0)

    def credentials_below(self, depth: int) -> list[Credential]:
        """The credentials of the messages below a depth, each once."""
        return [credential for credential in self._credentials if self._least[credential] < depth]

    def _hash_of(self, levels: int) -> bytes:
        while len(self._chain) < levels:
            at = len(self._chain)
            depth = self._depths[at]
            digests = sorted([self._entries[id].digest for id in self._levels[depth]])
            before = self._chain[-1] if at else _TAG
            self._chain.append(blake3(b"".join([before, depth.to_bytes(8, "big"), *digests])).digest())
            self._counts.append(self._count_of(at) + len(digests))
        return self._chain[levels - 1] if levels else bytes(HASH_BYTES)

    def _count_of(self, levels: int) -> int:
        return self._counts[levels - 1] if levels else 0

    def check(self) -> None:
        """Assert what always holds. Slow: for tests."""
        assert self._depths == sorted(self._levels)
        assert len(self._chain) == len(self._counts) <= len(self._depths)
        assert sum(map(len, self._levels.values())) == len(self._entries)
        anew = DepthIndex()
        for id, entry in self._entries.items():
            anew.put(id, entry.depth, has_data=entry.has_data, credential=entry.credential)
        assert anew.root == self.root
        assert anew._credentials == self._credentials
        assert self._least == {credential: min(by_depth) for credential, by_depth in self._credentials.items()}


Credentials: TypeAlias = Callable[[Sequence[MessageId]], Sequence[Credential]]
"""Gives the credentials of held messages."""


class StandingIndexes:
    """The indexes of all tangles that somebody has asked for, brought up to date when they are asked for again."""

    def __init__(self) -> None:
        self._kept: dict[MessageId, tuple[Tangle, int, DepthIndex]] = {}
        """For each tangle: its structure, how often that had changed, and the index."""

    def of(self, structure: Tangle, credentials: Credentials) -> DepthIndex:
        """The index of a tangle. Only what has changed since the last time is looked at, where that can be told."""
        if structure.root is None:
            # Nothing of it can be checked or passed on, so nothing of it counts as held: it comes with its root.
            return DepthIndex()
        held, changes, index = self._kept.get(structure.id, (structure, 0, DepthIndex()))
        if held is structure and changes == structure.changes:
            return index
        changed = structure.changed_since(changes) if held is structure else None
        fresh: list[MessageId] = []
        for id in dict.fromkeys((*index, *structure) if changed is None else changed):
            if id not in structure:
                index.discard(id)
            elif index.has_data(id) is not structure.has_data(id):
                fresh.append(id)
        for id, credential in zip(fresh, credentials(fresh), strict=True):
            depth = structure.depth(id)
            assert depth is not None, "it is held"
            index.put(id, depth, has_data=structure.has_data(id), credential=credential)
        self._kept[structure.id] = (structure, structure.changes, index)
        return index
