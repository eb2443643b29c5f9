"""Partition summaries of many advertisements, from rows that come sorted: counts and Merkle roots (Lace-050).

A row is one binary ``key``: the symbols of the shortest prefix, the digest, and the symbols by which the longest prefix
is longer. Rows come sorted by it, and all of one shortest prefix come to one reader. So the digests of every partition
arrive in ascending order, those of longer prefixes too, and one pass makes the roots for several lengths. A partition
may go on over any number of batches.

What is kept of a partition is at most some leaves and one hash for each height of its tree (``RunningRoot``). The
hashes are those of ``interlace.merkle``, which is what the tests compare with; there a tree is made of one node at a
time, and here one hasher serves for many, which takes half the time.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from bobbin.interlace import merkle
from bobbin.records.ids import DIGEST_SIZE
from bobbin.store.lake.tables import PARTITIONS

LEAVES_MAX: Final = 1_024
"""So many leaves wait before they are joined."""
_ROWS_MAX: Final = 8_192
"""So many summaries go into one batch, or a few more."""
_LEAF: Final = b"lace-advertisement-leaf/v1"
_NODE: Final = b"lace-advertisement-node/v1"


class Tree:
    """Leaves, and nodes from pairs, with one hasher. Used by one thread."""

    __slots__ = ("_digest", "_reset", "_update")

    def __init__(self) -> None:
        hasher = blake3()
        self._update: Final = hasher.update
        self._digest: Final = hasher.digest
        self._reset: Final = hasher.reset

    def leaves(self, digests: Iterable[bytes]) -> list[bytes]:
        """The leaves of record digests."""
        update, digest, reset = self._update, self._digest, self._reset
        made: list[bytes] = []
        for one in digests:
            update(_LEAF + one)
            made.append(digest())
            reset()
        return made

    def join(self, level: Sequence[bytes]) -> list[bytes]:
        """The next level of an even number of nodes."""
        update, digest, reset = self._update, self._digest, self._reset
        made: list[bytes] = []
        supply = iter(level)
        for left, right in zip(supply, supply, strict=True):
            update(_NODE + left + right)
            made.append(digest())
            reset()
        return made

    def root(self, leaves: list[bytes]) -> bytes:
        """The root of leaves that are all there. Three symbols part a million records into handfuls, so it is short."""
        count = len(leaves)
        if count < 2:
            return leaves[0] if leaves else merkle.EMPTY
        level, height = leaves, 0
        while count > 2:
            if count % 2:
                level = [*level, _PADDING[height]]
            level = self.join(level)
            count = len(level)
            height += 1
        self._update(_NODE + level[0] + level[1])
        joined: bytes = self._digest()
        self._reset()
        return joined


class RunningRoot:
    """The Merkle root of leaves that come in order, a few at a time, in memory for the logarithm of their number."""

    __slots__ = ("_leaves", "_pending", "_tree", "count")

    def __init__(self, tree: Tree) -> None:
        self.count = 0
        self._tree: Final = tree
        self._leaves: list[bytes] = []
        """The last ones, not joined yet."""
        self._pending: list[bytes | None] = []
        """By height: the subtree that is complete and waits for its right neighbour, if one does."""

    def add(self, leaves: Sequence[bytes]) -> None:
        """Take the next leaves."""
        self.count += len(leaves)
        self._leaves += leaves
        if len(self._leaves) >= LEAVES_MAX:
            self._join()

    def root(self) -> bytes:
        """The root of all that came; the tree is padded to a power of two with one known hash a level."""
        if not self._pending:
            return self._tree.root(self._leaves)
        self._join()
        joined: bytes | None = None
        last = len(self._pending) - 1
        for height, waiting in enumerate(self._pending):
            if joined is not None:
                left, right = (joined, _PADDING[height]) if waiting is None else (waiting, joined)
                joined = merkle.node(left, right)
            elif waiting is not None:
                joined = waiting if height == last else merkle.node(waiting, _PADDING[height])
        assert joined is not None, "something waits at the top"
        return joined

    def _join(self) -> None:
        level, self._leaves = self._leaves, []
        height = 0
        while level:
            if height == len(self._pending):
                self._pending.append(None)
            waiting = self._pending[height]
            if waiting is not None:
                level.insert(0, waiting)
            self._pending[height] = level.pop() if len(level) % 2 else None
            level = self._tree.join(level)
            height += 1


class Summaries:
    """The partitions of some lengths, made from sorted rows."""

    def __init__(self, lengths: Sequence[int]) -> None:
        """``lengths`` ascend."""
        self._shortest: Final = lengths[0]
        self._longer: Final = tuple(lengths[1:])
        self._tree: Final = Tree()
        self._prefix: str | None = None
        """The shortest prefix whose rows may go on in the next batch."""
        self._whole = RunningRoot(self._tree)
        self._parts: dict[str, RunningRoot] = {}
        """Partitions of the longer lengths below it."""
        self._done: list[tuple[int, str, int, bytes]] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take the next rows; the summaries that are complete, when there are enough of them."""
        keys = batch.column("key")
        end_of_digest = self._shortest + DIGEST_SIZE
        leaves = self._tree.leaves(pc.binary_slice(keys, self._shortest, end_of_digest).to_pylist())
        end_of_key = DIGEST_SIZE + (self._longer[-1] if self._longer else self._shortest)
        endings: list[bytes] = pc.binary_slice(keys, end_of_digest, end_of_key).to_pylist() if self._longer else []
        runs = pc.run_end_encode(pc.binary_slice(keys, 0, self._shortest).cast(pa.string()))
        prefixes, ends = runs.values.to_pylist(), runs.run_ends.to_pylist()
        # What begins and ends in this batch is done at once. The first run may go on from before, and the last behind.
        for prefix, begin, end in zip(prefixes[:1], [0], ends, strict=False):
            self._keep(prefix, endings[begin:end], leaves[begin:end])
        for prefix, begin, end in zip(prefixes[1:-1], ends, ends[1:], strict=False):
            self._summarise(prefix, endings, leaves, begin, end)
        for prefix, begin, end in zip(prefixes[1:][-1:], ends[-2:], ends[-1:], strict=False):
            self._keep(prefix, endings[begin:end], leaves[begin:end])
        if len(self._done) >= _ROWS_MAX:
            yield self._take()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """No rows follow; the summaries that are left."""
        self._close()
        if self._done:
            yield self._take()

    def _summarise(self, prefix: str, endings: list[bytes], leaves: list[bytes], begin: int, end: int) -> None:
        """All rows of one shortest prefix, from one place to another."""
        root = self._tree.root
        members = leaves[begin:end]
        self._done.append((self._shortest, prefix, end - begin, root(members)))
        for length in self._longer:
            self._done += [
                (length, prefix + part, len(some), root(some))
                for part, some in self._split(length, endings[begin:end], members)
            ]

    def _keep(self, prefix: str, endings: list[bytes], leaves: list[bytes]) -> None:
        """Some rows of one shortest prefix, of which more may have come before, and may follow."""
        if prefix != self._prefix:
            self._close()
            self._prefix = prefix
        self._whole.add(leaves)
        for length in self._longer:
            for part, members in self._split(length, endings, leaves):
                running = self._parts.get(prefix + part)
                if running is None:
                    running = self._parts[prefix + part] = RunningRoot(self._tree)
                running.add(members)

    def _split(self, length: int, endings: list[bytes], leaves: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
        """The leaves by the symbols that a longer prefix has more, each part in the order in which it came."""
        size = length - self._shortest
        parts: dict[bytes, list[bytes]] = {}
        for ending, leaf in zip(endings, leaves, strict=True):
            part = ending[:size]
            members = parts.get(part)
            if members is None:
                parts[part] = [leaf]
            else:
                members.append(leaf)
        return ((part.decode(), members) for part, members in parts.items())

    def _close(self) -> None:
        """What was kept is complete."""
        if self._prefix is None:
            return
        self._done.append((self._shortest, self._prefix, self._whole.count, self._whole.root()))
        self._done += [(len(part), part, kept.count, kept.root()) for part, kept in self._parts.items()]
        self._prefix, self._whole, self._parts = None, RunningRoot(self._tree), {}

    def _take(self) -> pa.RecordBatch:
        columns = zip(*self._done, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, PARTITIONS.schema, strict=True)]
        self._done = []
        return pa.RecordBatch.from_arrays(arrays, schema=PARTITIONS.schema)


def summarise(batches: Iterable[pa.RecordBatch], lengths: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows of ``partitions`` for sorted keys."""
    summaries = Summaries(lengths)
    for batch in batches:
        yield from summaries.add(batch)
    yield from summaries.finish()


def _padding() -> tuple[bytes, ...]:
    hashes = [merkle.EMPTY]
    while len(hashes) < 64:
        hashes.append(merkle.node(hashes[-1], hashes[-1]))
    return tuple(hashes)


_PADDING: Final = _padding()
"""By height: the hash of a subtree that has only empty leaves."""
