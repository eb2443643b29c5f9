"""What this side advertises: one advertisement record for every record of its effective send set (Lace-050).

Advertisements and summaries come from here and from nowhere else, and what is here is what may be sent: nothing about
a withheld record can be read off a listing, a count, a root or the presence of a partition.

A record never changes, so its advertisement under one source label and one schema never changes either. What was
computed once stays, and an update costs what came and went. Once a peer has been told summaries, what is offered is in
a catalogue, which links to other peers share as far as they offer the same.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final

from msgspec import Struct

from bobbin.interlace.advertise import digested
from bobbin.interlace.catalogue import Catalogue
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement, Partition
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.policy.operands import Origin

_TOUCHED_MIN: Final = 1_024
_QUESTIONS_PER_SUMMARY: Final = 2
"""A partition is narrowed once and listed once, at most."""


class Questions(Struct, frozen=True, kw_only=True):
    """What the peer asks about this side's partitions in one block."""

    lists: tuple[str, ...]
    narrows: tuple[str, ...]


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
        self._length = length
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
        self._gone: set[str] = set()
        """Announced in the last opening block and gone since."""
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
                self._gone.add(record)
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
        self._gone.difference_update(fresh)
        self._forget_old()

    @property
    def has_news(self) -> bool:
        """Whether something came or went since the last opening block."""
        return bool(self._unannounced or self._gone)

    def was_announced(self, record: str) -> bool:
        """Whether the peer can know of a record from the last opening block."""
        return record in self._held and record not in self._unannounced

    def opening(self, limits: Limits, service: Service, *, direct: bool = False) -> Advertise:
        """The first block of an iteration, without tick. What is in it counts as announced."""
        if self._opened and not self.has_news:
            block = Advertise()
        elif direct:
            block = Advertise(direct=self.lend())
        elif self and len(self) <= min(service.list_outright_max, limits.max_advertisement_records_listed):
            block = Advertise(records=self._list(self._held, limits))
        else:
            block = self._summarise(limits)
        self._opened = True
        self._questions = 0
        if isinstance(self._held, Catalogue):
            self._held.share()
        self._unannounced.clear()
        self._gone.clear()
        return block

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

    @property
    def _partitions(self) -> Catalogue:
        if not isinstance(self._held, Catalogue):
            catalogue = Catalogue(self._length, self._source, with_digests=True)
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

    def _summarise(self, limits: Limits) -> Advertise:
        if self._opened:
            prefixes = self._partitions.prefixes_of(chain(self._unannounced, self._gone))
            partitions = tuple(map(self._partitions.summary, sorted(prefixes)))
        else:
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
        depth = len(prefix) - self._length
        if depth < 0:
            raise Abort(Reason.MALFORMED_SUMMARY, f"a prefix has at least {self._length} symbols, not {len(prefix)}")
        if depth + deeper > limits.max_narrowing_depth:
            raise Abort(
                Reason.NARROWING_LIMIT, f"{prefix!r} lies below {limits.max_narrowing_depth} steps of narrowing"
            )
