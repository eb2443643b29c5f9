"""Effects that must not happen twice: one holder of a lease, fencing, receipts, and a record before each firing.

State converges wherever it is copied; an e-mail that was sent twice does not. So an irreversible effect is fired by one
designated peer alone, and at most once:

* The right to fire is a lease (``Lease``), kept by one peer or by a group that agrees. Each new grant has a fencing
  token one above the last; a renewal keeps it. Whoever keeps the records, and whoever carries out the effect, refuses a
  token below the highest it has seen (``Fence``), so a holder that was asleep can do nothing with an old right.
* ``Authority`` fires. It writes down that it will fire (``Record``), and fires only when that is durable
  (``Recorded``). A new holder shows its token to the records and then starts with all that they have. What was written
  down and not reported done was perhaps fired: it is not fired again, but reported as in doubt.
* What became of an effect is told by receipts (``Receipts``): ``observed`` and ``accepted`` are on the way, ``applied``
  and ``rejected`` are final. A receipt of another generation is stale and ignored; two different final ones are a
  conflict, and then the outcome is nothing that anybody may act on.

Replicas that hold no lease see the same state and fire nothing.
"""

from enum import StrEnum, unique
from typing import Final, TypeAlias, assert_never

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.reactive.messages import PeerId

# ---- the lease ----------------------------------------------------------------------------------------------------


class Lease:
    """Who may fire, until when. Times are the caller's, in a unit of its own, and never go back."""

    def __init__(self, *, fence: int = 0) -> None:
        """``fence``: the last token that was ever granted, by whoever kept the lease before."""
        self.holder: PeerId | None = None
        self.fence = fence
        """The last token that was granted; it never falls."""
        self._expiry = 0

    def acquire(self, peer: PeerId, *, now: int, lasts: int) -> int | None:
        """Take the lease if it is free or over; returns the fencing token, or None if somebody has it.

        Who has it already gets the token that it has, and more time.
        """
        if lasts < 1:
            raise UsageError("a lease that lasts no time is none")
        self.tick(now=now)
        if self.holder is None:
            self.holder = peer
            self.fence += 1
        elif self.holder != peer:
            return None
        self._expiry = now + lasts
        return self.fence

    def renew(self, peer: PeerId, *, now: int, lasts: int) -> bool:
        """Keep the lease for longer. Who does not have it, or not any more, cannot."""
        self.tick(now=now)
        if self.holder != peer:
            return False
        return self.acquire(peer, now=now, lasts=lasts) is not None

    def release(self, peer: PeerId) -> bool:
        """Give the lease back."""
        if self.holder != peer:
            return False
        self.holder = None
        return True

    def tick(self, *, now: int) -> bool:
        """Let time pass; returns whether the lease has run out by it."""
        if self.holder is None or now < self._expiry:
            return False
        self.holder = None
        return True


class Fence:
    """The guard of whatever an effect acts upon: nobody with an older right than the newest seen gets through."""

    def __init__(self, *, highest: int = 0) -> None:
        self.highest = highest

    def admits(self, token: int) -> bool:
        """Whether a token is good; a good one shuts out all below it."""
        if token < self.highest:
            return False
        self.highest = token
        return True


# ---- receipts -----------------------------------------------------------------------------------------------------


@unique
class Outcome(StrEnum):
    """What an observer says of an effect."""

    OBSERVED = "observed"
    ACCEPTED = "accepted"
    APPLIED = "applied"
    REJECTED = "rejected"

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL: Final = frozenset({Outcome.APPLIED, Outcome.REJECTED})
_RANK: Final = {Outcome.OBSERVED: 0, Outcome.ACCEPTED: 1, Outcome.APPLIED: 2, Outcome.REJECTED: 2}


class Receipt(Struct, frozen=True, kw_only=True):
    """One word on one effect."""

    id: str
    cause: str
    """The effect."""
    observer: str
    generation: int
    outcome: Outcome
    reason: str | None = None
    payload_hash: str | None = None


@unique
class Taken(StrEnum):
    """What a receipt has changed."""

    NEW = "new"
    KNOWN = "known"
    """It says nothing that was not known."""
    STALE = "stale"
    """It is of another generation, and counts for nothing."""
    CONFLICT = "conflict"
    """It contradicts what was final."""


class Conflict(Struct, frozen=True):
    """Two final receipts that contradict each other: nobody knows what happened, and nobody may act as if they did."""

    first: Receipt
    second: Receipt


class Receipts:
    """What is known of the effects of one generation."""

    def __init__(self, generation: int) -> None:
        self.generation: Final = generation
        self._known: Final[dict[str, Receipt]] = {}
        """By effect, the furthest one."""
        self._conflicts: Final[dict[str, Conflict]] = {}

    def add(self, receipt: Receipt) -> Taken:
        """Take a receipt."""
        if receipt.generation != self.generation:
            return Taken.STALE
        known = self._known.get(receipt.cause)
        if known is None:
            self._known[receipt.cause] = receipt
            return Taken.NEW
        if known.outcome.is_final and receipt.outcome.is_final and known.outcome is not receipt.outcome:
            self._conflicts.setdefault(receipt.cause, Conflict(known, receipt))
            return Taken.CONFLICT
        if _RANK[receipt.outcome] <= _RANK[known.outcome]:
            return Taken.KNOWN
        self._known[receipt.cause] = receipt
        return Taken.NEW

    def outcome(self, cause: str) -> Outcome | Conflict | None:
        """What became of an effect, as far as is known. A conflict stays one, whatever is said later."""
        conflict = self._conflicts.get(cause)
        if conflict is not None:
            return conflict
        known = self._known.get(cause)
        return None if known is None else known.outcome

    def is_over(self, cause: str) -> bool:
        """Whether an effect has one final outcome."""
        outcome = self.outcome(cause)
        return isinstance(outcome, Outcome) and outcome.is_final


