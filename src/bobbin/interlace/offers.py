"""What this side advertises: one advertisement record for every record of its effective send set (Lace-050).

Advertisements and summaries come from here and from nowhere else, and what is here is what may be sent: nothing about
a withheld record can be read off a listing, a count, a root or the presence of a partition.

A record never changes, so its advertisement under one source label and one schema never changes either. What was
computed once stays, and an update costs what came and went. Once a peer has been told summaries, what is offered is in
a catalogue, which links to other peers share as far as they offer the same.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.interlace.advertise import claim_digests, digested
from bobbin.interlace.built import Built
from bobbin.interlace.catalogue import Catalogue
from bobbin.interlace.choice import Strategy
from bobbin.interlace.claim_index import Claim, ClaimIndex
from bobbin.interlace.limits import VALUE_MAX, Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement, Partition
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin

_TOUCHED_MIN: Final = 1_024
_SAMPLE: Final = 64
"""About so many claims of an index that was kept are made anew, and compared with it."""
_QUESTIONS_PER_SUMMARY: Final = 2
"""A partition is narrowed once and listed once, at most."""
_OUTRIGHT_MAX: Final = {Strategy.LISTING: VALUE_MAX, Strategy.PARTITIONS: 0}

FindBuilt: TypeAlias = Callable[[Sequence[tuple[str, tuple[ClaimedField, ...]]]], Built | None]
"""What was computed beforehand of some advertisements, if anything was."""
MakeClaims: TypeAlias = Callable[[Collection[Advertisement]], Iterable[Claim]]
"""What the index keeps of some advertisements."""


class Questions(Struct, frozen=True, kw_only=True):
    """What the peer asks about this side's partitions in one block."""

    lists: tuple[str, ...]
    narrows: tuple[str, ...]


class News(Struct, frozen=True, kw_only=True):
    """What has come and gone from one announcement to the next."""

    base: bytes | None = None
    """The root of what was announced before; None if nothing was, or nobody knows."""
    added: tuple[str, ...] = ()
    gone: Mapping[str, Advertisement] = {}


class Lent(Struct, frozen=True, kw_only=True):
    """The advertisements of one moment (``messages.Shared``)."""

    owner: "Offers"
    source: Origin | None
    version: int
    advertisements: Mapping[str, Advertisement]

    def current(self) -> Mapping[str, Advertisement]:
        """Everything that was offered at this moment."""
        return self.advertisements

    def since(self, version: int) -> Collection[str] | None:
        """The records that came or went from then to this moment; None if that is too long ago to say."""
        return self.owner.between(version, self.version)


