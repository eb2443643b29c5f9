"""What one exchange reads of a store, and how it writes there.

Each evaluation looks at one snapshot: what the store says has changed since the last one, and the peer's claims, go
through the standing decision of the plan. Everything else (bytes, what is absent) is of the present. Descriptions are
too, but for many records at once, which are described as of the last evaluation.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Final

import msgspec
from msgspec import structs

from bobbin.errors import ResourceError, UsageError
from bobbin.interlace.built import Built
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist, Remember, SaveCursor
from bobbin.interlace.events import Fate, Settled
from bobbin.interlace.messages import Advertisement, Delivered
from bobbin.interlace.ports import Evaluated, Memory, Question
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.modules import Selector
from bobbin.policy.operands import Index
from bobbin.policy.plan import Plan
from bobbin.policy.standing import ClaimedFields, Shift
from bobbin.records.canonical import MARK
from bobbin.records.ids import HashText, IdentifierError
from bobbin.records.reasons import Reason
from bobbin.records.record import Record
from bobbin.runtime import work
from bobbin.runtime.claim_indexes import kind_of
from bobbin.runtime.decisions import Decisions, Held
from bobbin.runtime.sealed_cursors import sealed, unsealed
from bobbin.runtime.work import Invalid, Validated
from bobbin.runtime.workers import Validators
from bobbin.store.base import (
    Builds,
    DamagedStore,
    LostMark,
    Mark,
    Outcome,
    Rejected,
    Snapshot,
    StoreChanges,
    takes_records,
)

_UNIT_RECORDS_MAX: Final = 256
_ELSEWHERE_MIN: Final = 64
"""Fewer arrivals are checked here before another process has even heard of them."""
_RELOAD_MIN: Final = 20_000
"""From so many new records on, and if they are more than there were before, all is loaded in one pass instead."""
_DESCRIBE_MIN: Final = 4_096
"""For fewer records the store is asked: what the decision holds is looked through as a whole."""

_TOGETHER_RECORDS_MAX: Final = 512
_TOGETHER_BYTES_MAX: Final = 1024 * 1024
"""What is read of the store at a time, for a peer that has asked for it."""

_FATES: Final = {
    Outcome.STORED: Fate.STORED,
    Outcome.DUPLICATE: Fate.DUPLICATE,
    Outcome.REFUSED: Fate.REFUSED,
}


class StoreHoldings:
    """The holdings of one link (``interlace.ports``), over a store and its standing decisions."""

    def __init__(self, decisions: Decisions, *, validators: Validators | None = None) -> None:
        """``validators``: worker processes that check what arrives, if it is much; else it is checked in this one."""
        self._decisions: Final = decisions
        self._store: Final = decisions.store
        self._validators: Final = validators
        self._held: Held | None = None
        self._is_first = True
        self._takes: Final = takes_records(self._store)
        """What cannot be stored here is not asked for."""
        self._expected: Sequence[str] = ()
        self._covered = 0
        """How many of those have been read already, or found not to be there."""
        self._read: dict[str, bytes] = {}
        """Of what is expected, that which was read and not asked for yet."""

    # ---- the policy -----------------------------------------------------------------------------------------------

    def prepare(self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes) -> LocalPolicy:
        """The plan made ready to run. Raises ``PeerError`` for a module that is none."""
        return self._decisions.prepare(plan, index, own=own, peer_module=peer_module)

    def module(self, identifier: str) -> bytes | None:
        """The canonical bytes of a module that is known here."""
        return self._decisions.module(identifier)

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        """A new epoch: from now on evaluations are of this policy.

        Where the last exchange on this link ended at a fixed point, under this policy and schema, its memory comes
        back, and the next evaluation tells the change since. Otherwise evaluations start from nothing.
        """
        self.release()
        held = self._held = self._decisions.borrow(policy)
        link = None if key is None else (key, schema)
        memory = held.memory if link is not None and held.link == link else None
        held.memory, held.link = None, link
        self._is_first = memory is None
        return memory

    def remember(self, effect: Remember) -> None:
        """Keep what the link knows, for the next exchange. The next evaluation, which moves it, takes it back."""
        held = self._held
        if held is None or held.link is None or held.link[0] != effect.key:
            raise UsageError(f"{effect.key} is not the link that this exchange began with")
        held.memory = effect.memory
        index = effect.memory.offers.standing_index
        if index is not None and held.mark is not None:
            self._decisions.indexes.put(kind_of(held.standing.policy, held.link[1]), index, held.mark)

    def release(self) -> None:
        """The exchange is over: give the decision back, for the next one."""
        if self._held is not None:
            self._decisions.give_back(self._held)
            self._held = None

    # ---- evaluation -----------------------------------------------------------------------------------------------

    def evaluate(self, question: Question) -> Evaluated:
        """One evaluation over one explicit snapshot of everything. Raises ``LimitExceeded`` rather than shorten."""
        held = self._held
        if held is None:
            raise UsageError("an evaluation is of a policy; begin with one")
        standing = held.standing
        claimed, withdrawn = question.claimed, question.withdrawn
        if self._is_first:
            # The decision may still know what the peer claimed last time. What it claims again need not be told again.
            withdrawn = frozenset(standing.claimed.keys() - claimed.keys())
        # Worthless, should anything fail.
        before, held.mark, held.memory = held.mark, None, None
        with self._store.snapshot() as now:
            before, changes = _changes(now, before)
            if before is None or _is_overwhelming(changes, before) or not standing.is_usable:
                claimed = {**standing.claimed, **claimed} if not self._is_first else claimed
                claimed = {record: fields for record, fields in claimed.items() if record not in withdrawn}
                shift = self._reload(held, now, question, claimed)
            else:
                shift = standing.advance(
                    now.facts,
                    runtime=question.runtime,
                    stored=now.facts_after(before.high_water, standing.fields) if changes.stored else (),
                    removed=changes.removed,
                    claimed=claimed,
                    withdrawn=withdrawn,
                )
        held.mark = changes.mark
        held.unwritten += _weight(shift, changes)
        if self._is_first:
            self._is_first = False
            wanted = frozenset(standing.may_request) if self._takes else frozenset()
            self._expect_arrivals(wanted)
            return Evaluated(send_added=frozenset(standing.may_send), request_added=wanted)
        wanted = shift.request_added if self._takes else frozenset()
        self._expect_arrivals(wanted)
        return Evaluated(
            send_added=shift.send_added,
            send_removed=shift.send_removed,
            request_added=wanted,
            request_removed=shift.request_removed if self._takes else frozenset(),
            moved=frozenset(chain(changes.stored, changes.removed, changes.refused, changes.lifted)),
        )

    def _expect_arrivals(self, wanted: Collection[str]) -> None:
        """Have workers start while the peer is asked, where it is likely that much will come."""
        if self._validators is not None and len(wanted) >= _ELSEWHERE_MIN:
            with suppress(ResourceError):  # Then what comes is checked here.
                self._validators.make_ready()

    @staticmethod
    def _reload(held: Held, now: Snapshot, question: Question, claimed: ClaimedFields) -> Shift:
        """Everything from nothing, told as the difference from what it was."""
        standing = held.standing
        sent, wanted = frozenset(standing.may_send), frozenset(standing.may_request)
        shift = standing.load(now.facts, question.runtime, claimed)
        return Shift(
            send_added=shift.send_added - sent,
            send_removed=sent - shift.send_added,
            request_added=shift.request_added - wanted,
            request_removed=wanted - shift.request_added,
        )

    # ---- the present ----------------------------------------------------------------------------------------------

    def absent(self, records: Collection[str]) -> frozenset[str]:
        """Those that are neither stored here nor refused, at this moment."""
        return self._store.absent(records)

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        """The fields of stored records that a schema names, in canonical order; None for one that is not stored.

        Many that were just found to be sendable are described from what they were found with: records never change.
        """
        if len(records) >= _DESCRIBE_MIN and not schema.all:
            teller = self._decisions if self._held is None else self._held.standing
            known = teller.describe(records, schema.names)
            if known is not None:
                return list(known)
        described = self._store.fields(list(records), None if schema.all else schema.names)
        return [None if fields is None else tuple([ClaimedField(*field) for field in fields]) for fields in described]

    def expect(self, records: Sequence[str]) -> None:
        """These are loaded next: many are read together, in pieces of a bounded size, when the first is asked for."""
        self._expected, self._covered, self._read = records, 0, {}

    def load(self, record: str) -> bytes | None:
        """The bytes of a record, if it is stored at this moment, undamaged: one damaged record holds up no others."""
        found = self._read.pop(record, None) or self._read_on(record)
        if found is not None:
            return found
        try:
            return self._store.get(HashText(record))
        except (IdentifierError, DamagedStore):
            return None

    def _read_on(self, record: str) -> bytes | None:
        """Read what is expected from this record on, and return this one; None where it must be asked for by itself."""
        try:
            begin = self._expected.index(record, self._covered, self._covered + _TOGETHER_RECORDS_MAX)
        except ValueError:
            return None
        following = self._expected[begin : begin + _TOGETHER_RECORDS_MAX]
        self._covered = begin + len(following)
        self._read = {}
        with suppress(DamagedStore):
            self._read = self._store.get_many(following, bytes_max=_TOGETHER_BYTES_MAX)
        if sum(map(len, self._read.values())) >= _TOGETHER_BYTES_MAX:
            # What comes after the last one was not looked for.
            self._covered = begin + following.index(next(reversed(self._read))) + 1
        return self._read.pop(record, None)

    # ---- writing --------------------------------------------------------------------------------------------------

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        """Validate and store what has arrived; returns when what was valid is durable."""
        source = "" if self._held is None else str(self._held.peer)
        return self.accept(effect.arrivals, source=source)

    def begin_persist(self, effect: Persist, ready: Callable[[], None]) -> Callable[[], tuple[Settled, ...]] | None:
        """Have worker processes check what has arrived; returns what is to be called once ``ready`` was, and stores it.

        None where there are none, or where it is not worth their while.
        """
        arrivals = effect.arrivals
        if self._validators is None or len(arrivals) < _ELSEWHERE_MIN:
            return None
        begun = self._validators.begin(_units(arrivals), ready)
        if begun is None:
            return None
        source = "" if self._held is None else str(self._held.peer)

        def finish() -> tuple[Settled, ...]:
            try:
                checked = begun.answers()
            except ResourceError:
                # That a worker died is no reason for anything that arrived to be lost.
                checked = _checked_here(arrivals)
            return self._store_checked(arrivals, checked, source)

        return finish

    def help(self) -> bool:
        """Check a few of the arrivals that wait for a worker; false if none waits."""
        return self._validators is not None and self._validators.help()

    def accept(self, arrivals: Sequence[Delivered], *, source: str) -> tuple[Settled, ...]:
        """Check each arrival, as the record that was asked for, and store what is valid, durably, in one commit.

        What is not valid goes to the quarantine in the same commit, under the name of its ``source``.
        """
        return self._store_checked(arrivals, _checked_here(arrivals), source)

    def _store_checked(
        self, arrivals: Sequence[Delivered], checked: Sequence[Validated], source: str
    ) -> tuple[Settled, ...]:
        answers = list(map(_named, arrivals, checked))
        valid = [answer for answer in answers if not isinstance(answer, Invalid)]
        rejected = [
            Rejected(raw=answer.raw, reason=str(answer.reason), detail=answer.detail, source=source)
            for answer in answers
            if isinstance(answer, Invalid)
        ]
        puts = iter(self._store.put_records(valid, rejected=rejected) if answers else ())
        return tuple(
            Settled(record=arrival.record, fate=Fate.REJECTED, reason=str(answer.reason))
            if isinstance(answer, Invalid)
            else Settled(record=arrival.record, fate=_FATES[next(puts).outcome])
            for arrival, answer in zip(arrivals, answers, strict=True)
        )

    def kept_index(self, schema: Schema) -> ClaimIndex | None:
        """What a link with this policy and schema offered when its exchange ended, in this process or before it."""
        held = self._held
        return None if held is None else self._decisions.indexes.get(kind_of(held.standing.policy, schema))

    def built(self, records: Collection[str], schema: Schema, length: int) -> Built | None:
        """What a job has computed of advertisements of these records, over a store for which jobs do that."""
        held = self._held
        if held is None or not isinstance(self._store, Builds):
            return None
        return self._store.built(held.standing.policy, schema, records, length)

    def cursor(self, key: str) -> Cursor | None:
        """What was saved last for a link, in an exchange with the peer of that. Advertisements come without digests."""
        cursors = self._decisions.cursors
        raw = cursors.find(key) if self._held is None else cursors.get(self._held.peer, key)
        try:
            return None if raw is None else unsealed(msgspec.msgpack.decode(raw, type=Cursor))
        except msgspec.MsgspecError:
            return None  # of another version: the next exchange starts without

    def save(self, effect: SaveCursor) -> bool:
        """Remember what the peer advertises, for the next exchange on this link, if it can be: it only saves work.

        Digests are left out. Computed anew, they are of the fields that were read, whatever happened to those. The root
        over all of them is kept under a seal, and counts only for the very claims that it was made of.
        """
        cursor = effect.cursor
        bare = [
            Advertisement(record=one.record, fields=one.fields) if one.digest else one for one in cursor.advertisements
        ]
        raw = msgspec.msgpack.encode(sealed(structs.replace(cursor, advertisements=tuple(bare))))
        return self._decisions.cursors.put(cursor.source, cursor.key, raw)

    def flush(self) -> int:
        """Write down the decisions that are not lent and have changed enough to be worth it; returns how many."""
        return self._decisions.flush()


def _units(arrivals: Sequence[Delivered]) -> Iterator[list[bytes]]:
    supply = iter(arrivals)
    return iter(lambda: [arrival.raw for arrival in islice(supply, _UNIT_RECORDS_MAX)], [])


def _checked_here(arrivals: Sequence[Delivered]) -> list[Validated]:
    return work.validate_batch([arrival.raw for arrival in arrivals])


def _changes(now: Snapshot, after: Mark | None) -> tuple[Mark | None, StoreChanges]:
    """A mark and what has happened since; without one, or with one that is lost, only the mark of now."""
    if after is not None:
        with suppress(LostMark):
            return after, now.changes(after)
    return None, StoreChanges(mark=now.mark())


def _is_overwhelming(changes: StoreChanges, before: Mark) -> bool:
    return len(changes.stored) > max(_RELOAD_MIN, before.high_water)


def _weight(shift: Shift, changes: StoreChanges) -> int:
    moved = (shift.send_added, shift.send_removed, shift.request_added, shift.request_removed)
    return len(changes.stored) + len(changes.removed) + sum(map(len, moved))


def _named(arrival: Delivered, answer: Validated) -> Validated:
    """The answer, or that it is another record than the one that was asked for."""
    # A valid record opens with its name. Comparing that is cheaper than spelling the name.
    if isinstance(answer, Invalid) or answer.raw.startswith(b"%b: %b\n" % (MARK, _raw_name(arrival.record))):
        return answer
    return _another(arrival, answer)


def _raw_name(record: str) -> bytes:
    return record.encode("utf-8", "surrogatepass")


def _another(arrival: Delivered, record: Record) -> Invalid:
    detail = f"asked for {arrival.record[:80]}, got {record.hash}"
    return Invalid(raw=arrival.raw, reason=Reason.NOT_REQUESTED, detail=detail, offset=0)
