"""The parts of transactions that a shard has promised.

A promise is part of the replicated state: it is made by a command of the log, and so a quorum holds it before the yes
is said. It knows no clock. It ends when its part stands in a block, when the coordinator has decided to drop it, or
when an operator ends it by hand; and by nothing else. A part is a buffer until then: nothing of it is in the store, so
there is nothing to be undone.

**What has ended** is remembered, up to a bound, so that late messages find it. A prepare that comes after the end gets
no promise. When the bound is reached, the oldest are forgotten, and three cases are left:

- A commit of an unknown transaction was done before: it was decided on this shard's yes, and the promise behind that
  can only have ended by being done (or by an operator, which is never forgotten).
- An abort of an unknown transaction finds nothing to drop.
- A prepare of a transaction that was committed and forgotten must not be promised again, for a late commit would do
  it twice. ``horizon`` is above the ``since`` of all that were committed and forgotten, and a part that began below it
  is refused. For one that was aborted there is no commit: promised again, it asks its coordinator, and is dropped.

**By hand.** What an operator ends is marked for ever, with who did it and why, and with what the coordinator said when
that is known. It is no decision: others who ask are not told.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import lock_names
from bobbin.cluster.transactions.locks import KeyLocks, LockManager, LockRefused, LockTable
from bobbin.cluster.transactions.messages import Conflict, No, PrepareVote, TxPrepareMsg, Yes
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import PARTICIPANT, Standing
from bobbin.errors import IntegrityError

OUTCOMES_MAX: Final = 32_768
"""Ends that are remembered. A constant, for nodes that differed in it would drift apart."""
PARTICIPANT_FORMAT: Final = 1

Check: TypeAlias = Callable[[TxPrepareMsg], Embedding | No | Conflict]
"""Whether a locked part may be promised, by versions and geometry: its delta as this shard works it out, or why not.

It changes nothing. A part whose ``since`` lies in the future must be refused by it.
"""


class Heuristic(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A part was ended by hand."""

    commits: bool
    operator: str
    reason: str
    decision: bool | None = None
    """What the coordinator has decided, where that became known here. Against ``commits``: the transaction is torn."""

    @property
    def is_contradicted(self) -> bool:
        return self.decision is not None and self.decision != self.commits


class ParticipantHead(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=44):
    """The first entry of what a snapshot has of the promises."""

    format: int
    next_handle: int
    next_number: int
    horizon: int
    promises: int
    ends: int


class Promise(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=45):
    """A part that is locked, and will be done or dropped as its coordinator decides."""

    message: TxPrepareMsg
    vote: Yes
    resolution: Heuristic | None = None
    """An operator wants it done: it is to be in the next block, whatever the coordinator says."""


class PartEnded(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=46):
    """How a part ended."""

    tx: TxId
    commits: bool
    number: int
    """Rises from end to end; the lowest is forgotten first."""
    since: int
    """Of the part; 0 for one that was dropped without having been promised."""
    heuristic: Heuristic | None = None


ParticipantEntry: TypeAlias = ParticipantHead | Promise | PartEnded


