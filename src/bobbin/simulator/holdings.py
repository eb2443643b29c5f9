"""One side's records in memory, and its policy evaluated from nothing: slow, simple, and right by reading.

A machine cannot tell it from the real thing (``runtime.holdings``), so it serves where no disk should take part, and
as the measure for the one that is fast.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from bobbin.facts.extract import fields as fields_of
from bobbin.interlace.advertise import canonical_fields
from bobbin.interlace.built import Built
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist, Remember, SaveCursor
from bobbin.interlace.events import Fate, Settled
from bobbin.interlace.messages import Delivered
from bobbin.interlace.ports import Evaluated, Memory, Question
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.decide import Decision
from bobbin.policy.executables import LocalPolicy, PolicyCache
from bobbin.policy.modules import Query, Selector
from bobbin.policy.operands import Index
from bobbin.policy.plan import Plan
from bobbin.records.ids import HashText
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, validate
from bobbin.simulator.decided import Decided

_NOTHING: Final = Decision(may_send=frozenset(), may_request=frozenset())


class MemoryHoldings:
    """Records, refusals and cursors of one side, in memory. One machine uses it at a time."""

    def __init__(
        self, records: Iterable[Record] = (), *, query: Query | None = None, decided: Decided | None = None
    ) -> None:
        """``decided``: the decisions of the world that this is in."""
        self.records: dict[str, Record] = {record.hash: record for record in records}
        self.refused: set[str] = set()
        self.quarantine: list[tuple[bytes, str]] = []
        self.cursors: dict[str, Cursor] = {}
        self.modules: dict[str, bytes] = {}
        self.evaluations = 0
        self._query = query
        self._decided = Decided() if decided is None else decided
        self._cache = PolicyCache()
        self._policy: LocalPolicy | None = None
        self._claims: dict[str, tuple[ClaimedField, ...]] = {}
        self._decision = _NOTHING
        self._status: frozenset[tuple[str, str]] = frozenset()

    def beside(self, query: Query | None = None) -> "MemoryHoldings":
        """The same records, refusals and cursors, for another machine."""
        other = MemoryHoldings(query=query, decided=self._decided)
        other.records, other.refused, other.quarantine = self.records, self.refused, self.quarantine
        other.cursors, other.modules, other._cache = self.cursors, self.modules, self._cache
        return other

    # ---- what a machine reads -------------------------------------------------------------------------------------

    def prepare(self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes) -> LocalPolicy:
        return self._cache.prepare(plan, index, own=own, peer_module=peer_module, query=self._query)

    def module(self, identifier: str) -> bytes | None:
        return self.modules.get(identifier)

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        del schema, key
        self._policy = policy
        self._claims = {}
        self._decision = _NOTHING
        self._status = frozenset()
        return None

    def evaluate(self, question: Question) -> Evaluated:
        assert self._policy is not None, "a policy was given"
        self.evaluations += 1
        self._claims.update(question.claimed)
        for record in question.withdrawn:
            self._claims.pop(record, None)
        before = self._decision
        after = self._decided.decide(self._policy, self.records.values(), self._claims, question.runtime)
        known, status = self._status, self._now()
        self._decision, self._status = after, status
        return Evaluated(
            send_added=after.may_send - before.may_send,
            send_removed=before.may_send - after.may_send,
            request_added=after.may_request - before.may_request,
            request_removed=before.may_request - after.may_request,
            moved=frozenset(record for record, _ in known ^ status),
        )

    def absent(self, records: Collection[str]) -> frozenset[str]:
        return frozenset(record for record in records if record not in self.records and record not in self.refused)

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        return [describe(self.records[name], schema) if name in self.records else None for name in records]

    def expect(self, records: Sequence[str]) -> None:
        """Nothing is saved by knowing it."""

    def load(self, record: str) -> bytes | None:
        stored = self.records.get(record)
        return None if stored is None else stored.raw

    def kept_index(self, schema: Schema) -> ClaimIndex | None:
        """None is ever kept here: each is made from nothing."""
        del schema
        return None

    def built(self, records: Collection[str], schema: Schema, length: int) -> Built | None:
        """Nobody computes anything beforehand."""
        del records, schema, length
        return None

    def cursor(self, key: str) -> Cursor | None:
        return self.cursors.get(key)

    # ---- what is done to it ---------------------------------------------------------------------------------------

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        """Validate and store what came."""
        return tuple(map(self._accept, effect.arrivals))

    def save(self, effect: SaveCursor) -> bool:
        """Keep a cursor."""
        self.cursors[effect.cursor.key] = effect.cursor
        return True

    def remember(self, effect: Remember) -> None:
        """Nothing is kept in this process between two exchanges."""

    def release(self) -> None:
        """The exchange is over; nothing was lent."""

    def put(self, record: Record) -> None:
        """Store a record, as another task would."""
        self.records[record.hash] = record

    def remove(self, record: str) -> None:
        """Take a record out and refuse it from now on."""
        self.records.pop(record, None)
        self.refused.add(record)

    def _accept(self, arrival: Delivered) -> Settled:
        try:
            record = validate(arrival.raw, requested=HashText(arrival.record))
        except InvalidRecord as error:
            self.quarantine.append((arrival.raw, error.reason))
            return Settled(record=arrival.record, fate=Fate.REJECTED, reason=error.reason)
        if record.hash in self.refused:
            return Settled(record=arrival.record, fate=Fate.REFUSED)
        fate = Fate.DUPLICATE if record.hash in self.records else Fate.STORED
        self.records[record.hash] = record
        return Settled(record=arrival.record, fate=fate)

    def _now(self) -> frozenset[tuple[str, str]]:
        """Which records are where, to see what has moved."""
        stored = ((record, "stored") for record in self.records)
        refused = ((record, "refused") for record in self.refused)
        return frozenset((*stored, *refused))


def describe(record: Record, schema: Schema) -> tuple[ClaimedField, ...]:
    """The fields of a record that a schema names."""
    counts: dict[str, int] = {}
    found: list[ClaimedField] = []
    for name, value in fields_of(record):
        index = counts.get(name, 0)
        counts[name] = index + 1
        if name in schema:
            found.append(ClaimedField(name, str(index), value))
    return canonical_fields(found)
