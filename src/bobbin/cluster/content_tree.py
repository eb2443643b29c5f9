"""One hash over a changing set of named contents, at the cost of what changed.

A name belongs to one of 65,536 buckets by its checksum. A bucket's hash covers the hashes of its contents, ascending;
where there is one only, it is that one. The buckets are the leaves of a tree of fixed form in which an empty bucket or
branch is 32 zero bytes. So the hash is a function of the set alone: it does not show in which order things came, nor
what was there and has gone.

Two different sets with one hash would need a collision of SHA-256, or a text that hashes to zeros: going down from
equal tops, either all children are equal, or two different texts have the same hash. The texts of contents, buckets and
branches begin with different bytes, so none of them can stand for another. A content must tell its own name, for only
contents are hashed. The checksum spreads the names and nothing rests on it: names piled into one bucket make it slower,
never wrong.
"""

from bisect import insort
from collections.abc import Iterable
from hashlib import sha256
from typing import Final
from zlib import crc32

_CONTENT: Final = b"\x00"
_BUCKET: Final = b"\x01"
_BRANCH: Final = b"\x02"
_BRANCH_BITS: Final = (5, 5, 6)
"""Level by level, from the buckets up: how many bits of a place choose the child of a branch."""
_PLACE_MASK: Final = (1 << sum(_BRANCH_BITS)) - 1
EMPTY: Final = bytes(32)
"""What stands for a branch, or a whole tree, without contents."""


class ContentTree:
    """Names, each with the hash of its content."""

    def __init__(self) -> None:
        self.top = EMPTY
        """The hash over everything."""
        self._hashes: dict[bytes, bytes] = {}
        """Of contents, by name."""
        self._buckets: dict[int, list[bytes]] = {}
        """The same hashes by place, ascending; a bucket in here is never empty."""
        self._levels: tuple[dict[int, bytearray], ...] = tuple({} for _ in _BRANCH_BITS)
        """Level by level, the branches that are not empty: the hashes of all children, side by side."""

    def __contains__(self, name: bytes) -> bool:
        return name in self._hashes

    def __len__(self) -> int:
        return len(self._hashes)

    def update(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set the contents of some names; None takes a name away."""
        hashes, buckets = self._hashes, self._buckets
        places = set()
        for name, content in changes:
            place = crc32(name) & _PLACE_MASK
            places.add(place)
            bucket = buckets.setdefault(place, [])
            before = hashes.pop(name, None)
            if before is not None:
                bucket.remove(before)
            if content is not None:
                after = hashes[name] = sha256(_CONTENT + content).digest()
                insort(bucket, after)
            elif not bucket:
                del buckets[place]
        if places:
            self._climb({place: _bucket_hash(buckets.get(place)) for place in places})

    def _climb(self, changed: dict[int, bytes]) -> None:
        for bits, branches in zip(_BRANCH_BITS, self._levels, strict=True):
            parents: dict[int, bytearray] = {}
            for place, hash in changed.items():
                parent = place >> bits
                children = branches.get(parent)
                if children is None:
                    children = branches[parent] = bytearray(len(EMPTY) << bits)
                at = (place - (parent << bits)) * len(EMPTY)
                children[at : at + len(EMPTY)] = hash
                parents[parent] = children
            changed = {}
            for parent, children in parents.items():
                if children.count(0) == len(children):
                    del branches[parent]
                    changed[parent] = EMPTY
                else:
                    changed[parent] = sha256(_BRANCH + children).digest()
        self.top = changed[0]


def _bucket_hash(bucket: list[bytes] | None) -> bytes:
    if bucket is None:
        return EMPTY
    return bucket[0] if len(bucket) == 1 else sha256(_BUCKET + b"".join(bucket)).digest()
