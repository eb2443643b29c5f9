"""What is known of the transactions that a shard coordinates: the entries of its log, replayed.

The state is a part of the shard's replicated state, the same on every node, and all that a new leader has to go by. It
holds every transaction that is not finished everywhere, with all of its operations and votes, and remembers how the
last ``OUTCOMES_MAX`` ended.

**An id is used once.** Whoever repeats a begin is told how that transaction ended. Those that have to make way for
newer ones are the ones with the oldest ids, and ``horizon`` rises with them: an unknown id from before the horizon may
be one of them, so it is refused, and its owner makes a new one from the horizon on.

Entries that do not fit are refused as a whole, and nothing is changed: a transition that ``phases.COORDINATOR`` does
not have, a vote that is there already, a step to PREPARED without every yes, an end without every acknowledgement.
"""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from bobbin.cluster.transactions.messages import PrepareVote, Yes
from bobbin.cluster.transactions.names import ShardId, TxId, since_of
from bobbin.cluster.transactions.phases import COORDINATOR, TxPhase
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    LockRelease,
    PhaseChange,
    TxBegin,
    TxComplete,
    TxWalEntry,
    Voted,
)
from bobbin.errors import IntegrityError

OUTCOMES_MAX: Final = 4_096


class TxRecord(Struct, frozen=True):
    """A transaction that is not finished everywhere, as far as it is durable."""

    begin: TxBegin
    phase: TxPhase = TxPhase.PREPARING
    votes: tuple[Voted, ...] = ()
    intent: AbortIntent | None = None
    released: frozenset[ShardId] = frozenset()
    """Who has acknowledged the decision."""

    @property
    def shards(self) -> tuple[ShardId, ...]:
        """The participants, ascending."""
        return tuple(shard for shard, _ in self.begin.parts)

    def vote_of(self, shard: ShardId) -> PrepareVote | None:
        """What a participant has voted; None before that."""
        return next((voted.vote for voted in self.votes if voted.shard == shard), None)

    @property
    def may_commit(self) -> bool:
        """Whether everybody has promised, and no key is on two shards."""
        return all(isinstance(self.vote_of(shard), Yes) for shard in self.shards) and overlap(self.votes) is None

    @property
    def owed(self) -> tuple[ShardId, ...]:
        """Who is still to be told of the decision, ascending. Whoever voted against it has kept nothing of it."""
        told = self.shards if self.intent is None else self.intent.shards
        return tuple(
            shard for shard in told if shard not in self.released and isinstance(self.vote_of(shard), Yes | None)
        )

    def entries(self) -> tuple[TxWalEntry, ...]:
        """The shortest log that leads here."""
        tx = self.begin.tx
        entries: list[TxWalEntry] = [self.begin, *self.votes]
        entries += [PhaseChange(tx, was, is_now) for was, is_now in _WAYS[self.phase]]
        if self.intent is not None:
            entries.append(self.intent)
        entries += [LockRelease(tx, shard) for shard in sorted(self.released)]
        if self.phase.is_terminal:
            entries.append(TxComplete(tx, self.phase is TxPhase.COMMITTED))
        return tuple(entries)


_PREPARED: Final = (TxPhase.PREPARING, TxPhase.PREPARED)
_COMMITTING: Final = (TxPhase.PREPARED, TxPhase.COMMITTING)
_ABORTING: Final = (TxPhase.PREPARING, TxPhase.ABORTING)
_WAYS: Final = {
    TxPhase.PREPARING: (),
    TxPhase.PREPARED: (_PREPARED,),
    TxPhase.COMMITTING: (_PREPARED, _COMMITTING),
    TxPhase.COMMITTED: (_PREPARED, _COMMITTING),
    TxPhase.ABORTING: (_ABORTING,),
    TxPhase.ABORTED: (_ABORTING,),
}
"""The changes of phase that a saved record is replayed with."""


def overlap(votes: Iterable[Voted]) -> bytes | None:
    """A key that participants have locked on more than one shard, if there is one."""
    seen: set[bytes] = set()
    for voted in votes:
        if isinstance(voted.vote, Yes):
            keys = set(voted.vote.keys)
            twice = seen & keys
            if twice:
                return min(twice)
            seen |= keys
    return None


