"""What one side advertises or claims, grouped by the beginning of its digest text: counts and roots (Lace-050).

A partition is named by the first characters of the B64A text of a record hash; the type letter and the suffix play no
part. All records lie in partitions of one starting length. Longer prefixes narrow a partition and are answered from
it. Two sides whose summaries of a prefix are equal have the same advertisements there.

Adding a record costs the same however many there are. A root is computed when it is asked for and kept until its
partition changes, so a round costs what has changed since the round before. There is no index over all records: each
stands once, in its partition.

A node tells many peers the same, and hears the same from many. So a partition that is not about to change can be
*shared*: of equal ones, under one label, the process holds a single one. A shared partition never changes; whoever has
to change it takes a copy first.

A hash text of a foreign format may have a payload shorter than the starting length; such a record is in the partition
that its whole payload names.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, groupby
from sys import intern
from typing import ClassVar, Final, Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from bobbin.errors import UsageError
from bobbin.interlace import merkle
from bobbin.interlace.messages import Partition

Entry = TypeVar("Entry")
_Label: TypeAlias = tuple[object, int]

_TYPE: Final = len("P.")
_MANY_PART: Final = 4
"""This part of all records is many."""
_AFTER_ALL: Final = "\x7f"
"""Greater than every B64A character."""


def payload(record: str) -> str:
    """The digest text of a record hash, between its type letter and its suffix."""
    return record[_TYPE:].partition(".")[0]


class _Bucket(Generic[Entry]):
    """The records of one partition of the starting length, with what was computed from them since they changed."""

    __slots__ = ("__weakref__", "entries", "is_shared", "ordered", "partition")

    def __init__(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self.is_shared = False
        self.ordered: list[str] | None = None
        """The records by payload."""
        self.partition: Partition | None = None

    def below(self, prefix: str) -> list[str]:
        """The records whose payload begins with a prefix, by payload."""
        if self.ordered is None:
            self.ordered = sorted(self.entries, key=_tail)
        start = bisect_left(self.ordered, prefix, key=_tail)
        return self.ordered[start : bisect_left(self.ordered, prefix + _AFTER_ALL, lo=start, key=_tail)]


class Partitioned(ABC, Generic[Entry]):
    """A set of records, each with an entry that its digest follows from, in partitions."""

    _shared: ClassVar[WeakValueDictionary[_Label, _Bucket[object]]]
    """The partitions that several may hold, by their label and records. Each kind of entry has its own."""

    def __init_subclass__(cls) -> None:
        cls._shared = WeakValueDictionary()

    def __init__(self, length: int, label: object = None) -> None:
        """``length`` is the starting length of prefixes. Only what has one ``label`` has the same roots."""
        if length < 1:
            raise UsageError(f"a partition prefix has at least one character, not {length}")
        self._length: Final = length
        self._end: Final = _TYPE + length
        self._label: Final = label
        self._count = 0
        self._buckets: dict[str, _Bucket[Entry]] = {}
        """None of them is empty."""
        self._unshared: set[str] = set()
        """The prefixes whose buckets are nobody else's."""
        self._roots: dict[str, Partition] = {}
        """Of shared buckets that do not keep their root."""
        self._summaries: tuple[Partition, ...] | None = ()

    @abstractmethod
    def _digests(self, entries: Iterable[Entry]) -> list[bytes]:
        """The advertisement digests behind some entries, in their order."""

    @property
    def _keeps_roots(self) -> bool:
        """Whether all that share a partition have the same root of it."""
        return self._label is not None

    def __len__(self) -> int:
        return self._count

    def __contains__(self, record: object) -> bool:
        return isinstance(record, str) and self.entry(record) is not None

    def entry(self, record: str) -> Entry | None:
        """The entry of a record, if the record is here."""
        bucket = self._buckets.get(self._prefix(record))
        return None if bucket is None else bucket.entries.get(record)

    def having(self, records: Collection[str]) -> set[str]:
        """Those of some records that are here."""
        buckets, end = self._buckets, self._end
        if len(records) >= self._count // _MANY_PART:
            # Looking at everything that is here is less work than finding the place of each.
            wanted = records if isinstance(records, (set, frozenset)) else frozenset(records)
            return set(filter(wanted.__contains__, self.records()))
        here: set[str] = set()
        for record in records:
            # Nearly always the payload is as long as a prefix; where it is not, no partition has this name.
            bucket = buckets.get(record[_TYPE:end])
            if record in (bucket.entries if bucket is not None else self._whole(record)):
                here.add(record)
        return here

    def _whole(self, record: str) -> dict[str, Entry]:
        """What is in the partition of a record."""
        bucket = self._buckets.get(self._prefix(record))
        return {} if bucket is None else bucket.entries

    def records(self) -> Iterator[str]:
        """Every record, in no order."""
        return chain.from_iterable([bucket.entries for bucket in self._buckets.values()])

    def entries(self) -> Iterator[Entry]:
        """The entry of every record, in no order."""
        return chain.from_iterable(bucket.entries.values() for bucket in self._buckets.values())

    def parts(self) -> dict[str, Mapping[str, Entry]]:
        """The partitions of the starting length, each with its records. One that two share is the same object."""
        return {prefix: bucket.entries for prefix, bucket in self._buckets.items()}

    def prefixes(self) -> Iterator[str]:
        """Of the partitions of the starting length that are not empty, in no order."""
        return iter(self._buckets)

    def add(self, record: str, entry: Entry) -> None:
        """Take a record, or its new entry."""
        prefix = self._prefix(record)
        bucket = self._buckets.get(prefix)
        known = None if bucket is None else bucket.entries.get(record)
        if known == entry:
            return
        self._open(prefix).entries[record] = entry
        self._count += known is None

    def add_all(self, entries: Mapping[str, Entry]) -> None:
        """Take records that are not here, many at a time."""
        opened: dict[str, dict[str, Entry]] = {}
        for record, entry in entries.items():
            prefix = record[_TYPE : self._end]
            inside = opened.get(prefix)
            if inside is None:
                inside = opened[prefix] = self._open(self._prefix(record)).entries
            inside[record] = entry
        self._count += len(entries)

    def discard(self, record: str) -> Entry | None:
        """Let a record go, if it is here; returns its entry."""
        prefix = self._prefix(record)
        if self.entry(record) is None:
            return None
        bucket = self._open(prefix)
        entry = bucket.entries.pop(record)
        self._count -= 1
        if not bucket.entries:
            del self._buckets[prefix]
            self._unshared.discard(prefix)
        return entry

    def under(self, prefix: str) -> Mapping[str, Entry]:
        """The records under a prefix of at least the starting length, with their entries, in no order."""
        bucket = self._bucket(prefix)
        if bucket is None:
            return {}
        return bucket.entries if prefix in self._buckets else {one: bucket.entries[one] for one in bucket.below(prefix)}

    def prefixes_of(self, records: Iterable[str]) -> set[str]:
        """The prefixes of the partitions, empty or not, that some records lie in or would lie in."""
        cut = {record[_TYPE : self._end] for record in records}
        return {prefix.partition(".")[0] for prefix in cut}

    # ---- summaries --------------------------------------------------------------------------------------------------

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
        return self._summarise(prefix, bucket, bucket.below(prefix))

    def summarise(self, prefix: str, entries: Mapping[str, Entry]) -> Partition:
        """What the summary of a prefix would be if just these records, with these entries, lay under it."""
        return Partition(prefix=prefix, count=len(entries), root=merkle.root(self._digests(entries.values())))

    def note(self, partition: Partition) -> None:
        """The summary of a prefix is known to be this one, and need not be computed."""
        bucket = self._buckets.get(partition.prefix)
        if bucket is None:
            return
        if not bucket.is_shared:
            bucket.partition = partition
        elif not self._keeps_roots:
            self._roots[partition.prefix] = partition

    def children(self, prefix: str) -> tuple[Partition, ...]:
        """The partitions one character longer that are not empty, by prefix."""
        bucket = self._bucket(prefix)
        if bucket is None:
            return ()
        end = _TYPE + len(prefix) + 1
        parts = groupby(bucket.below(prefix), key=lambda record: record[_TYPE:end])
        # A payload that ends with the prefix itself lies in no child.
        return tuple([self._summarise(child, bucket, records) for child, records in parts if not child.endswith(".")])

    def named(self, names: Collection[str], length: int) -> dict[str, list[str]]:
        """The records whose payload begins with each of some names, which have one length, whatever that is."""
        if length >= self._length:
            return {name: self.members(name) for name in names}
        found: dict[str, list[str]] = {name: [] for name in names}
        for record in self.records() if names else ():
            name = payload(record)[:length]
            if name in found:
                found[name].append(record)
        return found

    def members(self, prefix: str) -> list[str]:
        """The records under a prefix, bytewise by their text."""
        bucket = self._bucket(prefix)
        return [] if bucket is None else sorted(bucket.below(prefix))

    def check(self) -> None:
        """Assert what always holds."""
        assert self._count == sum(len(bucket.entries) for bucket in self._buckets.values())
        assert self._unshared == {prefix for prefix, bucket in self._buckets.items() if not bucket.is_shared}
        for prefix, bucket in self._buckets.items():
            assert bucket.entries, f"the partition {prefix} is empty and still there"
            assert all(payload(record)[: self._length] == prefix for record in bucket.entries)
            assert bucket.ordered is None or bucket.ordered == sorted(bucket.entries, key=_tail)
            whole = self._summarise(prefix, bucket, bucket.entries)
            assert bucket.partition in (None, whole)
            assert self._roots.get(prefix) in (None, whole)
        assert self._summaries in (None, tuple([self._summarised(prefix) for prefix in sorted(self._buckets)]))

    # ---- sharing ----------------------------------------------------------------------------------------------------

    def share(self) -> None:
        """Nothing changes for the moment: hold what others hold too only once."""
        for prefix in self._unshared:
            bucket = self._buckets[prefix]
            self._rest(bucket.entries)
            label = self._label, hash(frozenset(bucket.entries))
            known = self._shared.get(label)
            if known is None or known.entries != bucket.entries:
                bucket.ordered = None
                if not self._keeps_roots:
                    bucket.partition = None
                bucket.is_shared = True
                self._shared[label] = bucket  # type: ignore[assignment]  # each kind of entry has its own
            else:
                self._buckets[prefix] = known  # type: ignore[assignment]
        self._unshared.clear()
        self._roots.clear()
        if self._count:
            self._summaries = None

    def _rest(self, entries: dict[str, Entry]) -> None:
        """Bring the entries of one partition into the form in which they are shared. Their digests stay the same."""

    def _share_all(self) -> None:
        """From now on somebody else holds all of this too."""
        for prefix in self._unshared:
            self._buckets[prefix].is_shared = True
        self._unshared.clear()

    # ---- parts ------------------------------------------------------------------------------------------------------

    def _prefix(self, record: str) -> str:
        prefix = record[_TYPE : self._end]
        return prefix.partition(".")[0] if "." in prefix else prefix

    def _bucket(self, prefix: str) -> _Bucket[Entry] | None:
        """Where the records under a prefix lie."""
        if len(prefix) < self._length and prefix not in self._buckets:
            raise UsageError(f"a partition prefix has at least {self._length} characters here: {prefix[:80]!r}")
        return self._buckets.get(prefix[: self._length])

    def _open(self, prefix: str) -> _Bucket[Entry]:
        """A bucket that may be changed: what was computed from it is dropped, and nobody else holds it."""
        self._summaries = None
        self._roots.pop(prefix, None)
        bucket = self._buckets.get(prefix)
        if bucket is None or bucket.is_shared:
            prefix = intern(prefix)
            bucket = self._buckets[prefix] = _Bucket({} if bucket is None else dict(bucket.entries))
            self._unshared.add(prefix)
        bucket.ordered = None
        bucket.partition = None
        return bucket

    def _summarise(self, prefix: str, bucket: _Bucket[Entry], records: Iterable[str]) -> Partition:
        digests = self._digests(map(bucket.entries.__getitem__, records))
        return Partition(prefix=prefix, count=len(digests), root=merkle.root(digests))

    def _summarised(self, prefix: str) -> Partition:
        bucket = self._buckets[prefix]
        known = bucket.partition or self._roots.get(prefix)
        if known is None:
            known = self._summarise(prefix, bucket, bucket.entries)
            if bucket.is_shared and not self._keeps_roots:
                self._roots[prefix] = known
            else:
                bucket.partition = known
        return known


def _tail(record: str) -> str:
    """A key in the order of payloads: the dot before the suffix is smaller than every B64A character."""
    return record[_TYPE:]
