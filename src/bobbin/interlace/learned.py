"""What the peer advertises, as far as it has been told: claims for discovery, never facts (Lace-050).

An advertise phase brings this up to date. The peer lists its advertisement records, or summarises them by partition;
of the partitions that differ from what is held, this side asks for the records or for the next finer summaries. When
the phase ends, what is held is exactly what a full listing would have given: every count and root that the peer
announced is verified, and one that does not hold aborts the round. Then digests are let go: they follow from the rest,
and what is left is the same for all peers that claim the same.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.interlace import merkle
from bobbin.interlace.advertise import claim_digests
from bobbin.interlace.catalogue import Catalogue
from bobbin.interlace.claim_index import Claim, ClaimIndex
from bobbin.interlace.limits import CLAIMS_MAX, Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement, Partition, Shared
from bobbin.interlace.offers import Questions
from bobbin.interlace.partitioned import payload
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin

_CHILDREN: Final = 64
"""How many children a partition can have: one per B64A symbol."""

_RECORD_BYTES: Final = 1_024
"""What is reckoned for one advertisement record in a block: one with five fields and two verifiers has about 800."""

_RECORD: Final = attrgetter("record")

Own: TypeAlias = Callable[[str], Mapping[str, Advertisement]]
"""What this side offers under a prefix."""

Claimed: TypeAlias = Mapping[str, tuple[ClaimedField, ...]]


class Claims(Struct, frozen=True, kw_only=True):
    """How the peer's claims have changed."""

    claimed: Claimed
    withdrawn: frozenset[str]


class _Asked:
    """Questions of one block, with what was announced of the partitions that they are about."""

    def __init__(self) -> None:
        self.lists: Final[dict[str, Partition]] = {}
        self.narrows: Final[dict[str, Partition]] = {}

    def __bool__(self) -> bool:
        return bool(self.lists or self.narrows)