class TxSaved(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=47):
    """An entry of a snapshot. The first has what is remembered; each of the others has one transaction."""

    horizon: int
    outcomes: tuple[tuple[TxId, bool], ...]
    """By id, ascending."""
    entries: tuple[TxWalEntry, ...]
    """The shortest log that leads to what is known of an open transaction."""


class TxRecoveryState:
    """The replayed log of a coordinator. It follows from the entries alone."""

    def __init__(self, *, outcomes_max: int = OUTCOMES_MAX) -> None:
        self.horizon = 0
        """Unknown ids that were made up below this height are refused."""
        self._outcomes_max = outcomes_max
        self._open: dict[TxId, TxRecord] = {}
        """In the order in which they began."""
        self._outcomes: dict[TxId, bool] = {}
        self._oldest: list[TxId] = []
        """A heap of the ids in ``_outcomes``; they begin with their height."""

    # ---- what is known ---------------------------------------------------------------------------------------------

    @property
    def open(self) -> Mapping[TxId, TxRecord]:
        """What is not finished, in the order in which it began."""
        return MappingProxyType(self._open)

    def outcome(self, tx: TxId) -> bool | None:
        """Whether a finished transaction was committed; None for one that is open, or not remembered."""
        return self._outcomes.get(tx)

    @property
    def remembered(self) -> int:
        """How many outcomes are kept."""
        return len(self._outcomes)

    def why_not_new(self, tx: TxId) -> str | None:
        """Why an id cannot be begun; None if it can."""
        if tx in self._open:
            return "a transaction of this id is open"
        if tx in self._outcomes:
            return "a transaction of this id has ended"
        if since_of(tx) < self.horizon:
            return f"the id is too old to tell whether it has ended: make a new one from height {self.horizon} on"
        return None

    def in_phase(self, phase: TxPhase) -> tuple[TxRecord, ...]:
        """Open transactions in a phase, in the order in which they began."""
        return tuple(record for record in self._open.values() if record.phase is phase)

    # ---- entries ---------------------------------------------------------------------------------------------------

    def apply(self, entries: tuple[TxWalEntry, ...]) -> str | None:
        """Take in what was written in one go, or say why it does not fit and change nothing. Never raises."""
        draft = _Draft(self)
        for entry in entries:
            wrong = draft.take(entry)
            if wrong is not None:
                return wrong
        for tx, record in draft.changed.items():
            if record is None:
                self._open.pop(tx, None)
            else:
                self._open[tx] = record
        for tx, commits in draft.ended.items():
            self._remember(tx, commits=commits)
        return None

    def _remember(self, tx: TxId, *, commits: bool) -> None:
        self._outcomes[tx] = commits
        heappush(self._oldest, tx)
        while len(self._outcomes) > self._outcomes_max:
            forgotten = heappop(self._oldest)
            del self._outcomes[forgotten]
            self.horizon = max(self.horizon, since_of(forgotten) + 1)

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[TxSaved, ...]:
        """All of it, in an order that follows from the state alone; also what the root of a shard is to cover."""
        head = TxSaved(self.horizon, tuple(sorted(self._outcomes.items())), ())
        return head, *(TxSaved(0, (), record.entries()) for record in self._open.values())

    def restore(self, saved: Iterable[TxSaved]) -> None:
        """Become what was saved, or raise ``IntegrityError`` and stay as it was."""
        fresh = TxRecoveryState(outcomes_max=self._outcomes_max)
        head: TxSaved | None = None
        for one in saved:
            if head is None:
                head = one
                fresh._outcomes = dict(one.outcomes)
            elif one.horizon or one.outcomes or not one.entries:
                raise IntegrityError("a snapshot has the outcomes of transactions at a place where they do not belong")
            wrong = fresh.apply(one.entries)
            if wrong is not None:
                raise IntegrityError(f"a snapshot has a transaction that cannot be: {wrong}")
        if head is None or head.entries or len(fresh._outcomes) > self._outcomes_max:
            raise IntegrityError("a snapshot does not have the outcomes of transactions where they belong")
        # Open transactions may be older than the horizon, so it is set after they have been replayed.
        self.horizon = head.horizon
        self._open, self._outcomes = fresh._open, fresh._outcomes
        self._oldest = sorted(fresh._outcomes)


