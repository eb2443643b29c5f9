"""The state machine of a replicated lace: a store that does what a log says.

Commands are done in the order of the log, many in one transaction, with the place up to which they are done. So every
node gives every record the same number, the numbers are the order of commitment, and after a restart what is there
already is skipped. Bytes were validated before they were proposed, and here they are only taken apart, for every node
would do the same work again. What a command asks for never raises: one that makes no sense is answered by a refusal,
the same at every node.

A capture is a moment of the database, read in whichever thread writes the snapshot while commands go on.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from blake3 import blake3

from bobbin.cluster.composite import Placed
from bobbin.errors import BobbinError, IntegrityError, PeerError
from bobbin.reactive.authority import Outcome as EffectOutcome
from bobbin.records import ids
from bobbin.records.canonical import MARKLINE_SIZE
from bobbin.records.ids import HashText, IdentifierError
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, read_trusted
from bobbin.runtime import replicated_commands as wire
from bobbin.runtime.replicated_commands import (
    Answer,
    CompareRoot,
    Keep,
    Lift,
    NotDone,
    PutPiece,
    PutRecords,
    RaiseFence,
    Remove,
    SetEffect,
    Truth,
)
from bobbin.store.base import StoreRecordId
from bobbin.store.sqlite import keeping, open_store, refusals
from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.readers import Moment
from bobbin.store.sqlite.replica import EffectRow, ReplicaFill, ReplicaState, ReplicaWrite, state_of
from bobbin.store.sqlite.store import SqliteStore

SNAPSHOT_FORMAT: Final = 1
_YES: Final = Truth(value=True)
_NO: Final = Truth(value=False)
SHARED_KINDS: Final = frozenset({"cursor"})
"""Of the values that only save work, those that are worth having at every node: where exchanges left off."""
FILL_RECORDS: Final = 2_048
"""Of a snapshot, written in one transaction."""
_COUNTS: Final = (
    "SELECT (SELECT count(*) FROM record) + (SELECT count(*) FROM refusal) + (SELECT count(*) FROM change) + "
    "(SELECT count(*) FROM answer) + (SELECT count(*) FROM effect) + (SELECT count(*) FROM piece)"
)


class Applied:
    """What came of commands that were done in one transaction."""

    def __init__(self) -> None:
        self.answers: Final[dict[bytes, bytes]] = {}
        """By token."""
        self.news: Final[set[bytes]] = set()
        """The tokens of those by which records have come, or gone, or may come again."""
        self.compared: Final[list[CompareRoot]] = []
        self.state: ReplicaState
        """Afterwards."""


class LaceMachine:
    """A store that follows a log. One thread at a time."""

    def __init__(self, path: Path, *, now: Callable[[], int], config: Config | None = None) -> None:
        """``now`` dates nothing here: refusals bring their times."""
        self._path: Final = path
        self._now: Final = now
        self.store: Final[SqliteStore] = open_store(path, now=now, config=config or Config(syncs_commits=False))
        try:
            self.store.replica.begin()
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self.store.close()

    @property
    def state(self) -> ReplicaState:
        """How far it is."""
        state = self.store.replica.state()
        assert state is not None, "begin made it a copy"
        return state

    # ---- commands ---------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[Placed], place: int) -> Applied:
        """Do committed commands in one transaction; then everything up to ``place`` is done.

        Those at or below the place that the store has reached are skipped.
        """
        done = Applied()
        reached = self.state.applied
        fresh = [(index, term, _read(raw)) for index, term, raw in commands if index > reached]
        with self.store.replica.applying(max(place, reached)) as write:
            position = 0
            while position < len(fresh):
                index, term, command = fresh[position]
                if isinstance(command, PutRecords):
                    position += self._put_run(write, fresh, position, done)
                    continue
                position += 1
                if isinstance(command, CompareRoot):
                    done.compared.append(command)
                elif isinstance(command, NotDone):
                    continue
                elif (known := write.answered(index, command.token)) is not None:
                    done.answers[command.token] = known
                else:
                    self._finish(write, index, command, self._do(write, index, term, command), done)
        done.state = self.state
        return done

    def _put_run(
        self,
        write: ReplicaWrite,
        fresh: "Sequence[tuple[int, int, wire.Command | NotDone]]",
        begin: int,
        done: Applied,
    ) -> int:
        """Neighbours that put records go into the tables together; returns how many commands these are."""
        parts: list[tuple[int, PutRecords, int | NotDone]] = []
        records: list[Record] = []
        count = 0
        for index, _, command in fresh[begin:]:
            if not isinstance(command, PutRecords) or any(command.token == one.token for _, one, _ in parts):
                break
            count += 1
            if (known := write.answered(index, command.token)) is not None:
                done.answers[command.token] = known
                continue
            found = _records(command.raws)
            if isinstance(found, NotDone):
                parts.append((index, command, found))
            else:
                records += found
                parts.append((index, command, len(found)))
        puts = write.put(records)
        at = 0
        for index, command, size in parts:
            if isinstance(size, NotDone):
                self._finish(write, index, command, size, done)
            else:
                self._finish(write, index, command, wire.stored(puts[at : at + size]), done)
                at += size
        return count

    @staticmethod
    def _finish(write: ReplicaWrite, index: int, command: "wire.Answered", answer: Answer, done: Applied) -> None:
        raw = wire.encode(answer)
        write.remember(index, command.token, raw)
        done.answers[command.token] = raw
        if wire.is_news(command, answer):
            done.news.add(command.token)

    @staticmethod
    def _do(write: ReplicaWrite, index: int, term: int, command: "wire.Command") -> Answer:
        match command:
            case RaiseFence(_, fence) | SetEffect(_, _, fence) if fence > term:
                # A right is the term of a leader, who asks after its election: what is committed has that term or a
                # later one. A right beyond it was given to nobody, and would shut out all leaders to come.
                return NotDone(f"nobody leads in term {fence} by now")
            case PutPiece(_, record, number, raw, count):
                if number >= count:
                    return NotDone(f"there is no piece {number} of {count}")
                if write.add_piece(index, record, number, raw) < count:
                    return _YES
                found = _records([b"".join(write.take_pieces(record))])
                return found if isinstance(found, NotDone) else wire.stored(write.put(found))
            case Remove(_, hash, reason, tai):
                return _named(hash, lambda name: write.remove(name, reason=reason, tai=tai))
            case Lift(_, hash):
                return _named(hash, write.lift)
            case Keep(_, kind, key, value):
                if kind not in SHARED_KINDS or len(value or b"") > wire.KEPT_BYTES_MAX:
                    return NotDone("no value to be kept at every node")
                try:
                    keeping.check(kind, key, value)
                except BobbinError as error:
                    return NotDone(str(error))
                write.keep(kind, key, value)
                return _YES
            case RaiseFence(_, fence):
                return Truth(write.raise_fence(fence))
            case SetEffect():
                return _set_effect(write, command)
            case _:
                return NotDone("nothing that is done so")

    # ---- snapshots --------------------------------------------------------------------------------------------------

    def capture(self) -> "LaceCapture":
        """The state as it is now. Whoever has it closes it, or reads it to its end."""
        return LaceCapture(self.store.replica.pin())

    def build(self, target: Path, entries: Iterable[bytes], place: int) -> None:
        """Write a snapshot of a place into a new store beside this one. For any thread; raises ``IntegrityError``."""
        build(target, entries, place, now=self._now)

    def take_over(self, other: Path) -> ReplicaState:
        """Hold what a store beside this one holds, unless this one is as far."""
        with open_store(other, now=self._now) as built:
            state = built.replica.state()
        if state is not None and state.applied > self.state.applied:
            self.store.replica.take_over(other)
        return self.state


class LaceCapture:
    """A moment of a replicated lace, as the entries of a snapshot."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment

    def __len__(self) -> int:
        self._moment.require_open()
        connection = self._moment.connection
        kept = sum(1 for _ in self._kept())
        rows: int = connection.execute(_COUNTS).get
        return 1 + rows + kept

    def __iter__(self) -> Iterator[bytes]:
        try:
            for entry in self._entries():
                yield wire.encode(entry)
        finally:
            self.close()

    def close(self) -> None:
        """Let the moment go."""
        self._moment.close()

    def _entries(self) -> "Iterator[wire.SnapshotEntry]":
        connection = self._moment.connection
        state = state_of(connection)
        assert state is not None, "only a copy is captured"
        yield wire.Head(SNAPSHOT_FORMAT, state.high_water, state.changes, state.fence, state.root)
        for number, raw in connection.execute("SELECT id, raw FROM record ORDER BY id"):
            yield wire.RecordEntry(number, raw)
        for refusal in refusals.walk(connection):
            yield wire.RefusalEntry(refusal.hash, refusal.reason, refusal.tai)
        for row in connection.execute("SELECT id, what, kind, digest FROM change ORDER BY id"):
            yield wire.ChangeEntry(*row)
        for kind, key, value in self._kept():
            yield wire.KeptEntry(kind, key, value)
        for row in connection.execute("SELECT id, token, answer FROM answer ORDER BY id"):
            yield wire.AnswerEntry(*row)
        for row in connection.execute("SELECT id, fence, outcome FROM effect ORDER BY id"):
            yield wire.EffectEntry(*row)
        for row in connection.execute("SELECT token, number, since, raw FROM piece ORDER BY token, number"):
            yield wire.PieceEntry(*row)

    def _kept(self) -> Iterator[tuple[str, str, bytes]]:
        for kind in sorted(SHARED_KINDS):
            rows = self._moment.connection.execute(
                "SELECT kind, key, value FROM kept WHERE kind = ? ORDER BY id", (kind,)
            )
            for row in rows:
                if len(row[2]) <= wire.KEPT_BYTES_MAX:
                    yield row