class Learned:
    """The peer's advertisement state, under one source label and schema."""

    def __init__(
        self,
        length: int,
        held: Iterable[Advertisement] = (),
        source: Origin | None = None,
        *,
        claims_max: int = CLAIMS_MAX,
        root: bytes = b"",
    ) -> None:
        """``held``, ``root``: what a cursor remembers from the last exchange. ``source``: who advertises."""
        self._length = length
        self._claims_max = claims_max
        self._source = source
        self._held: dict[str, Advertisement] | Catalogue = {}
        """A catalogue from when one is first needed."""
        self._read_up_to: tuple[object, int] | None = None
        """What was read directly last, and its version then."""
        self._index: ClaimIndex | None = None
        """Of what is held; None until somebody asks, and after a change by partitions. It is never changed itself."""
        self._root = b""
        """Of the index of what is held, where that is known without one."""
        self._checked: ClaimIndex | None = None
        """One that was looked at already, for ``check``."""
        self._claimed: set[str] = set()
        self._withdrawn: set[str] = set()
        self._is_all_new = False
        """Whether all that is held was claimed since the last ``changes``, and need not be in ``_claimed`` for that."""
        self._opened = False
        self._summaries = 0
        self._announced: dict[str, Partition] = {}
        """Summaries that were announced in this phase and must hold at its end."""
        self._to_ask: list[Partition] = []
        self._asked = _Asked()
        """Our questions of the block that went out last."""
        self._own: Own | None = None
        self._due = _Asked()
        """Those of the block before: the peer's next block answers them."""
        for advertisement in held:
            self._take(advertisement)
        self._root = root
        self.unsaved = False
        """Whether something has changed since the claims were saved; whoever saves them says so."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, record: str) -> bool:
        return record in self._held

    def advertisement(self, record: str) -> Advertisement | None:
        """What is claimed about a record now."""
        return self._held.get(record)

    def advertisements(self) -> tuple[Advertisement, ...]:
        """Everything that is claimed now, by record. What is not of a phase that is still going on has no digest."""
        return tuple(sorted(self._entries(), key=_RECORD))

    def summary(self) -> tuple[Partition, ...]:
        """Every non-empty partition of the claims, for statements."""
        return self._partitions.summaries()

    def begin_exchange(self) -> None:
        """The peer has said nothing yet on this link."""
        self._opened = False

    def begin_round(self) -> None:
        """The limit on summaries counts anew."""
        self._summaries = 0

    def having(self, records: Collection[str]) -> AbstractSet[str]:
        """Those of some records that are claimed now."""
        return self._held.having(records) if isinstance(self._held, Catalogue) else self._held.keys() & records

    def changes(self) -> Claims:
        """What has changed since the last call."""
        is_all = self._is_all_new or len(self._claimed) == len(self._held)
        # By the names that the catalogue has: these are held already.
        found = self._entries() if is_all else map(self._held.__getitem__, self._claimed)
        claimed = {one.record: one.fields for one in found}
        changes = Claims(claimed=claimed, withdrawn=frozenset(self._withdrawn))
        self._claimed, self._withdrawn, self._is_all_new = set(), set(), False
        return changes

    # ---- as a whole -----------------------------------------------------------------------------------------------

    @property
    def index(self) -> ClaimIndex:
        """The index of what is held."""
        if self._index is None:
            self._index = ClaimIndex(claims_of(list(self._entries())))
        return self._index

    @property
    def root(self) -> bytes:
        """The root of that index. A cursor may know it, and then nothing has to be hashed for it."""
        if self._index is None and self._root:
            return self._root
        return self.index.root()

    @property
    def known_root(self) -> bytes:
        """The same, if it is known without making an index; empty if not."""
        return self._root if self._index is None else self._index.root()

    def bare(self) -> Catalogue:
        """What is held, in a catalogue."""
        return self._partitions

    def nothing(self) -> Catalogue:
        """A catalogue of this source that has nothing in it."""
        return Catalogue(self._length, self._source, with_digests=False)

    def as_claimed(self, offered: Catalogue) -> Catalogue:
        """What this side offers, as the peer would claim it; to be changed. ``offered`` is bare."""
        return offered.of_source(self._source)

    def become(self, claims: Catalogue, index: ClaimIndex) -> None:
        """The peer claims just this, which was proven. ``index`` is that of ``claims``."""
        if len(claims) > len(self._held):
            self._check_room(len(claims) - len(self._held))
        self._root = b""
        if not self._held or self._is_all_new:
            # Whoever asks for the changes is told all of it: there is nothing to compare, however much it is.
            self.unsaved = self.unsaved or bool(self._held or claims)
            self._held, self._index, self._read_up_to, self._is_all_new = claims, index, None, True
            self._withdrawn = {record for record in self._withdrawn if record not in claims}
            return
        came, gone = self._partitions.changes_to(claims)
        self._held, self._index, self._read_up_to = claims, index, None
        names = [one.record for one in came]
        self._claimed.difference_update(gone)
        self._claimed.update(names)
        self._withdrawn.difference_update(names)
        self._withdrawn.update(gone)
        self.unsaved = self.unsaved or bool(came or gone)

    @property
    def is_settled(self) -> bool:
        """Whether no question about a partition is open."""
        return not (self._to_ask or self._asked or self._due)

    # ---- one advertise phase --------------------------------------------------------------------------------------

    def open(self, block: Advertise, limits: Limits, own: Own | None = None, *, complete: bool = False) -> None:
        """The peer's first block of an iteration. ``own``: what this side offers itself, to be recognised.

        ``complete``: it tells everything, even if it is not the first one of this exchange.
        """
        if block.lists or block.narrows:
            raise Abort(Reason.OUT_OF_PHASE, "the first block of an iteration asks about partitions")
        if block.records and block.partitions:
            raise Abort(Reason.MALFORMED_SUMMARY, "the first block of an iteration has both records and summaries")
        first, self._opened = complete or not self._opened, True
        self._announced, self._to_ask, self._asked, self._due = {}, [], _Asked(), _Asked()
        self._own = own
        self._count_summaries(block.partitions, limits)
        if block.direct is not None:
            self._read(block.direct)
        elif block.records or (first and not block.partitions):
            self.check_listing(block.records, limits)
            self._replace(set(self._held), block.records)
        elif block.partitions:
            self._hear_summaries(block.partitions, first=first)

    def hear(self, block: Advertise, limits: Limits) -> None:
        """A later block of the peer: it answers what we asked one block before."""
        self._count_summaries(block.partitions, limits)
        self.check_listing(block.records, limits)
        due, self._due, self._asked = self._due, self._asked, _Asked()
        self._hear_children(block.partitions, due.narrows)
        self._hear_records(block.records, due.lists)

    def ask(self, limits: Limits, service: Service) -> Questions:
        """What to ask in the next block."""
        asked = self._asked = _Asked()
        room = listed_at_once(limits)
        later: list[Partition] = []
        for partition in self._to_ask:
            if self._narrowing_helps(partition, limits, service):
                asked.narrows[partition.prefix] = partition
            elif partition.count > limits.max_advertisement_records_listed:
                raise LimitReached(
                    Reason.LISTING_LIMIT,
                    "max_advertisement_records_listed",
                    f"the partition {partition.prefix!r} has {partition.count} records and cannot be narrowed",
                )
            elif partition.count <= room or room == listed_at_once(limits):
                room -= partition.count
                asked.lists[partition.prefix] = partition
            else:
                later.append(partition)
        self._to_ask = later
        return Questions(lists=tuple(sorted(asked.lists)), narrows=tuple(sorted(asked.narrows)))

    def end_phase(self) -> None:
        """The phase is over: whatever was announced must now be what is held."""
        if not self.is_settled:
            raise Abort(Reason.OUT_OF_PHASE, "the advertise phase ended with questions open")
        for prefix, partition in self._announced.items():
            self._verify(prefix, partition)
        self._announced = {}
        if self._read_up_to is None:
            self._partitions.share()

    def check(self) -> None:
        """The partitions summarise exactly what is held."""
        if isinstance(self._held, Catalogue):
            self._held.check()
        if self._index is not None and self._index is not self._checked:
            self._checked = self._index
            fresh = ClaimIndex(claims_of(list(self._entries())))
            assert self._index.root() == fresh.root(), "the index is of what is held"
        if self._root:
            assert self._root == self.index.root(), "what a cursor said is of what is held"
        assert all(record in self._held for record in self._claimed), "what is claimed is held"
        assert self._withdrawn.isdisjoint(self._held), "what is withdrawn is not held"

    # ---- what needs no question -----------------------------------------------------------------------------------

    def _recognise(self, partition: Partition) -> bool:
        """Take a partition in which the peer claims what was known of it together with what this side offers there.

        After a transfer that is the rule: now both have what one of them had. Counts tell most other cases apart, and
        a root that is the same can only be of the same claims.
        """
        if self._own is None or self._source is None:
            return False
        own, held = self._own(partition.prefix), self._partitions.under(partition.prefix)
        if not own:
            return False
        for guess in (own,) if held.keys() <= own.keys() else (own, {**own, **held}):
            if len(guess) != partition.count:
                continue
            claims = {
                record: held.get(record) or Advertisement(record=record, fields=one.fields)
                for record, one in guess.items()
            }
            if self._partitions.summarise(partition.prefix, claims) == partition:
                self._replace(list(held), claims.values())
                self._partitions.note(partition)
                return True
        return False

    # ---- parts ----------------------------------------------------------------------------------------------------

    @property
    def _partitions(self) -> Catalogue:
        if not isinstance(self._held, Catalogue):
            catalogue = Catalogue(self._length, self._source, with_digests=False)
            catalogue.update(self._held)
            self._held = catalogue
        return self._held

    def _read(self, shared: Shared) -> None:
        """Take over what the other side of this process offers: only what has changed, if that can be told."""
        current = shared.current()
        changed = None
        if self._read_up_to is not None and self._read_up_to[0] is shared.owner:
            changed = shared.since(self._read_up_to[1])
        if self._source != shared.source:
            # A catalogue is of one source.
            self._source, self._held = shared.source, dict(self._held)
        self._read_up_to = shared.owner, shared.version
        if changed is None:
            changed = self._held.keys() | current.keys()
        touched = set(changed)
        self._replace(touched & self._held.keys(), [current[one] for one in touched if one in current])

    def _hear_summaries(self, partitions: tuple[Partition, ...], *, first: bool) -> None:
        for partition in partitions:
            if len(partition.prefix) != self._length:
                raise Abort(
                    Reason.MALFORMED_SUMMARY, f"a partition starts with {self._length} symbols: {partition.prefix!r}"
                )
            if first and not partition.count:
                raise Abort(Reason.MALFORMED_SUMMARY, f"the partition {partition.prefix!r} is empty and was sent")
            self._announced[partition.prefix] = partition
            self._compare(partition)
        if first:
            # What the first block leaves out is empty.
            gone = set(self._partitions.prefixes()) - self._announced.keys()
            for prefix in gone:
                self._replace(self._partitions.members(prefix), ())

    def _hear_children(self, children: tuple[Partition, ...], asked: Mapping[str, Partition]) -> None:
        counts = dict.fromkeys(asked, 0)
        named: dict[str, set[str]] = {prefix: set() for prefix in asked}
        for child in children:
            parent = child.prefix[:-1]
            if parent not in asked:
                raise Abort(Reason.MALFORMED_SUMMARY, f"nobody asked for the partition {child.prefix!r}")
            if not child.count:
                raise Abort(Reason.MALFORMED_SUMMARY, f"the partition {child.prefix!r} is empty and was sent")
            counts[parent] += child.count
            named[parent].add(child.prefix)
        for prefix, partition in asked.items():
            if counts[prefix] != partition.count:
                raise Abort(
                    Reason.ROOT_MISMATCH,
                    f"the partition {prefix!r} was announced with {partition.count} records, "
                    f"its children have {counts[prefix]}",
                )
            for held in self._partitions.children(prefix):
                if held.prefix not in named[prefix]:
                    self._replace(self._partitions.members(held.prefix), ())
            # A payload that ends with the prefix lies in no child, and so the peer does not have it.
            strays = [record for record in self._partitions.members(prefix) if len(payload(record)) <= len(prefix)]
            self._replace(strays, ())
        for child in children:
            self._compare(child)

    def _hear_records(self, records: tuple[Advertisement, ...], asked: Mapping[str, Partition]) -> None:
        listed: dict[str, list[Advertisement]] = {prefix: [] for prefix in asked}
        lengths = sorted({len(prefix) for prefix in asked})
        for advertisement in records:
            digest = payload(advertisement.record)
            home = next((digest[:length] for length in lengths if digest[:length] in listed), None)
            if home is None:
                raise Abort(Reason.MALFORMED_BLOCK, f"nobody asked for the advertisement of {advertisement.record}")
            listed[home].append(advertisement)
        for prefix, partition in asked.items():
            self._replace(self._partitions.members(prefix), listed[prefix])
            self._verify(prefix, partition)

    def _compare(self, partition: Partition) -> None:
        """Ask about a partition that is not what is held; one that has become empty needs no question."""
        if not partition.count:
            if partition.root != merkle.EMPTY:
                raise Abort(Reason.MALFORMED_SUMMARY, f"the empty partition {partition.prefix!r} has another root")
            self._replace(self._partitions.members(partition.prefix), ())
        elif self._partitions.summary(partition.prefix) != partition and not self._recognise(partition):
            self._to_ask.append(partition)

    def _narrowing_helps(self, partition: Partition, limits: Limits, service: Service) -> bool:
        depth = len(partition.prefix) - self._length
        if depth >= limits.max_narrowing_depth:
            return False
        if partition.count > listed_at_once(limits):
            return True
        affordable = self._summaries + (len(self._asked.narrows) + 1) * _CHILDREN <= limits.max_partition_summaries
        held = self._partitions.summary(partition.prefix).count
        return affordable and partition.count > service.list_partition_max and 2 * held >= partition.count

    def _verify(self, prefix: str, partition: Partition) -> None:
        held = self._partitions.summary(prefix)
        if held != partition:
            raise Abort(
                Reason.ROOT_MISMATCH,
                f"the partition {prefix!r} was announced with {partition.count} records under another root "
                f"than the {held.count} that were listed",
            )

    def _replace(self, old: Iterable[str], new: Iterable[Advertisement]) -> None:
        """What was held in some place is now this. ``old`` has everything that was held there."""
        incoming = {advertisement.record: advertisement for advertisement in new}
        self._index, self._root = None, b""
        before = set(old)
        if not before:
            self._take_new(incoming)
            return
        for record in before - incoming.keys():
            del self._held[record]
            self._claimed.discard(record)
            self._withdrawn.add(record)
            self.unsaved = True
        for advertisement in incoming.values():
            self._take(advertisement)

    def _take(self, advertisement: Advertisement) -> None:
        record = advertisement.record
        known = self._held.get(record)
        if (
            known is not None
            and known.fields == advertisement.fields
            and _may_be_equal(known.digest, advertisement.digest)
        ):
            return
        if known is None:
            self._check_room(1)
        self._held[record] = advertisement
        self._claimed.add(record)
        self._withdrawn.discard(record)
        self.unsaved = True

    def _take_new(self, incoming: dict[str, Advertisement]) -> None:
        """Take claims about records of which nothing was claimed."""
        if not incoming:
            return
        self._check_room(len(incoming))
        if isinstance(self._held, Catalogue):
            self._held.add_all(incoming)
        else:
            self._held.update(incoming)
        self._claimed.update(incoming)
        self._withdrawn.difference_update(incoming)
        self.unsaved = True

    def _check_room(self, more: int) -> None:
        if len(self._held) + more > self._claims_max:
            raise LimitReached(
                Reason.LISTING_LIMIT, "claims_max", f"the peer advertises more than {self._claims_max} records"
            )

    def _entries(self) -> Iterable[Advertisement]:
        return self._held.entries() if isinstance(self._held, Catalogue) else self._held.values()

    def check_listing(self, records: tuple[Advertisement, ...], limits: Limits) -> None:
        """Refuse a listing that is longer than agreed on."""
        if len(records) > limits.max_advertisement_records_listed:
            raise LimitReached(
                Reason.LISTING_LIMIT,
                "max_advertisement_records_listed",
                f"the peer lists {len(records)} advertisement records at once; "
                f"{limits.max_advertisement_records_listed} are the most",
            )

    def _count_summaries(self, partitions: tuple[Partition, ...], limits: Limits) -> None:
        self._summaries += len(partitions)
        if self._summaries > limits.max_partition_summaries:
            raise LimitReached(
                Reason.SUMMARY_LIMIT,
                "max_partition_summaries",
                f"the peer sends more than {limits.max_partition_summaries} partition summaries",
            )


def claims_of(advertisements: Collection[Advertisement]) -> list[Claim]:
    """What an index keeps of a peer's advertisements. When a record was made is not known."""
    digests = claim_digests([(one.record, one.fields) for one in advertisements])
    return [Claim(one.record, digest, 0) for one, digest in zip(advertisements, digests, strict=True)]


def listed_at_once(limits: Limits) -> int:
    """How many advertisement records may be asked for in one block, so that it has room for them."""
    return min(limits.max_advertisement_records_listed, max(limits.max_fact_block_size // _RECORD_BYTES, 1))


def _may_be_equal(one: bytes, other: bytes) -> bool:
    """Whether two digests do not differ; one that was not computed says nothing."""
    return one == other or not (one and other)
