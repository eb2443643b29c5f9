"""The standing index of one set of claims: one root over all of it, and what a sketch under any key is made from.

A claim is known by its digest, which does not depend on who makes it (``advertise.claim_digest``). So the index of what
one side offers also says what it expects of a peer that offers the same.

The digests lie in 4096 buckets by their first twelve bits, ascending in each. The hash of a bucket is over its digests;
64 neighbouring buckets give the hash of a group, and the 64 groups give the root. A claim that comes or goes costs its
bucket, its group and the top. Nothing else is computed again.

A bucket never changes: what changes it puts another in its place. So a copy of the index shares every bucket, and costs
the same however many claims there are.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from bobbin.errors import UsageError
from bobbin.interlace.claim_places import Places
from bobbin.reconcile import Bulk, Ids, Ordered, keyed_ids, measure
from bobbin.reconcile.short_ids import DIGEST_BYTES, Rows, find

MOMENT_MAX: Final = 2**64 - 1
_BUCKETS: Final = 4096
_BUCKET_SHIFT: Final = 52
"""What is left of the first eight bytes of a digest are the twelve bits that name its bucket."""
_GROUP: Final = 64
"""Buckets in a group, and groups in all."""
_MOMENT_BYTES: Final = 8
_MANY_PART: Final = 4
"""A change of this part of all claims is made by sorting everything anew."""
_FEW: Final = 4
"""So many changes of a bucket are made one after the other; more of them at once, so that a bucket into which
everything was put on purpose is not copied for each."""
_BUCKET_TAG: Final = b"bobbin-claim-bucket/v1"
_GROUP_TAG: Final = b"bobbin-claim-group/v1"
_ROOT_TAG: Final = b"bobbin-claim-root/v1"


class Claim(NamedTuple):
    """What the index keeps of one advertisement."""

    record: str
    digest: bytes
    """Of 32 bytes, the same whoever claims it."""
    moment: int
    """When the record says that it was made, in TAI nanoseconds; 0 where it does not say."""


class _Bucket:
    """Some claims in the order of their digests."""

    __slots__ = ("_hash", "digests", "moments", "records")

    def __init__(self, digests: bytes, moments: bytes, records: tuple[str, ...]) -> None:
        self.digests: Final = digests
        """One after the other."""
        self.moments: Final = moments
        """Eight bytes each, little end first."""
        self.records: Final = records
        self._hash: bytes | None = None

    def __len__(self) -> int:
        return len(self.records)

    def hash(self) -> bytes:
        if self._hash is None:
            self._hash = blake3(_BUCKET_TAG + self.digests).digest()
        return self._hash

    def digest(self, at: int) -> bytes:
        return self.digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES]

    def change(self, change: "_Change") -> "_Bucket":
        """This bucket without some claims that it has, and with others that it does not have."""
        if len(change.gone) + len(change.came) <= _FEW:
            bucket = self
            for record in change.gone:
                bucket = bucket.discard(record)
            for digest, moment, record in change.came:
                bucket = bucket.insert(record, digest, moment)
            return bucket
        stay = [at for at, record in enumerate(self.records) if record not in change.gone]
        rows = [
            (self.digest(at), self.moments[at * _MOMENT_BYTES : (at + 1) * _MOMENT_BYTES], self.records[at])
            for at in stay
        ]
        rows = sorted(rows + change.came, key=itemgetter(0))
        digests, moments, records = zip(*rows, strict=True) if rows else ((), (), ())
        return _Bucket(b"".join(digests), b"".join(moments), tuple(records))

    def insert(self, record: str, digest: bytes, moment: bytes) -> "_Bucket":
        """This bucket with the claim of one record more, which it does not have."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.digest(middle) < digest:
                low = middle + 1
            else:
                high = middle
        return self._splice(low, low, digest, moment, (record,))

    def discard(self, record: str) -> "_Bucket":
        """This bucket without the claim of a record that it has."""
        at = self.records.index(record)
        return self._splice(at, at + 1, b"", b"", ())

    def _splice(self, start: int, end: int, digests: bytes, moments: bytes, records: tuple[str, ...]) -> "_Bucket":
        return _Bucket(
            self.digests[: start * DIGEST_BYTES] + digests + self.digests[end * DIGEST_BYTES :],
            self.moments[: start * _MOMENT_BYTES] + moments + self.moments[end * _MOMENT_BYTES :],
            self.records[:start] + records + self.records[end:],
        )