class Offers:
    """The current advertisements of one side, and how much of them the peer has been told."""

    def __init__(self, length: int, source: Origin | None = None) -> None:
        """``length``: of the prefixes that partitions start with.

        ``source``: who offers. With it, advertisements may come without digest; those are computed when a summary is
        first asked for.
        """
        self.length: Final = length
        self._source = source
        self._held: dict[str, Advertisement] | Catalogue = {}
        """A catalogue from when one is first needed: two sides in one process never do."""
        self._touched: list[str] = []
        """Records that came or went, for whoever reads directly; ``_forgotten`` of them are no longer listed."""
        self._forgotten = 0
        self._is_lent = False
        self._is_read = False
        """Whether anything was ever lent."""
        self._unannounced: set[str] = set()
        """Came in since the last opening block."""
        self._gone: dict[str, Advertisement] = {}
        """Announced in the last opening block and gone since."""
        self._index: ClaimIndex | None = None
        self._make_claims: MakeClaims | None = None
        self._kept: ClaimIndex | None = None
        """An index of some time before, which is adapted to the first update."""
        self._is_from_kept = False
        """Whether the index began as one that was kept, and was not made anew since."""
        self._announced_root: bytes | None = None
        self._checked_root: bytes | None = None
        """Of an index that was looked at already, for ``check``."""
        self.find_built: FindBuilt | None = None
        """Asked when everything is first summarised without digests, and then no more."""
        self._opened = False
        self._summaries = 0
        self._questions = 0
        """That the peer has asked in this iteration."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, record: str) -> bool:
        return record in self._held

    def having(self, records: Collection[str]) -> AbstractSet[str]:
        """Those of some records that are offered."""
        return self._held.having(records) if isinstance(self._held, Catalogue) else self._held.keys() & records

    def under(self, prefix: str) -> Mapping[str, Advertisement]:
        """What is offered of a partition, or of a part of one."""
        return self._partitions.under(prefix)

    # ---- the standing index ----------------------------------------------------------------------------------------

    @property
    def index(self) -> ClaimIndex:
        """The index of what is offered now, which advances with it (``keep_index``)."""
        assert self._index is not None, "an index is kept"
        return self._index

    @property
    def standing_index(self) -> ClaimIndex | None:
        """The index of what is offered now, if one is kept."""
        return None if self._kept is not None else self._index

    def keep_index(self, make_claims: MakeClaims, kept: ClaimIndex | None = None) -> None:
        """Have an index, from now on. ``kept``: one of what was offered at some time, if there is one."""
        if not isinstance(self._held, Catalogue) or not self._held.is_bare:
            bare = Catalogue(self.length, self._source, with_digests=False)
            bare.add_all({one: Advertisement(record=one, fields=ad.fields) for one, ad in self._held.items()})
            self._held, self._is_lent = bare, False
        if self._index is None:
            self._index = ClaimIndex(make_claims(list(self._held.entries())))
            # It has claims of what comes in with the first update.
            self._kept = None if self._held else kept
            self._announced_root = None
            self._is_from_kept = False
        self._make_claims = make_claims

    def note_built(self, built: Built) -> None:
        """Take the summaries of those partitions that have just the records that are offered there."""
        for partition in built.partitions if self._held else ():
            if built.has_all(partition, self._partitions.under(partition.prefix)):
                self._partitions.note(partition)

    def drop_index(self) -> None:
        """Nobody needs the index; it would no longer be kept up to date."""
        self._index = self._make_claims = self._kept = self._announced_root = self.find_built = None

    def _advance_index(self, make_claims: MakeClaims, added: Collection[Advertisement], gone: Collection[str]) -> None:
        if self._kept is not None:
            # A record never changes, so only claims that were never made are made now.
            self._index, self._kept = self._kept, None
            missing = self._index.adapt(self._held)
            known = [one for one in added if one.record not in missing]
            self._is_from_kept = self._has_true_digests(known[:: len(known) // _SAMPLE + 1])
            if self._is_from_kept:
                added = [one for one in added if one.record in missing]
            gone = ()
        self.index.update(make_claims(added), gone)

    def _has_true_digests(self, some: Collection[Advertisement]) -> bool:
        """Whether the index says of some advertisements what is said of them now."""
        digests = claim_digests([(one.record, one.fields) for one in some])
        return digests == [self.index.digest(one.record) for one in some]

    def renew_index(self) -> bool:
        """Make an index anew that began as one that was kept; whether another root shows that it was not true."""
        if not self._is_from_kept or self._make_claims is None:
            return False
        before = self.index.root()
        self.index.update(self._make_claims(list(self.bare().entries())), ())
        self._is_from_kept = False
        if self._announced_root == before:
            self._announced_root = self.index.root()
        return self.index.root() != before

    def bare(self) -> Catalogue:
        """What is offered, as it is the same whoever offers it. Only with an index."""
        assert isinstance(self._held, Catalogue), "an index is kept"
        return self._held

    # ---- for direct reading -----------------------------------------------------------------------------------------

    def lend(self) -> "Lent":
        """This moment, for the other side of the same process to read."""
        self._is_lent = self._is_read = True
        version = self._forgotten + len(self._touched)
        return Lent(owner=self, source=self._source, version=version, advertisements=self._held)

    def current(self) -> Mapping[str, Advertisement]:
        """Everything that is offered now."""
        return self._held

    def between(self, earlier: int, later: int) -> Collection[str] | None:
        """The records that came or went between two versions; None if that is too long ago to say."""
        first = earlier - self._forgotten
        return None if first < 0 else self._touched[first : later - self._forgotten]

    # ---- an exchange ----------------------------------------------------------------------------------------------

    def begin_exchange(self) -> None:
        """Nothing has been said yet on this link."""
        self._opened = False

    def begin_round(self) -> None:
        """The limit on summaries counts anew."""
        self._summaries = 0

    def update(self, added: Iterable[Advertisement], removed: Collection[str]) -> None:
        """Follow a change of the effective send set."""
        added = tuple(added)
        if self._is_lent and (added or removed):
            # Whoever reads what was lent goes on seeing that moment.
            self._held = self._held.copy()
            self._is_lent = False
        for record in removed:
            known = self._held.pop(record, None)
            if known is None:
                continue
            self._touched.append(record)
            if record in self._unannounced:
                self._unannounced.remove(record)
            else:
                self._gone[record] = known
        fresh = {one.record: one for one in added}
        for record in self.having(fresh):
            self._held[record] = fresh.pop(record)
        if isinstance(self._held, Catalogue):
            self._held.add_all(fresh)
        else:
            self._held.update(fresh)
        self._touched += fresh
        # A record never changes, and so neither does its advertisement: what is back is no news.
        self._unannounced.update(fresh.keys() - self._gone if self._gone else fresh)
        for record in self._gone.keys() & fresh.keys():
            del self._gone[record]
        self._forget_old()
        if self._make_claims is not None:
            self._advance_index(self._make_claims, added, removed)

    @property
    def has_news(self) -> bool:
        """Whether something came or went since the last opening block."""
        return bool(self._unannounced or self._gone)

    def was_announced(self, record: str) -> bool:
        """Whether the peer can know of a record from the last opening block."""
        return record in self._held and record not in self._unannounced

    def announced(self) -> Iterator[Advertisement]:
        """What the peer can know of from the last opening block, also what has gone since."""
        return chain(
            (one for record, one in self._held.items() if record not in self._unannounced), self._gone.values()
        )

    def opening(
        self, limits: Limits, service: Service, *, direct: bool = False, strategy: Strategy = Strategy.AUTO
    ) -> Advertise:
        """The first block of an iteration, without tick. What is in it counts as announced."""
        if self._opened and not self.has_news:
            block = Advertise()
        elif direct:
            block = Advertise(direct=self.lend())
        else:
            block = self._first_block(limits, service, strategy, complete=not self._opened)
        self.announce()
        return block

    def announce(self) -> News:
        """What is offered now counts as announced; returns what has changed since the last time."""
        news = News(base=self._announced_root, added=tuple(self._unannounced), gone=self._gone)
        self._opened = True
        self._questions = 0
        if isinstance(self._held, Catalogue):
            self._held.share()
        self._unannounced.clear()
        self._gone = {}
        self._announced_root = None if self._index is None else self._index.root()
        return news

    def tell_all(self, limits: Limits, service: Service, strategy: Strategy = Strategy.AUTO) -> Advertise:
        """Everything that was announced, as a first block says it to somebody who knows nothing."""
        return self._first_block(limits, service, strategy, complete=True)

    def list_some(self, records: Collection[str], limits: Limits) -> tuple[Advertisement, ...]:
        """The advertisement records of some records that are offered."""
        return self._list(records, limits)

    def answer(self, questions: Questions, limits: Limits) -> Advertise:
        """Children and records of the partitions that the peer asks about, from the set that was announced."""
        self._count_questions(questions, limits)
        children: list[Partition] = []
        for prefix in questions.narrows:
            self._check_prefix(prefix, limits, deeper=1)
            children += self._partitions.children(prefix)
        self._spend(len(children), limits)
        records: list[str] = []
        for prefix in questions.lists:
            self._check_prefix(prefix, limits, deeper=0)
            records += self._partitions.members(prefix)
        return Advertise(records=self._list(records, limits), partitions=tuple(children))

    def summary(self) -> tuple[Partition, ...]:
        """Every non-empty partition, for statements."""
        return self._partitions.summaries()

    def check(self) -> None:
        """The partitions summarise exactly the advertisements."""
        if isinstance(self._held, Catalogue):
            self._held.check()
        assert self._unannounced <= self._held.keys(), "what is gone is not waiting to be announced"
        if self._index is not None and self._index.root() != self._checked_root:
            self._index.check()
            self._checked_root = self._index.root()
            assert len(self._index) == len(self._held), "the index is of what is offered"
            assert all(record in self._index for record in self._held), "what is offered is in the index"
            if not self._is_from_kept:
                assert self._has_true_digests(list(self.bare().entries())), "the index is of the fields as they are"

    @property
    def _partitions(self) -> Catalogue:
        if not isinstance(self._held, Catalogue):
            catalogue = Catalogue(self.length, self._source, with_digests=True)
            catalogue.update(self._held)
            self._held, self._is_lent = catalogue, False
        return self._held

    def _digest(self, advertisement: Advertisement) -> Advertisement:
        if advertisement.digest:
            return advertisement
        assert self._source is not None, "advertisements without digest come with their source"
        return digested(advertisement, self._source)

    def _forget_old(self) -> None:
        """What has changed long ago is not worth remembering: reading everything is cheaper then."""
        if not self._is_read or len(self._touched) > 2 * len(self._held) + _TOUCHED_MIN:
            self._forgotten += len(self._touched)
            self._touched = []

    def _first_block(self, limits: Limits, service: Service, strategy: Strategy, *, complete: bool) -> Advertise:
        outright = _OUTRIGHT_MAX.get(strategy, service.list_outright_max)
        if self and len(self) <= min(outright, limits.max_advertisement_records_listed):
            return Advertise(records=self._list(self._held, limits))
        return self._summarise(limits, complete=complete)

    def _summarise(self, limits: Limits, *, complete: bool) -> Advertise:
        if not complete:
            prefixes = self._partitions.prefixes_of(chain(self._unannounced, self._gone))
            partitions = tuple(map(self._partitions.summary, sorted(prefixes)))
        else:
            find, self.find_built = self.find_built, None
            if find is not None and self._held:
                built = find([(one.record, one.fields) for one in self._partitions.entries()])
                if built is not None:
                    self.note_built(built)
            partitions = self._partitions.summaries()
        over = self._summaries + len(partitions) > limits.max_partition_summaries
        if over and self and len(self) <= limits.max_advertisement_records_listed:
            return Advertise(records=self._list(self._held, limits))
        self._spend(len(partitions), limits)
        return Advertise(partitions=partitions)

    def _list(self, records: Collection[str], limits: Limits) -> tuple[Advertisement, ...]:
        if len(records) > limits.max_advertisement_records_listed:
            raise LimitReached(
                Reason.LISTING_LIMIT,
                "max_advertisement_records_listed",
                f"{len(records)} advertisement records are to be listed; "
                f"{limits.max_advertisement_records_listed} are the most",
            )
        held = self._held
        return tuple([self._digest(held[record]) for record in sorted(records)])

    def _spend(self, summaries: int, limits: Limits) -> None:
        self._summaries += summaries
        if self._summaries > limits.max_partition_summaries:
            raise LimitReached(
                Reason.SUMMARY_LIMIT,
                "max_partition_summaries",
                f"more than {limits.max_partition_summaries} partition summaries would be sent",
            )

    def _count_questions(self, questions: Questions, limits: Limits) -> None:
        """Nobody who means well asks about more partitions than there can be summaries."""
        self._questions += len(questions.lists) + len(questions.narrows)
        if self._questions > _QUESTIONS_PER_SUMMARY * limits.max_partition_summaries:
            raise LimitReached(
                Reason.SUMMARY_LIMIT,
                "max_partition_summaries",
                f"the peer has asked {self._questions} times about partitions",
            )

    def _check_prefix(self, prefix: str, limits: Limits, *, deeper: int) -> None:
        """A question is about a partition that can exist."""
        depth = len(prefix) - self.length
        if depth < 0:
            raise Abort(Reason.MALFORMED_SUMMARY, f"a prefix has at least {self.length} symbols, not {len(prefix)}")
        if depth + deeper > limits.max_narrowing_depth:
            raise Abort(
                Reason.NARROWING_LIMIT, f"{prefix!r} lies below {limits.max_narrowing_depth} steps of narrowing"
            )