# ---- firing -------------------------------------------------------------------------------------------------------


class Wanted(Struct, frozen=True):
    """An effect is to happen. The same id is the same effect, however often it is wanted."""

    id: str


class Entry(Struct, frozen=True):
    """What was written down of an effect."""

    id: str
    outcome: Outcome | None = None
    """None: it was about to be fired, and nothing is known of it since."""


class Appointed(Struct, frozen=True):
    """This peer has the lease."""

    fence: int
    entries: tuple[Entry, ...]
    """All that was written down so far, by anybody, read after the records have seen the token."""


class Dismissed(Struct, frozen=True):
    """This peer does not have the lease any more."""


class Recorded(Struct, frozen=True):
    """What ``Record`` asked for is durable."""

    id: str
    fence: int


class Finished(Struct, frozen=True):
    """An effect was fired, and this is its final outcome."""

    id: str
    outcome: Outcome


AuthorityEvent: TypeAlias = Wanted | Appointed | Dismissed | Recorded | Finished


class Record(Struct, frozen=True):
    """Write down, durably, that an effect is about to be fired; ``Recorded`` answers. If it fails, nothing answers."""

    id: str
    fence: int


class FireOnce(Struct, frozen=True):
    """Fire an effect. This is said at most once for an id, by whoever has the records."""

    id: str
    fence: int


class RecordEnd(Struct, frozen=True):
    """Write down what became of an effect."""

    id: str
    outcome: Outcome


class InDoubt(Struct, frozen=True):
    """An effect that was about to be fired when the process ended: perhaps it was. It is not fired again."""

    id: str


AuthorityEffect: TypeAlias = Record | FireOnce | RecordEnd | InDoubt


@unique
class Stage(StrEnum):
    """How far an effect is."""

    WANTED = "wanted"
    RECORDING = "recording"
    FIRED = "fired"
    """Or perhaps: see ``InDoubt``."""
    OVER = "over"


class Authority:
    """Fires effects, each at most once, while this peer has the lease. Without it, it only knows what is wanted."""

    def __init__(self) -> None:
        self._fence: int | None = None
        self._last_fence = 0
        self._stages: Final[dict[str, Stage]] = {}

    def step(self, event: AuthorityEvent) -> tuple[AuthorityEffect, ...]:
        """Take an event; returns what to do, in order."""
        match event:
            case Wanted(id):
                self._stages.setdefault(id, Stage.WANTED)
                return self._record([id])
            case Appointed(fence, entries):
                return self._take_up(fence, entries)
            case Dismissed():
                self._fence = None
                return ()
            case Recorded(id, fence):
                return self._fire(id, fence)
            case Finished(id, outcome):
                return self._end(id, outcome)
            case _:
                assert_never(event)

    def stage(self, id: str) -> Stage | None:
        """How far an effect is; None if nobody wanted it."""
        return self._stages.get(id)

    def _take_up(self, fence: int, entries: tuple[Entry, ...]) -> tuple[AuthorityEffect, ...]:
        if fence < self._last_fence:
            raise UsageError(f"token {fence} was granted before {self._last_fence}")
        self._fence = self._last_fence = fence
        for id, stage in self._stages.items():
            if stage is Stage.RECORDING:
                # Under an earlier token. If that was still good, it is among the entries.
                self._stages[id] = Stage.WANTED
        doubtful = []
        for entry in entries:
            if entry.outcome is None and self._stages.get(entry.id) is not Stage.FIRED:
                doubtful.append(InDoubt(entry.id))
            self._stages[entry.id] = Stage.FIRED if entry.outcome is None else Stage.OVER
        return (*doubtful, *self._record(list(self._stages)))

    def _record(self, ids: list[str]) -> tuple[AuthorityEffect, ...]:
        """Nothing is written down, and so nothing fired, by whoever has no lease."""
        if self._fence is None:
            return ()
        records: list[AuthorityEffect] = []
        for id in ids:
            if self._stages[id] is Stage.WANTED:
                self._stages[id] = Stage.RECORDING
                records.append(Record(id, self._fence))
        return tuple(records)

    def _fire(self, id: str, fence: int) -> tuple[AuthorityEffect, ...]:
        if self._stages.get(id) is not Stage.RECORDING or fence != self._fence:
            # Asked for under a lease that has gone since. Whoever has it now finds it written down, and in doubt.
            return ()
        self._stages[id] = Stage.FIRED
        return (FireOnce(id, fence),)

    def _end(self, id: str, outcome: Outcome) -> tuple[AuthorityEffect, ...]:
        if not outcome.is_final:
            raise UsageError(f"{outcome} is no final outcome")
        if self._stages.get(id) is not Stage.FIRED:
            raise UsageError(f"{id!r} was not fired, or is over")
        self._stages[id] = Stage.OVER
        return (RecordEnd(id, outcome),)