class Participant:
    """All promises of a shard, and what became of those before."""

    def __init__(self, *, outcomes_max: int = OUTCOMES_MAX) -> None:
        self.locks = LockManager(timeout_ms=None)
        """Of promised parts alone; each is marked as promised. Another one after ``restore``."""
        self.horizon = 0
        self._outcomes_max: Final = outcomes_max
        self._promises: dict[TxId, Promise] = {}
        """By handle, ascending."""
        self._ends: OrderedDict[TxId, PartEnded] = OrderedDict()
        """By number, ascending; without those in the next."""
        self._heuristics: dict[TxId, PartEnded] = {}
        """By number, ascending; for ever."""
        self._next_number = 1
        self._changed: set[TxId] = set()
        """What ``take_changes`` has not told yet."""

    # ---- what there is ---------------------------------------------------------------------------------------------

    @property
    def promises(self) -> Mapping[TxId, Promise]:
        """All that wait for a decision, in the order in which they were promised."""
        return self._promises

    @property
    def heuristics(self) -> Iterable[PartEnded]:
        """Everything that was ended by hand, in order. For ever."""
        return self._heuristics.values()

    @property
    def has_ended(self) -> bool:
        """Whether there is any part whose end is remembered."""
        return bool(self._heuristics or self._ends)

    def ended(self, tx: TxId) -> PartEnded | None:
        """How a part ended; None if it has not, or is forgotten."""
        return self._heuristics.get(tx) or self._ends.get(tx)

    def decision(self, tx: TxId) -> bool | None:
        """What this shard has seen decided, for another participant that asks. What an operator did is no decision."""
        end = self.ended(tx)
        if end is None:
            return None
        return end.commits if end.heuristic is None else end.heuristic.decision

    def standing(self, tx: TxId) -> Standing:
        """Where a part is in the diagram."""
        if tx in self._promises:
            return Standing.WAITING_DECISION
        end = self.ended(tx)
        if end is None:
            return Standing.IDLE
        return Standing.COMMITTED if end.commits else Standing.ABORTED

    # ---- commands --------------------------------------------------------------------------------------------------

    def prepare(self, message: TxPrepareMsg, check: Check) -> PrepareVote:
        """Promise a part, or refuse it and keep nothing. The same message again gets the same vote."""
        tx = message.tx
        promise = self._promises.get(tx)
        if promise is not None:
            if promise.message == message:
                return promise.vote
            return No("another part of this transaction is promised here", is_final=True)
        if self.ended(tx) is not None:
            return No("this transaction has ended here", is_final=True)
        if message.part.since < self.horizon:
            return No(f"began at height {message.part.since}, below {self.horizon}: too long ago", is_final=True)
        standing = _go(self.standing(tx), Standing.LOCK_ACQUIRING)
        handle = self.locks.try_lock(tx, lock_names(message.part), 0)
        if isinstance(handle, LockRefused):
            _go(standing, Standing.VOTE_NO)
            return No(f"locked by transaction {handle.blockers[0].hex()}")
        standing = _go(standing, Standing.LOCKED)
        standing = _go(standing, Standing.CONFLICT_CHECK)
        checked = check(message)
        if not isinstance(checked, Embedding):
            self.locks.release(tx)
            _go(standing, Standing.VOTE_NO if isinstance(checked, No) else Standing.VOTE_CONFLICT)
            return checked
        standing = _go(standing, Standing.VOTE_YES)
        self.locks.mark_promised(tx)
        held = self.locks.held(tx)
        assert held is not None, "what was just taken is held"
        vote = Yes(handle, checked, held.names)
        self._promises[tx] = Promise(message, vote)
        self._changed.add(tx)
        _go(standing, Standing.WAITING_DECISION)
        return vote

    def committed(self, tx: TxId) -> bool:
        """A promised part stands in a block, and is in the store: unlock it. False if there is no such promise."""
        promise = self._promises.get(tx)
        if promise is None:
            return False
        self._end(tx, promise, commits=True, heuristic=promise.resolution)
        return True

    def drop(self, tx: TxId) -> bool:
        """The coordinator has decided to abort: forget the part and unlock it. False if there is nothing to forget.

        It is noted in any case, so that a prepare that comes late finds it. What was done stays done, and what an
        operator wants to be done is not dropped; that the two contradict each other is noted for ever.
        """
        promise = self._promises.get(tx)
        if promise is not None and promise.resolution is not None:
            resolution = replace(promise.resolution, decision=False)
            self._promises[tx] = replace(promise, resolution=resolution)
            self._changed.add(tx)
            return False
        by_hand = self._heuristics.get(tx)
        if by_hand is not None:
            assert by_hand.heuristic is not None
            self._heuristics[tx] = replace(by_hand, heuristic=replace(by_hand.heuristic, decision=False))
            self._changed.add(tx)
            return False
        if promise is None and tx in self._ends:
            return False
        self._end(tx, promise, commits=False, heuristic=None)
        return promise is not None

    def resolve(self, tx: TxId, *, commits: bool, operator: str, reason: str) -> bool:
        """An operator ends a promise by hand; False if there is none, or it was resolved before.

        One that is to be dropped is dropped at once. One that is to be done stays locked until it stands in a block.
        """
        promise = self._promises.get(tx)
        if promise is None or promise.resolution is not None:
            return False
        heuristic = Heuristic(commits, operator, reason)
        if commits:
            self._promises[tx] = replace(promise, resolution=heuristic)
            self._changed.add(tx)
        else:
            self._end(tx, promise, commits=False, heuristic=heuristic)
        return True

    def _end(self, tx: TxId, promise: Promise | None, *, commits: bool, heuristic: Heuristic | None) -> None:
        if promise is not None:
            _go(self.standing(tx), Standing.COMMITTED if commits else Standing.ABORTED)
        since = 0 if promise is None else promise.message.part.since
        end = PartEnded(tx, commits, self._next_number, since, heuristic)
        self._next_number += 1
        if heuristic is None:
            self._ends[tx] = end
            self._forget_oldest()
        else:
            self._heuristics[tx] = end
        self._promises.pop(tx, None)
        self.locks.release(tx)
        self._changed.add(tx)

    def _forget_oldest(self) -> None:
        while len(self._ends) > self._outcomes_max:
            tx, end = self._ends.popitem(last=False)
            self._changed.add(tx)
            if end.commits:
                self.horizon = max(self.horizon, end.since + 1)

    # ---- snapshots -------------------------------------------------------------------------------------------------

    @property
    def head(self) -> ParticipantHead:
        return ParticipantHead(
            PARTICIPANT_FORMAT,
            self.locks.next_handle,
            self._next_number,
            self.horizon,
            len(self._promises),
            len(self._ends) + len(self._heuristics),
        )

    def entry(self, tx: TxId) -> Promise | PartEnded | None:
        """What a snapshot has of a transaction."""
        return self._promises.get(tx) or self.ended(tx)

    def take_changes(self) -> Iterable[tuple[TxId, Promise | PartEnded | None]]:
        """What was changed since the last time this was asked; None for what has gone. The head is not among it."""
        changed, self._changed = self._changed, set()
        return [(tx, self.entry(tx)) for tx in sorted(changed)]

    def entries(self) -> Iterator[ParticipantEntry]:
        """All of it, in an order that follows from the state. They are values: take the list, and write it later."""
        yield self.head
        yield from self._promises.values()
        yield from sorted([*self._ends.values(), *self._heuristics.values()], key=lambda end: end.number)

    def restore(self, entries: Iterable[ParticipantEntry]) -> None:
        """Become what ``entries`` told; ``IntegrityError`` leaves everything as it was."""
        found = _Found()
        for entry in entries:
            found.add(entry)
        head = found.check()
        held = [
            KeyLocks(tx, promise.vote.handle, promise.vote.keys, 0, is_promised=True)
            for tx, promise in found.promises.items()
        ]
        locks = LockManager(timeout_ms=None)
        locks.restore(LockTable(head.next_handle, tuple(held)))
        self.locks = locks
        self._next_number = head.next_number
        self.horizon = head.horizon
        self._promises = found.promises
        self._ends = OrderedDict((tx, end) for tx, end in found.ends.items() if end.heuristic is None)
        self._heuristics = {tx: end for tx, end in found.ends.items() if end.heuristic is not None}
        self._changed = {*found.promises, *found.ends}

    def check(self) -> None:
        """What always holds."""
        self.locks.check()
        assert set(self.locks.transactions) == self._promises.keys(), "locks without a promise, or the other way about"
        for tx, promise in self._promises.items():
            held = self.locks.held(tx)
            assert held is not None, "a promise without locks"
            assert held.is_promised, "a clock may end what is promised"
            assert held.handle == promise.vote.handle, "not the promised locks"
            assert self.ended(tx) is None, "promised and ended"
        assert len(self._ends) <= self._outcomes_max
        assert self._ends.keys().isdisjoint(self._heuristics)
        assert len(self.locks.waits) == 0, "a promise waits for nobody"