# ---- building a copy ------------------------------------------------------------------------------------------------


def build(target: Path, entries: Iterable[bytes], place: int, *, now: Callable[[], int]) -> None:
    """Write a snapshot that was taken at a place of the log into a new store.

    Raises ``IntegrityError`` where the entries make no sense, or are not what their head says; then nothing remains.
    """
    clear(target)
    try:
        with open_store(target, create=True, now=now, config=Config(syncs_commits=False)) as store:
            source = iter(entries)
            head = _entry(next(source, b""))
            if not isinstance(head, wire.Head) or head.format != SNAPSHOT_FORMAT:
                raise IntegrityError("a lace's part of a snapshot begins with a head of a format that is known here")
            store.replica.begin()
            _fill_all(store, source)
            store.replica.finish(
                ReplicaState(
                    applied=place,
                    root=head.root,
                    fence=head.fence,
                    high_water=StoreRecordId(head.high_water),
                    changes=head.changes,
                )
            )
    except BaseException:
        clear(target)
        raise


def clear(target: Path) -> None:
    """Take away a store that was built and is not needed."""
    for suffix in ("", "-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)


def _fill_all(store: SqliteStore, entries: Iterator[bytes]) -> None:
    """All but the head, some thousands in one transaction."""
    is_over = False
    while not is_over:
        waiting: list[tuple[int, Record]] = []
        with store.replica.filling() as fill:
            for _ in range(FILL_RECORDS):
                raw = next(entries, None)
                if raw is None:
                    is_over = True
                    break
                entry = _entry(raw)
                if isinstance(entry, wire.RecordEntry):
                    waiting.append((entry.id, _record(entry.raw)))
                    continue
                fill.records(waiting)
                waiting = []
                _fill(fill, entry)
            fill.records(waiting)


def _fill(fill: ReplicaFill, entry: "wire.SnapshotEntry") -> None:
    match entry:
        case wire.RefusalEntry(name, reason, tai):
            try:
                fill.refusal(HashText(name), reason, tai)
            except IdentifierError as error:
                raise IntegrityError(f"a refusal in a snapshot names no record: {error}") from error
        case wire.ChangeEntry(number, what, kind, digest):
            fill.change(number, what, kind, digest)
        case wire.KeptEntry(kind, key, value):
            fill.kept(kind, key, value)
        case wire.AnswerEntry(number, token, answer):
            fill.answer(number, token, answer)
        case wire.EffectEntry(id, fence, outcome):
            fill.effect(EffectRow(id, fence, outcome))
        case wire.PieceEntry(token, number, since, raw):
            fill.piece(token, number, since, raw)
        case _:
            raise IntegrityError(f"a {type(entry).__name__} stands where no entry of a snapshot has it")


# ---- reading what came ----------------------------------------------------------------------------------------------


def _read(raw: bytes) -> "wire.Command | NotDone":
    try:
        return wire.decode_command(raw)
    except PeerError as error:
        return NotDone(str(error))


def _entry(raw: bytes) -> "wire.SnapshotEntry":
    try:
        return wire.decode_entry(raw)
    except PeerError as error:
        raise IntegrityError(str(error)) from error


def _records(raws: Sequence[bytes]) -> list[Record] | NotDone:
    """The records, or why they are none: a command is done as a whole, or not at all."""
    try:
        return [read_trusted(raw) for raw in raws]
    except InvalidRecord as error:
        return NotDone(f"these bytes are no record: {error}")


def _record(raw: bytes) -> Record:
    """A record from another node's snapshot, of which the name is checked again."""
    try:
        record = read_trusted(raw)
    except InvalidRecord as error:
        raise IntegrityError(f"these bytes are no record: {error}") from error
    if blake3(memoryview(raw)[MARKLINE_SIZE:]).digest() != record.digest:
        raise IntegrityError(f"the bytes of {record.hash} are not those of its name")
    return record


def _named(hash: str, do: Callable[[HashText], bool]) -> Answer:
    try:
        ids.parse_hash(hash)
    except IdentifierError as error:
        return NotDone(str(error))
    return Truth(do(HashText(hash)))


def _set_effect(write: ReplicaWrite, command: SetEffect) -> Answer:
    """An effect begins under the newest right alone, and once; its end is told by whoever has begun it, once."""
    if not command.id or (command.outcome is not None and command.outcome not in _FINAL):
        return NotDone("an effect has an id, and ends applied or rejected")
    known = write.effect(command.id)
    if command.outcome is None:
        if known is not None or command.settles or command.fence < write.fence:
            return _NO
        write.set_effect(EffectRow(command.id, command.fence, None))
        return _YES
    if known is None or known.outcome is not None:
        return _NO
    if command.fence != known.fence and (not command.settles or command.fence < write.fence):
        return _NO
    write.set_effect(EffectRow(known.id, known.fence, command.outcome))
    return _YES


_FINAL: Final = frozenset(outcome.value for outcome in EffectOutcome if outcome.is_final)
