"""Partitions: the advertisement records of one side, grouped by the beginning of their digest text (Lace-050).

A partition is named by the first characters of the B64A text of a record hash; the type letter and the suffix play no
part. All records lie in partitions of one starting length. Longer prefixes narrow a partition and are answered from
it. Two sides whose summaries of a prefix are equal have the same advertisements there.

Adding a record costs the same however many there are. A root is computed when it is asked for and kept until its
partition changes, so a round costs what has changed since the round before. There is no index over all records: each
stands once, in its partition.

A hash text of a foreign format may have a payload shorter than the starting length; such a record is in the partition
that its whole payload names.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from bobbin.errors import UsageError
from bobbin.interlace import merkle
from bobbin.interlace.messages import Partition

_TYPE: Final = len("P.")
_AFTER_ALL: Final = "\x7f"
"""Greater than every B64A character."""


def payload(record: str) -> str:
    """The digest text of a record hash, between its type letter and its suffix."""
    return record[_TYPE:].partition(".")[0]


class _Bucket:
    """The records of one partition of the starting length, with what was computed from them since they changed."""

    __slots__ = ("digests", "ordered", "partition")

    def __init__(self) -> None:
        self.digests: dict[str, bytes] = {}
        self.ordered: list[str] | None = None
        """The records by payload."""
        self.partition: Partition | None = None

    def forget(self) -> None:
        self.ordered = None
        self.partition = None

    def below(self, prefix: str) -> list[str]:
        """The records whose payload begins with a prefix, by payload."""
        if self.ordered is None:
            self.ordered = sorted(self.digests, key=_tail)
        start = bisect_left(self.ordered, prefix, key=_tail)
        return self.ordered[start : bisect_left(self.ordered, prefix + _AFTER_ALL, lo=start, key=_tail)]

    def summary(self, prefix: str, records: Iterable[str]) -> Partition:
        digests = [self.digests[record] for record in records]
        return Partition(prefix=prefix, count=len(digests), root=merkle.root(digests))


class Partitions:
    """A set of records with their advertisement digests, in partitions."""

    def __init__(self, length: int) -> None:
        """``length`` is the starting length of prefixes."""
        if length < 1:
            raise UsageError(f"a partition prefix has at least one character, not {length}")
        self._length: Final = length
        self._end: Final = _TYPE + length
        self._count = 0
        self._buckets: dict[str, _Bucket] = {}
        """None of them is empty."""
        self._summaries: tuple[Partition, ...] | None = ()
        self._before: dict[str, dict[str, bytes]] = {}
        """What a partition held at the last mark, for those that were touched since."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, record: str) -> bool:
        return self.digest(record) is not None

    def digest(self, record: str) -> bytes | None:
        """The advertisement digest of a record, if the record is here."""
        bucket = self._buckets.get(self._prefix(record))
        return None if bucket is None else bucket.digests.get(record)

    def records(self) -> Iterator[str]:
        """Every record, in no order."""
        return (record for bucket in self._buckets.values() for record in bucket.digests)

    def add(self, record: str, digest: bytes) -> None:
        """Take a record, or its new digest."""
        prefix = self._prefix(record)
        bucket = self._buckets.get(prefix)
        if bucket is None:
            bucket = self._buckets[prefix] = _Bucket()
        known = bucket.digests.get(record)
        if known == digest:
            return
        self._touch(prefix, bucket)
        bucket.digests[record] = digest
        self._count += known is None

    def discard(self, record: str) -> None:
        """Let a record go, if it is here."""
        prefix = self._prefix(record)
        bucket = self._buckets.get(prefix)
        if bucket is None or record not in bucket.digests:
            return
        self._touch(prefix, bucket)
        del bucket.digests[record]
        self._count -= 1
        if not bucket.digests:
            del self._buckets[prefix]

    def summaries(self) -> tuple[Partition, ...]:
        """Every partition of the starting length that is not empty, by prefix."""
        if self._summaries is None:
            self._summaries = tuple([self._summarised(prefix) for prefix in sorted(self._buckets)])
        return self._summaries

    def summary(self, prefix: str) -> Partition:
        """What lies under a prefix of at least the starting length; of nothing: count 0 and the empty root."""
        bucket = self._bucket(prefix)
        if bucket is None:
            return Partition(prefix=prefix, count=0, root=merkle.EMPTY)
        if prefix in self._buckets:
            return self._summarised(prefix)
        return bucket.summary(prefix, bucket.below(prefix))

    def children(self, prefix: str) -> tuple[Partition, ...]:
        """The partitions one character longer that are not empty, by prefix."""
        bucket = self._bucket(prefix)
        if bucket is None:
            return ()
        end = _TYPE + len(prefix) + 1
        parts = groupby(bucket.below(prefix), key=lambda record: record[_TYPE:end])
        # A payload that ends with the prefix itself lies in no child.
        return tuple([bucket.summary(child, records) for child, records in parts if not child.endswith(".")])

    def members(self, prefix: str) -> list[str]:
        """The records under a prefix, bytewise by their text."""
        bucket = self._bucket(prefix)
        return [] if bucket is None else sorted(bucket.below(prefix))

    def changed(self) -> frozenset[str]:
        """The prefixes, of the starting length, that hold something else than at the last mark."""
        return frozenset(prefix for prefix, held in self._before.items() if self._held(prefix) != held)

    def mark(self) -> None:
        """What is here now is what ``changed`` compares with."""
        self._before = {}

    def check(self) -> None:
        """Assert what always holds."""
        assert self._count == sum(len(bucket.digests) for bucket in self._buckets.values())
        for prefix, bucket in self._buckets.items():
            assert bucket.digests, f"the partition {prefix} is empty and still there"
            assert all(payload(record)[: self._length] == prefix for record in bucket.digests)
            assert bucket.ordered is None or bucket.ordered == sorted(bucket.digests, key=_tail)
            assert bucket.partition in (None, bucket.summary(prefix, bucket.digests))
        assert self._summaries in (None, tuple([self._summarised(prefix) for prefix in sorted(self._buckets)]))

    def _prefix(self, record: str) -> str:
        prefix = record[_TYPE : self._end]
        return prefix.partition(".")[0] if "." in prefix else prefix

    def _bucket(self, prefix: str) -> _Bucket | None:
        """Where the records under a prefix lie."""
        if len(prefix) < self._length and prefix not in self._buckets:
            raise UsageError(f"a partition prefix has at least {self._length} characters here: {prefix[:80]!r}")
        return self._buckets.get(prefix[: self._length])

    def _held(self, prefix: str) -> dict[str, bytes]:
        bucket = self._buckets.get(prefix)
        return {} if bucket is None else bucket.digests

    def _touch(self, prefix: str, bucket: _Bucket) -> None:
        """Before a partition changes: keep what it held at the mark, and drop what was computed from it."""
        if prefix not in self._before:
            self._before[prefix] = bucket.digests.copy()
        bucket.forget()
        self._summaries = None

    def _summarised(self, prefix: str) -> Partition:
        bucket = self._buckets[prefix]
        if bucket.partition is None:
            bucket.partition = bucket.summary(prefix, bucket.digests)
        return bucket.partition


def _tail(record: str) -> str:
    """A key in the order of payloads: the dot before the suffix is smaller than every B64A character."""
    return record[_TYPE:]