def _go(was: Standing, after: Standing) -> Standing:
    """From one standing of a part to another, by a way that the diagram has."""
    assert (was, after) in PARTICIPANT, (was, after)
    return after


class _Found:
    """What a snapshot holds, as far as it was read."""

    def __init__(self) -> None:
        self.head: ParticipantHead | None = None
        self.promises: dict[TxId, Promise] = {}
        self.ends: dict[TxId, PartEnded] = {}
        self._last_number = 0

    def add(self, entry: ParticipantEntry) -> None:
        if isinstance(entry, ParticipantHead):
            if self.head is not None or self.promises or self.ends:
                raise IntegrityError("promises have one head, before everything else")
            if entry.format != PARTICIPANT_FORMAT:
                raise IntegrityError(f"promises of format {entry.format}; {PARTICIPANT_FORMAT} is known")
            self.head = entry
        elif isinstance(entry, Promise):
            tx = entry.message.tx
            if tx in self.promises or self.ends:
                raise IntegrityError("a promise stands once in a snapshot, before all that has ended")
            self.promises[tx] = entry
        else:
            if entry.tx in self.promises or entry.tx in self.ends or entry.number <= self._last_number:
                raise IntegrityError("what has ended stands once in a snapshot, in order")
            self._last_number = entry.number
            self.ends[entry.tx] = entry

    def check(self) -> ParticipantHead:
        if self.head is None:
            raise IntegrityError("promises without a head")
        if (self.head.promises, self.head.ends) != (len(self.promises), len(self.ends)):
            raise IntegrityError("a snapshot has not all the promises that it tells of")
        if self._last_number >= self.head.next_number or self.head.horizon < 0:
            raise IntegrityError("the head of the promises does not fit what has ended")
        return self.head
