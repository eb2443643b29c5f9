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

**Drafts.** What the hash would be after changes that are not decided yet is worked out in a draft: it notes what
becomes different, reads all else through to the tree or to the draft that it stands on, and costs what was changed.
Merging it makes its notes the tree's own.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final
from zlib import crc32

from bobbin.errors import UsageError

_CONTENT: Final = b"\x00"
_BUCKET: Final = b"\x01"
_BRANCH: Final = b"\x02"
_BRANCH_BITS: Final = (5, 5, 6)
"""Level by level, from the buckets up: how many bits of a place choose the child of a branch."""
_PLACE_MASK: Final = (1 << sum(_BRANCH_BITS)) - 1
EMPTY: Final = bytes(32)
"""What stands for a branch, or a whole tree, without contents."""
_HASH_BYTES: Final = len(EMPTY)
_SLICE_CHANGES: Final = 10_000
_SLICE_BYTES: Final = 4 << 20
"""What is in memory of what fills a tree: so many changes, or so many bytes and one change more."""
_EMPTY_BRANCHES: Final = {bits: bytearray(_BRANCH + EMPTY * (1 << bits)) for bits in _BRANCH_BITS}
"""By the bits that choose a child: the text of a branch without any."""


class ContentTree:
    """Names, each with the hash of its content."""

    def __init__(self) -> None:
        self.top = EMPTY
        """The hash over everything."""
        self._hashes: dict[bytes, bytes] = {}
        """Of contents, by name."""
        self._buckets: dict[int, tuple[bytes, ...]] = {}
        """The same hashes by place, ascending; a bucket in here is never empty."""
        self._levels: tuple[dict[int, bytearray], ...] = tuple({} for _ in _BRANCH_BITS)
        """Level by level, the texts of the branches that are not empty: a byte, and the hashes of all children."""

    def __contains__(self, name: bytes) -> bool:
        return name in self._hashes

    def __len__(self) -> int:
        return len(self._hashes)

    def update(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set the contents of some names; None takes a name away."""
        draft = self.draft()
        draft.update(changes)
        self.merge(draft)

    def fill(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Make any number of changes, which are taken and made some at a time.

        Where one of them cannot be had or made, those before it may have been: it is for a tree that is not in use yet.
        """
        for some in _in_slices(changes):
            self.update(some)

    def draft(self, on: "TreeDraft | None" = None) -> "TreeDraft":
        """A draft of changes to this tree, or to what an earlier draft of it makes of it."""
        base = self.top if on is None else on.top
        return TreeDraft(base, on, self._hashes, self._buckets, self._levels)

    def merge(self, draft: "TreeDraft") -> None:
        """Become what a draft says. It must stand on this tree as it is: the one below it was merged before."""
        if draft.base != self.top or (draft.top != draft.base and not draft.buckets):
            raise UsageError("the tree has become another one since it was drafted upon, or has these changes already")
        for name, hash in draft.hashes.items():
            if hash is None:
                self._hashes.pop(name, None)
            else:
                self._hashes[name] = hash
        for place, bucket in draft.buckets.items():
            if bucket:
                self._buckets[place] = bucket
            else:
                self._buckets.pop(place, None)
        for branches, drafted in zip(self._levels, draft.levels, strict=True):
            for parent, children in drafted.items():
                if children is None:
                    branches.pop(parent, None)
                else:
                    branches[parent] = children
        self.top = draft.top
        draft.settle()


class TreeDraft:
    """Changes to a tree that are not decided. What it has noted belongs to the tree once it is merged."""

    def __init__(
        self,
        base: bytes,
        on: "TreeDraft | None",
        tree_hashes: dict[bytes, bytes],
        tree_buckets: dict[int, tuple[bytes, ...]],
        tree_levels: tuple[dict[int, bytearray], ...],
    ) -> None:
        self.base: Final = base
        """The hash without these changes."""
        self.top = base
        """The hash with them."""
        self.on = on
        """The draft below, unless it was merged."""
        self.hashes: dict[bytes, bytes | None] = {}
        self.buckets: dict[int, tuple[bytes, ...]] = {}
        """As they become; an empty one is none."""
        self.levels: tuple[dict[int, bytearray | None], ...] = tuple({} for _ in _BRANCH_BITS)
        self._tree_hashes = tree_hashes
        self._tree_buckets = tree_buckets
        self._tree_levels = tree_levels

    def settle(self) -> None:
        """The tree has these changes now: let go of what was below, and of the notes, which are no longer its own."""
        self.on = None
        self.hashes, self.buckets, self.levels = {}, {}, tuple({} for _ in _BRANCH_BITS)

    def update(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set the contents of some names; None takes a name away. Once for each draft."""
        if self.top != self.base or self.buckets:
            raise UsageError("a draft takes its changes once")
        below = self._below()
        hashes_below, buckets_below = [one.hashes for one in below], [one.buckets for one in below]
        hashes, buckets, tree_buckets, tree_hashes = self.hashes, self.buckets, self._tree_buckets, self._tree_hashes
        changed: dict[int, bytes] = {}
        for name, content in changes:
            place = crc32(name) & _PLACE_MASK
            after = None if content is None else sha256(_CONTENT + content).digest()
            if name in hashes:
                before = hashes[name]
            else:
                for noted in hashes_below:
                    if name in noted:
                        before = noted[name]
                        break
                else:
                    before = tree_hashes.get(name)
            hashes[name] = after
            bucket = buckets.get(place)
            if bucket is None:
                for others in buckets_below:
                    if place in others:
                        bucket = others[place]
                        break
                else:
                    bucket = tree_buckets.get(place, ())
            buckets[place] = bucket = _exchanged(bucket, before, after)
            changed[place] = _bucket_hash(bucket)
        if changed:
            self._climb(changed, below)

    def update_values(self, middle: bytes, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """The same for values: a content is then a name, ``middle`` and a value, with the length before both."""
        self.update([(name, None if value is None else _joined(name, middle, value)) for name, value in changes])

    def _climb(self, changed: dict[int, bytes], below: "list[TreeDraft]") -> None:
        for level, bits in enumerate(_BRANCH_BITS):
            noted_below = [one.levels[level] for one in below]
            stood = self._tree_levels[level]
            drafted = self.levels[level]
            parents: dict[int, bytearray] = {}
            mask = (1 << bits) - 1
            for place, hash in changed.items():
                parent = place >> bits
                children = parents.get(parent)
                if children is None:
                    for noted in noted_below:
                        if parent in noted:
                            before = noted[parent]
                            break
                    else:
                        before = stood.get(parent)
                    children = parents[parent] = _EMPTY_BRANCHES[bits].copy() if before is None else before.copy()
                at = (place & mask) * _HASH_BYTES + 1
                children[at : at + _HASH_BYTES] = hash
            drafted.update(parents)
            if EMPTY in changed.values():
                for parent, children in parents.items():
                    if children == _EMPTY_BRANCHES[bits]:
                        drafted[parent] = None
            changed = {
                parent: EMPTY if drafted[parent] is None else sha256(children).digest()
                for parent, children in parents.items()
            }
        self.top = changed[0]

    def _below(self) -> "list[TreeDraft]":
        """The drafts that this one stands on, the newest first."""
        below = []
        draft = self.on
        while draft is not None:
            below.append(draft)
            draft = draft.on
        return below


def _in_slices(changes: Iterable[tuple[bytes, bytes | None]]) -> Iterator[list[tuple[bytes, bytes | None]]]:
    some: list[tuple[bytes, bytes | None]] = []
    room = _SLICE_BYTES
    for change in changes:
        name, content = change
        some.append(change)
        room -= len(name) + (0 if content is None else len(content))
        if room <= 0 or len(some) == _SLICE_CHANGES:
            yield some
            some, room = [], _SLICE_BYTES
    if some:
        yield some


def _joined(name: bytes, middle: bytes, value: bytes) -> bytes:
    return b"".join((len(name).to_bytes(4, "big"), name, middle, len(value).to_bytes(4, "big"), value))


def _exchanged(bucket: tuple[bytes, ...], before: bytes | None, after: bytes | None) -> tuple[bytes, ...]:
    """A bucket with one hash in the place of another; None for none."""
    if len(bucket) == (before is not None):  # nothing else is in there, as in most buckets
        return () if after is None else (after,)
    others = list(bucket)
    if before is not None:
        others.remove(before)
    if after is not None:
        insort(others, after)
    return tuple(others)


def _bucket_hash(bucket: tuple[bytes, ...]) -> bytes:
    if not bucket:
        return EMPTY
    return bucket[0] if len(bucket) == 1 else sha256(_BUCKET + b"".join(bucket)).digest()