_EMPTY: Final = _Bucket(b"", b"", ())


class _Change:
    """What comes and goes in one bucket."""

    __slots__ = ("came", "gone")

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.came: list[tuple[bytes, bytes, str]] = []
        """Digest, moment and record of each."""


class Columns(NamedTuple):
    """Claims as columns, in one order: how many are taken at a time."""

    records: Sequence[str]
    digests: bytes
    """One after the other."""
    moments: NDArray[np.uint64]


class ClaimIndex:
    """A set of claims, one for each record."""

    def __init__(self, claims: Iterable[Claim] = ()) -> None:
        self._buckets: list[_Bucket] = [_EMPTY] * _BUCKETS
        self._places = Places({})
        """In which bucket the claim of each record is."""
        self._groups: list[bytes | None] = [None] * _GROUP
        self._root: bytes | None = None
        self._keyed: Keyed | None = None
        self.changes = 0
        """How many claims have come and gone, here and in what this was copied from."""
        self.update(claims, ())

    @classmethod
    def of(cls, columns: Columns) -> "ClaimIndex":
        """The index of claims that come as columns, each record once."""
        index = cls()
        index._rebuild(columns)
        return index

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, record: object) -> bool:
        return isinstance(record, str) and self._places.get(record) is not None

    def update(self, added: Iterable[Claim], removed: Collection[str]) -> None:
        """Let claims go by their records, and take others. A claim of a record that is here takes its place."""
        fresh = {claim.record: claim for claim in added}
        if len(fresh) + len(removed) > max(_BUCKETS, len(self) // _MANY_PART):
            self._change_many(fresh, removed)
            return
        came = [(_bucket_number(claim.digest), claim, _moment_bytes(claim.moment)) for claim in fresh.values()]
        changes: defaultdict[int, _Change] = defaultdict(_Change)
        for record in chain(removed, fresh):
            place = self._places.get(record)
            if place is not None:
                changes[place].gone.add(record)
                self._places.discard(record)
                self.changes += 1
        for number, claim, moment in came:
            changes[number].came.append((claim.digest, moment, claim.record))
            self._places.put(claim.record, number)
        self.changes += len(came)
        for number, change in changes.items():
            self._put(number, self._buckets[number].change(change))

    def root(self) -> bytes:
        """One hash of how many claims there are and of all their digests."""
        if self._root is None:
            self._root = blake3(_ROOT_TAG + b"".join(map(self._group, range(_GROUP)))).digest()
        return self._root

    def copy(self) -> "ClaimIndex":
        """The same claims, to be changed for itself."""
        other = ClaimIndex()
        other._buckets = self._buckets.copy()
        other._places = self._places.copy()
        other._groups = self._groups.copy()
        other._root, other.changes = self._root, self.changes
        return other

    def keyed(self, key: bytes) -> "Keyed":
        """This moment under a key. The last picture is kept until the claims change."""
        if self._keyed is None or self._keyed.key != key:
            self._keyed = Keyed(key, self._buckets)
        return self._keyed

    def forget_picture(self) -> None:
        """The last picture under a key is as large as the ids are, and keys do not come back."""
        self._keyed = None

    def digest(self, record: str) -> bytes | None:
        """The digest of the claim of a record, if there is one here."""
        number = self._places.get(record)
        if number is None:
            return None
        bucket = self._buckets[number]
        return bucket.digest(bucket.records.index(record))

    def columns(self) -> Columns:
        """Every claim, in the order of the digests."""
        return _columns(self._buckets)

    def adapt(self, records: Collection[str]) -> set[str]:
        """Let every claim go that is of none of some records, each given once; returns those that have no claim here.

        For an index that was kept: what it says of a record is as true as then, but records have come and gone.
        """
        missing = {record for record in records if record not in self}
        if len(records) - len(missing) < len(self):
            wanted = frozenset(records)
            self.update((), [record for record in self.columns().records if record not in wanted])
        return missing

    def check(self) -> None:
        """Assert what always holds."""
        assert len(self._places) == sum(map(len, self._buckets)), "every claim is where its record says"
        for number, bucket in enumerate(self._buckets):
            if bucket is _EMPTY:
                continue
            digests = [bucket.digest(at) for at in range(len(bucket))]
            assert len(bucket.digests) == DIGEST_BYTES * len(bucket), "every claim has a digest"
            assert len(bucket.moments) == _MOMENT_BYTES * len(bucket), "every claim has a moment"
            assert digests == sorted(digests), "digests ascend"
            assert all(_bucket_number(digest) == number for digest in digests), "every digest is in its bucket"
            assert all(self._places.get(record) == number for record in bucket.records), "every record has its place"
            assert bucket.hash() == _Bucket(bucket.digests, b"", ()).hash(), "a hash is of what is there"
        again = ClaimIndex()
        again._buckets = self._buckets
        assert self.root() == again.root(), "the root is of what is there"

    def _put(self, number: int, bucket: _Bucket) -> None:
        self._buckets[number] = bucket
        self._groups[number // _GROUP] = None
        self._root = self._keyed = None

    def _change_many(self, fresh: dict[str, Claim], removed: Collection[str]) -> None:
        gone = fresh.keys() | removed
        held = self.columns()
        stay = [at for at, record in enumerate(held.records) if record not in gone] if len(self) else []
        kept = np.frombuffer(held.digests, f"V{DIGEST_BYTES}")[stay].tobytes()
        claims = fresh.values()
        for length in {len(claim.digest) for claim in claims} - {DIGEST_BYTES}:
            raise _no_digest(length)
        moments = np.frombuffer(b"".join([_moment_bytes(claim.moment) for claim in claims]), "<u8").astype(np.uint64)
        self._rebuild(
            Columns(
                [*[held.records[at] for at in stay], *fresh],
                kept + b"".join(map(itemgetter(1), claims)),
                np.concatenate((held.moments[stay], moments)),
            )
        )

    def _rebuild(self, columns: Columns) -> None:
        records, joined, moments = columns
        if len(joined) != DIGEST_BYTES * len(records) or len(moments) != len(records):
            raise UsageError("every claim has one digest and one moment")
        order, numbers = _sort(joined)
        places = dict(zip(records, numbers.tolist(), strict=True))
        if len(places) != len(records):
            raise UsageError("a record is claimed twice")
        bounds = [0, *accumulate(np.bincount(numbers, minlength=_BUCKETS).tolist())]
        digests = np.frombuffer(joined, "<u8").reshape(-1, DIGEST_BYTES // 8).take(order, 0).tobytes()
        moment_bytes = moments[order].astype("<u8").tobytes()
        ordered: list[str] = np.array(records, np.object_).take(order).tolist()
        self._buckets = [
            _Bucket(
                digests[start * DIGEST_BYTES : end * DIGEST_BYTES],
                moment_bytes[start * _MOMENT_BYTES : end * _MOMENT_BYTES],
                tuple(ordered[start:end]),
            )
            if end > start
            else _EMPTY
            for start, end in pairwise(bounds)
        ]
        self._places = Places(places)
        self.changes += len(records)
        self._groups = [None] * _GROUP
        self._root = self._keyed = None

    def _group(self, number: int) -> bytes:
        known = self._groups[number]
        if known is None:
            buckets = self._buckets[number * _GROUP : (number + 1) * _GROUP]
            said = b"".join([len(bucket).to_bytes(8, "little") + bucket.hash() for bucket in buckets])
            count = sum(map(len, buckets))
            known = self._groups[number] = count.to_bytes(8, "little") + blake3(_GROUP_TAG + said).digest()
        return known


class Keyed:
    """The claims of one moment under one key. It shows that moment whatever becomes of the index."""

    def __init__(self, key: bytes, buckets: Sequence[_Bucket]) -> None:
        self.key: Final = key
        self._buckets: Final = tuple(buckets)
        self._ends: Final = list(accumulate(map(len, buckets)))
        """Of each bucket, in the order of all claims."""
        self.ids: Final[Ids] = keyed_ids(key, _rows(b"".join([bucket.digests for bucket in buckets])))
        """In the order of the digests. Two claims may have the same, though hardly ever do."""
        self._bulk: Bulk | None = None
        self._ordered: Ordered | None = None

    def records(self, ids: Ids) -> list[str | None]:
        """The record behind each id; None for one that is not here, and for one that two claims share."""
        found: dict[int, str | None] = {}
        for at in find(self.ids, ids).tolist():
            short = int(self.ids[at])
            found[short] = None if short in found else self._record(at)
        return [found.get(short) for short in ids.tolist()]

    def bulk(self) -> Bulk:
        """What the claims look like to the estimate of a difference."""
        if self._bulk is None:
            self._bulk = measure(self.ids)
        return self._bulk

    def ordered(self) -> Ordered:
        """The ids in the order of their moments, and of their digests where these are equal."""
        if self._ordered is None:
            moments = np.frombuffer(b"".join([bucket.moments for bucket in self._buckets]), "<u8")
            self._ordered = Ordered(moments.astype(np.uint64, copy=False), self.ids)
        return self._ordered

    def _record(self, at: int) -> str:
        number = bisect_right(self._ends, at)
        bucket = self._buckets[number]
        return bucket.records[at - self._ends[number]]


def _bucket_number(digest: bytes) -> int:
    if len(digest) != DIGEST_BYTES:
        raise _no_digest(len(digest))
    return int.from_bytes(digest[:8], "big") >> _BUCKET_SHIFT


def _no_digest(length: int) -> UsageError:
    return UsageError(f"the digest of a claim has {DIGEST_BYTES} bytes, not {length}")


def _moment_bytes(moment: int) -> bytes:
    if not 0 <= moment <= MOMENT_MAX:
        raise UsageError(f"{moment} is no moment: it has 64 bits")
    return moment.to_bytes(_MOMENT_BYTES, "little")


def _rows(digests: bytes) -> Rows:
    return np.frombuffer(digests, "<u8").astype(np.uint64, copy=False).reshape(-1, DIGEST_BYTES // 8)


def _sort(digests: bytes) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The order in which digests ascend, and the bucket of each, in the order in which they came."""
    words = np.frombuffer(digests, ">u8").reshape(-1, DIGEST_BYTES // 8)
    first = words[:, 0].astype(np.uint64)
    order = np.argsort(first)
    ascending = first[order]
    if bool((ascending[1:] == ascending[:-1]).any()):
        order = np.lexsort([words[:, number].astype(np.uint64) for number in range(DIGEST_BYTES // 8 - 1, -1, -1)])
    return order, (first >> np.uint64(_BUCKET_SHIFT)).astype(np.int64)


def _columns(buckets: Sequence[_Bucket]) -> Columns:
    records = [record for bucket in buckets for record in bucket.records]
    moments = np.frombuffer(b"".join([bucket.moments for bucket in buckets]), "<u8").astype(np.uint64, copy=False)
    return Columns(records, b"".join([bucket.digests for bucket in buckets]), moments)
