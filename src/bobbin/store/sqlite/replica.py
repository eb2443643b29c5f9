"""What makes a store a copy of a replicated lace: it holds what a log says up to some place, and nothing else.

Every change is one transaction together with the place of the log up to which it is made. So after a crash the store
says itself what is to be done again, and a commit need not wait for the disk: the log is durable.

**The sum.** Two copies hold the same when their sums are equal. Each record with its number, each refusal and each
effect is hashed to a number of 4,096 bits, and the numbers are added; what goes is subtracted. So the sum follows
every change at a cost that does not depend on the size of the store, and it can be counted again from the tables
(``check`` does). Additions of that width are as hard to counterfeit as a hash. The root is a hash over the sum, the
highest number given, the count of removals and the fence. Values that only save work, answers and pieces are left out.

**Building.** A snapshot is written into a new store of its own (``filling``), where every record gets the number that
it has everywhere. ``take_over`` then puts the tables of that one in the place of these, in one transaction: whoever
reads sees the one or the other. The quarantine is this node's own, and stays.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import apsw
from blake3 import blake3
from msgspec import Struct

from bobbin.errors import IntegrityError, UsageError
from bobbin.records import ids
from bobbin.records.ids import HashText
from bobbin.records.record import Record
from bobbin.store.base import Finding, Outcome, Put, StoreRecordId
from bobbin.store.sqlite import changes, keeping, lookup, refusals, tally
from bobbin.store.sqlite.readers import Moment, Readers
from bobbin.store.sqlite.tally import Tally

ANSWERS_MAX: Final = 4_096
"""Places of the log for which an answer is remembered.