class _Draft:
    """Entries that were taken in, on top of a state that has not changed yet."""

    __slots__ = ("_state", "changed", "ended")

    def __init__(self, state: TxRecoveryState) -> None:
        self._state = state
        self.changed: dict[TxId, TxRecord | None] = {}
        """None for one that is finished."""
        self.ended: dict[TxId, bool] = {}

    def take(self, entry: TxWalEntry) -> str | None:
        """Take in one more, or say why it does not fit."""
        tx = entry.tx
        record = self.changed[tx] if tx in self.changed else self._state.open.get(tx)
        if isinstance(entry, TxBegin):
            return self._begin(entry)
        if record is None:
            if not isinstance(entry, AbortIntent):
                return "an entry of a transaction that is not open"
            self._deny(tx)
            return None
        if isinstance(entry, AllLocksReleased):
            if not record.phase.is_terminal:
                return "locks are released while the transaction goes on"
            self.changed[tx] = None
            self.ended[tx] = record.phase is TxPhase.COMMITTED
            return None
        after = _after(record, entry)
        if isinstance(after, str):
            return after
        self.changed[tx] = after
        return None

    def _begin(self, entry: TxBegin) -> str | None:
        wrong = self._state.why_not_new(entry.tx)
        if wrong is not None:
            return wrong
        if entry.tx in self.changed or entry.tx in self.ended:
            return "a transaction of this id was begun or ended a moment ago"
        shards = [shard for shard, _ in entry.parts]
        if not shards or any(one >= next_one for one, next_one in pairwise(shards)):
            return "a transaction needs participants, ascending and each once"
        self.changed[entry.tx] = TxRecord(entry)
        return None

    def _deny(self, tx: TxId) -> None:
        """Somebody was told that a transaction which is not known is aborted: it can never be begun."""
        if tx not in self.ended and self._state.why_not_new(tx) is None:
            self.ended[tx] = False


def _after(record: TxRecord, entry: Voted | PhaseChange | AbortIntent | LockRelease | TxComplete) -> TxRecord | str:
    """A record with one more entry, or why that cannot be."""
    match entry:
        case Voted(_, shard, _):
            if record.phase is not TxPhase.PREPARING:
                return f"a vote for a transaction that is {record.phase.value}"
            if shard not in record.shards or record.vote_of(shard) is not None:
                return "a vote of a shard that has none, or has voted"
            return replace(record, votes=(*record.votes, entry))
        case PhaseChange(_, was, is_now):
            return _moved(record, was, is_now)
        case AbortIntent(_, _, shards):
            if record.intent is not None or record.phase not in _ABORTABLE:
                return f"a transaction that is {record.phase.value} cannot be meant to abort now"
            if not set(shards) <= set(record.shards):
                return "an abort is meant for a shard that has no part"
            return replace(record, phase=TxPhase.ABORTING, intent=entry)
        case LockRelease(_, shard):
            if record.phase not in _RELEASING:
                return f"locks are released while the transaction is {record.phase.value}"
            if shard not in record.shards or shard in record.released:
                return "locks are released of a shard that has none, or has released them"
            return replace(record, released=record.released | {shard})
        case TxComplete(_, commits):
            end = TxPhase.COMMITTED if commits else TxPhase.ABORTED
            if (record.phase, end) not in COORDINATOR:
                return f"a transaction that is {record.phase.value} cannot end as {end.value}"
            if commits and record.owed:
                return "a commit is complete that was not acknowledged by all"
            return replace(record, phase=end)


def _moved(record: TxRecord, was: TxPhase, is_now: TxPhase) -> TxRecord | str:
    if was is not record.phase or (was, is_now) not in COORDINATOR or is_now.is_terminal:
        return f"no way leads from {record.phase.value}, taken for {was.value}, to {is_now.value}"
    if is_now is TxPhase.PREPARED and not record.may_commit:
        return "a transaction counts as prepared that lacks a yes, or has a key on two shards"
    return replace(record, phase=is_now)


_ABORTABLE: Final = {was for was, is_now in COORDINATOR if is_now is TxPhase.ABORTING} | {TxPhase.ABORTING}
"""An intent makes a transaction abort, or says why it does."""
_RELEASING: Final = (TxPhase.COMMITTING, TxPhase.ABORTING, TxPhase.ABORTED)