Whether a command is one that came before depends on the two places alone. Were it what happens to be in the table, it
would depend on how a node's commands were cut into transactions, and nodes would differ.
"""
PIECES_MAX: Final = 8
"""Long records of which pieces may wait for the rest; the oldest goes first."""
_SUM_BYTES: Final = 512
_MODULUS: Final = 1 << (8 * _SUM_BYTES)
_ROOT: Final = b"bobbin-replicated-lace-root/v1"
_SWAPPED: Final = (
    "record",
    "fact",
    "header",
    "link",
    "place",
    "text",
    "refusal",
    "change",
    "kept",
    "answer",
    "piece",
    "effect",
    "replica",
)
_SEQUENCES: Final = ("record", "refusal", "change")


class ReplicaState(Struct, frozen=True, kw_only=True):
    """How far a copy is."""

    applied: int
    """The place of the log up to which everything is in the store."""
    root: bytes
    fence: int
    """The highest right to fire effects that was shown."""
    high_water: StoreRecordId
    changes: int
    """Removals, refusals and lifted refusals that were written down."""


class EffectRow(Struct, frozen=True):
    """An effect that was about to be fired, under which right, and what became of it."""

    id: str
    fence: int
    outcome: str | None


class _Row(Struct):
    """The row, as a value that a transaction changes."""

    applied: int
    sum: int
    fence: int


class _Counting(Protocol):
    """As much of a write transaction as is needed here."""

    counts: Tally
    high_water: StoreRecordId


Write = TypeVar("Write", bound=_Counting)
TakeOut: TypeAlias = Callable[[HashText, Write, str, int], bool]
"""Takes a record out and refuses it for a reason, as of a moment, inside a transaction."""


class ReplicaWrite:
    """Changes of one transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        counts: Tally,
        row: _Row,
        *,
        put: Callable[[Sequence[Record]], list[Put]],
        take_out: Callable[[HashText, str, int], bool],
    ) -> None:
        self._connection: Final = connection
        self._counts: Final = counts
        self._row: Final = row
        self._put: Final = put
        self._take_out: Final = take_out

    @property
    def fence(self) -> int:
        """The highest right that was shown."""
        return self._row.fence

    def put(self, records: Sequence[Record]) -> list[Put]:
        """Store records, numbered in this order."""
        answers = self._put(records) if records else []
        self._row.sum += sum(
            [
                record_element(answer.id, record.kind, record.digest)
                for answer, record in zip(answers, records, strict=True)
                if answer.outcome is Outcome.STORED and answer.id is not None
            ]
        )
        return answers

    def remove(self, hash: HashText, *, reason: str, tai: int) -> bool:
        """Take a record out and refuse it, as of this moment."""
        kind, digest = ids.parse_hash(hash)
        number = lookup.locate(self._connection, hash)
        before = _refusal_sum(self._connection, hash)
        was_there = self._take_out(hash, reason, tai)
        self._row.sum += _refusal_sum(self._connection, hash) - before
        if number is not None:
            self._row.sum -= record_element(number, kind, digest)
        return was_there

    def lift(self, hash: HashText) -> bool:
        """End a refusal."""
        ids.parse_hash(hash)
        before = _refusal_sum(self._connection, hash)
        lifted = refusals.lift(self._connection, self._counts, hash)
        if lifted:
            changes.add(self._connection, changes.What.LIFTED, hash)
            self._row.sum -= before
        return lifted

    def keep(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a value that only saves work."""
        keeping.put(self._connection, kind, key, value)

    # ---- commands ---------------------------------------------------------------------------------------------------

    def answered(self, place: int, token: bytes) -> bytes | None:
        """The answer that the command at a place was given before, at one of the ``ANSWERS_MAX`` places before it."""
        answer: bytes | None = self._connection.execute(
            "SELECT answer FROM answer WHERE token = ? AND id >= ?", (token, place - ANSWERS_MAX)
        ).get
        return answer

    def remember(self, place: int, token: bytes, answer: bytes) -> None:
        """Keep an answer, in case that the command comes again. One from too long ago makes way."""
        self._connection.execute(
            "INSERT OR REPLACE INTO answer(id, token, answer) VALUES (?, ?, ?)", (place, token, answer)
        )

    def add_piece(self, place: int, token: bytes, number: int, raw: bytes) -> int:
        """Keep a piece of a long record until all are there; returns how many are."""
        self._connection.execute(
            "INSERT OR REPLACE INTO piece(token, number, since, raw) VALUES (?, ?, ?, ?)", (token, number, place, raw)
        )
        self._connection.execute(
            "DELETE FROM piece WHERE token NOT IN "
            "(SELECT token FROM piece GROUP BY token ORDER BY max(since) DESC LIMIT ?)",
            (PIECES_MAX,),
        )
        count: int = self._connection.execute("SELECT count(*) FROM piece WHERE token = ?", (token,)).get
        return count

    def take_pieces(self, token: bytes) -> list[bytes]:
        """All pieces, in order, which are forgotten then."""
        found = self._connection.execute("SELECT raw FROM piece WHERE token = ? ORDER BY number", (token,))
        raws = [raw for (raw,) in found]
        self._connection.execute("DELETE FROM piece WHERE token = ?", (token,))
        return raws

    # ---- effects ----------------------------------------------------------------------------------------------------

    def raise_fence(self, fence: int) -> bool:
        """Show a right; an older one than the newest counts for nothing."""
        if fence < self._row.fence:
            return False
        self._row.fence = fence
        return True

    def effect(self, id: str) -> EffectRow | None:
        """What is known of an effect."""
        row = self._connection.execute("SELECT id, fence, outcome FROM effect WHERE id = ?", (id,)).fetchone()
        return None if row is None else EffectRow(*row)

    def set_effect(self, effect: EffectRow) -> None:
        """Write down what is known of an effect."""
        before = self.effect(effect.id)
        self._connection.execute(
            "INSERT OR REPLACE INTO effect(id, fence, outcome) VALUES (?, ?, ?)",
            (effect.id, effect.fence, effect.outcome),
        )
        self._row.sum += _effect_element(effect) - (0 if before is None else _effect_element(before))


class ReplicaFill:
    """A part of a snapshot on its way into a new store, in one transaction."""

    def __init__(
        self, connection: apsw.Connection, write: _Counting, put: Callable[[Sequence[Record]], list[Put]]
    ) -> None:
        self._connection: Final = connection
        self._write: Final = write
        self._put: Final = put

    def records(self, numbered: Sequence[tuple[int, Record]]) -> None:
        """Records with the numbers that they have everywhere, which rise."""
        for run in _runs(numbered):
            first = run[0][0]
            if first <= self._write.high_water:
                raise IntegrityError(f"record {first} of a snapshot comes after {self._write.high_water}")
            self._write.high_water = StoreRecordId(first - 1)
            answers = self._put([record for _, record in run])
            if any(answer.outcome is not Outcome.STORED for answer in answers):
                raise IntegrityError(f"a record from {first} on is in a snapshot twice")

    def refusal(self, hash: HashText, reason: str, tai: int) -> None:
        """A refusal; they come in the order in which they were made."""
        refusals.refuse(self._connection, self._write.counts, hash, reason=reason, now=tai)

    def change(self, number: int, what: int, kind: int, digest: bytes) -> None:
        """What was written down of a removal."""
        self._connection.execute(
            "INSERT INTO change(id, what, kind, digest) VALUES (?, ?, ?, ?)", (number, what, kind, digest)
        )

    def kept(self, kind: str, key: str, value: bytes) -> None:
        """A value that only saves work."""
        keeping.put(self._connection, kind, key, value)

    def answer(self, place: int, token: bytes, answer: bytes) -> None:
        """An answer that may be asked for again."""
        self._connection.execute("INSERT INTO answer(id, token, answer) VALUES (?, ?, ?)", (place, token, answer))

    def piece(self, token: bytes, number: int, since: int, raw: bytes) -> None:
        """A piece of a long record."""
        self._connection.execute(
            "INSERT INTO piece(token, number, since, raw) VALUES (?, ?, ?, ?)", (token, number, since, raw)
        )

    def effect(self, effect: EffectRow) -> None:
        """What is known of an effect."""
        self._connection.execute(
            "INSERT INTO effect(id, fence, outcome) VALUES (?, ?, ?)", (effect.id, effect.fence, effect.outcome)
        )


def _runs(numbered: Sequence[tuple[int, Record]]) -> Iterator[Sequence[tuple[int, Record]]]:
    """Stretches without a gap between the numbers."""
    begin = 0
    for place in range(1, len(numbered) + 1):
        if place == len(numbered) or numbered[place][0] != numbered[place - 1][0] + 1:
            yield numbered[begin:place]
            begin = place


class SqliteReplica(Generic[Write]):
    """The copy that a store is."""

    def __init__(
        self,
        connection: apsw.Connection,
        readers: Readers,
        *,
        writing: Callable[[], AbstractContextManager[Write]],
        put: Callable[[Sequence[Record], Write], list[Put]],
        take_out: TakeOut[Write],
    ) -> None:
        self._connection: Final = connection
        self._readers: Final = readers
        self._writing: Final = writing
        self._put: Final = put
        self._take_out: Final = take_out

    def begin(self) -> None:
        """Make an empty store a copy of an empty state; one that is a copy stays as it is."""
        with self._writing() as write:
            if _read(self._connection) is None:
                if write.high_water or write.counts.refused:
                    raise UsageError("this store has records of its own, and is no copy of a replicated lace")
                _write(self._connection, _Row(0, 0, 0))

    def state(self) -> ReplicaState | None:
        """How far it is; None for a store that is no copy."""
        return state_of(self._connection)

    def answer(self, token: bytes) -> bytes | None:
        """The answer to one of the newest commands."""
        return answer_of(self._connection, token)

    def effects(self) -> list[EffectRow]:
        """Everything that was written down of effects."""
        return [EffectRow(*row) for row in self._connection.execute("SELECT id, fence, outcome FROM effect")]

    @contextmanager
    def applying(self, place: int) -> Iterator[ReplicaWrite]:
        """Changes that bring the copy up to a place of the log, in one commit."""
        with self._writing() as write:
            row = _read(self._connection)
            assert row is not None, "begin makes a store a copy"
            assert place >= row.applied, "a copy never goes back"
            yield ReplicaWrite(
                self._connection,
                write.counts,
                row,
                put=lambda records: self._put(records, write),
                take_out=lambda name, reason, tai: self._take_out(name, write, reason, tai),
            )
            row.applied = place
            row.sum %= _MODULUS
            _write(self._connection, row)
            # No command after this place can ask for them.
            self._connection.execute("DELETE FROM answer WHERE id <= ?", (place - ANSWERS_MAX,))

    @contextmanager
    def filling(self) -> Iterator[ReplicaFill]:
        """A part of a snapshot, in one commit; for a store that nobody else knows yet."""
        with self._writing() as write:
            yield ReplicaFill(self._connection, write, lambda records: self._put(records, write))

    def finish(self, state: ReplicaState) -> None:
        """All of a snapshot is there: the copy is at that place. Raises ``IntegrityError`` where it is another one."""
        with self._writing() as write:
            row = _Row(state.applied, _count_sum(self._connection), state.fence)
            if write.high_water > state.high_water or changes.mark(self._connection).removal > state.changes:
                raise IntegrityError("a snapshot has numbers above the highest that were given")
            if _root(row, state.high_water, state.changes) != state.root:
                raise IntegrityError("a snapshot does not hold what its root says")
            _set_sequence(self._connection, "record", state.high_water)
            _set_sequence(self._connection, "change", state.changes)
            _write(self._connection, row)
            write.high_water = state.high_water

    def pin(self) -> Moment:
        """This moment, to be read in any thread; whoever has it closes it."""
        return self._readers.lend()

    def take_over(self, other: Path) -> None:
        """Hold what another store holds, which is a copy that is further, instead of what is held here."""
        self._connection.execute("ATTACH ? AS other", (str(other),))
        try:
            with self._writing() as write:
                for table in _SWAPPED:
                    self._connection.execute(f"DELETE FROM main.{table}")  # noqa: S608 -- a constant
                    self._connection.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table}")  # noqa: S608
                for table in _SEQUENCES:
                    _set_sequence(self._connection, table, _sequence(self._connection, table, of="other"))
                theirs = tally.read(self._connection, of="other")
                own = write.counts
                own.blobs, own.plexes, own.seals = theirs.blobs, theirs.plexes, theirs.seals
                own.record_bytes, own.refused = theirs.record_bytes, theirs.refused
                own.generation += 1
                write.high_water = tally.high_water(self._connection)
        finally:
            self._connection.execute("DETACH other")


# ---- what one moment says -------------------------------------------------------------------------------------------


def state_of(connection: apsw.Connection) -> ReplicaState | None:
    """How far the copy is that a connection sees; None for a store that is none."""
    row = _read(connection)
    if row is None:
        return None
    mark = changes.mark(connection)
    return ReplicaState(
        applied=row.applied,
        root=_root(row, mark.high_water, mark.removal),
        fence=row.fence,
        high_water=mark.high_water,
        changes=mark.removal,
    )


def answer_of(connection: apsw.Connection, token: bytes) -> bytes | None:
    """The answer to one of the newest commands."""
    answer: bytes | None = connection.execute("SELECT answer FROM answer WHERE token = ?", (token,)).get
    return answer


def end(connection: apsw.Connection) -> None:
    """Let a store be no copy any more; its records stay."""
    for table in ("replica", "answer", "piece", "effect"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 -- a constant


def check(connection: apsw.Connection) -> Iterator[Finding]:
    """Whether the sum is that of what is stored."""
    row = _read(connection)
    if row is not None and row.sum != _count_sum(connection):
        yield Finding("replica", "the sum over records, refusals and effects is not that of what is stored")


def record_element(number: int, kind: int, digest: bytes) -> int:
    """What a record adds to the sum."""
    return _element(b"r%c" % kind + number.to_bytes(8, "big") + digest)


def _effect_element(effect: EffectRow) -> int:
    words = (effect.id, "" if effect.outcome is None else effect.outcome)
    return _element(b"e" + effect.fence.to_bytes(8, "big") + "\0".join(words).encode())


def _refusal_element(hash: str, reason: str, tai: int) -> int:
    return _element(b"x" + f"{hash} {tai} {reason}".encode())


def _element(raw: bytes) -> int:
    return int.from_bytes(blake3(raw).digest(length=_SUM_BYTES), "big")


def _refusal_sum(connection: apsw.Connection, hash: HashText) -> int:
    row = connection.execute("SELECT hash, reason, tai FROM refusal WHERE hash = ?", (hash,)).fetchone()
    return 0 if row is None else _refusal_element(*row)


def _count_sum(connection: apsw.Connection) -> int:
    total = 0
    for row in connection.execute("SELECT id, kind, digest FROM fact"):
        total += record_element(*row)
    for row in connection.execute("SELECT hash, reason, tai FROM refusal"):
        total += _refusal_element(*row)
    for row in connection.execute("SELECT id, fence, outcome FROM effect"):
        total += _effect_element(EffectRow(*row))
    return total % _MODULUS


def _root(row: _Row, high_water: int, removals: int) -> bytes:
    numbers = b"".join([number.to_bytes(8, "big") for number in (high_water, removals, row.fence)])
    return blake3(_ROOT + row.sum.to_bytes(_SUM_BYTES, "big") + numbers).digest()


def _read(connection: apsw.Connection) -> _Row | None:
    row = connection.execute("SELECT applied, sum, fence FROM replica").fetchone()
    return None if row is None else _Row(row[0], int.from_bytes(row[1], "big"), row[2])


def _write(connection: apsw.Connection, row: _Row) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO replica(id, applied, sum, fence) VALUES (1, ?, ?, ?)",
        (row.applied, row.sum.to_bytes(_SUM_BYTES, "big"), row.fence),
    )


def _sequence(connection: apsw.Connection, table: str, *, of: str = "main") -> int:
    statement = f"SELECT seq FROM {of}.sqlite_sequence WHERE name = ?"  # noqa: S608 -- the name of a database of ours
    highest: int | None = connection.execute(statement, (table,)).get
    return highest or 0


def _set_sequence(connection: apsw.Connection, table: str, highest: int) -> None:
    """The highest number ever given, also where what had it is gone."""
    connection.execute("DELETE FROM main.sqlite_sequence WHERE name = ?", (table,))
    connection.execute("INSERT INTO main.sqlite_sequence(name, seq) VALUES (?, ?)", (table, highest))
