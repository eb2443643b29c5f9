"""A durable set of valid records in one SQLite file.

A write is one transaction: it waits for its turn, compares the batch with what is stored in one query, writes the new
records with everything they say, and returns when the commit is on the disk. Only then are dictionary numbers
remembered and subscribers woken. If anything fails, nothing of the call is in the store.

Reading one record, and asking for one fact about the store, goes through the store's own connection and sees the
present. Everything that iterates takes a snapshot of its own at its first step, so an iterator sees one moment and
stays valid whatever is written meanwhile. Finish iterators, or close them: an unfinished one holds its snapshot.

One store object belongs to one thread at a time. Any number of store objects, in any number of processes, may have
the same file open. Do not carry a store object over a fork.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar, cast

import apsw
from msgspec import Struct, structs

from bobbin.errors import UsageError
from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.facts.relations import FactSource, Pattern, Tuple
from bobbin.records import ids
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText, Kind
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, validate
from bobbin.store.base import (
    Fields,
    Finding,
    Listed,
    Mark,
    Outcome,
    Progress,
    Put,
    Quarantined,
    Refusal,
    Rejected,
    Stat,
    StoreChanges,
    StoredRecord,
    StoreRecordId,
)
from bobbin.store.sqlite import (
    backup,
    bulk,
    changes,
    check,
    coding,
    compact,
    facts,
    faults,
    keeping,
    listing,
    lookup,
    migrations,
    quarantine,
    refusals,
    rows,
    tally,
    tangle_rows,
    tangles,
)
from bobbin.store.sqlite.connection import Access, Source, transaction
from bobbin.store.sqlite.dictionary import Place, Places, Texts
from bobbin.store.sqlite.readers import Readers
from bobbin.store.sqlite.replica import SqliteReplica
from bobbin.store.sqlite.snapshot import SqliteSnapshot
from bobbin.store.sqlite.tally import Tally
from bobbin.store.sqlite.tangles import SqliteTangles

Item = TypeVar("Item")
Puts: TypeAlias = list[Put]

KNOWN: Final = "SELECT f.digest, r.id FROM record r CROSS JOIN fact f ON f.id = r.id WHERE r.key IN carray(?)"
"""Which of many records are stored. Keys may collide, so digests are compared."""


class _Write(Struct):
    """What one write transaction knows and leaves behind."""

    counts: Tally
    high_water: StoreRecordId
    places: dict[Place, int]
    texts: dict[str, int]


def _sort_out(
    records: Sequence[Record], known: dict[bytes, int], refused: Mapping[HashText, str], first: int
) -> tuple[Puts, list[Record]]:
    """The answer for each record, and those that are to be stored, numbered from ``first`` on."""
    known = known.copy()
    answers: Puts = []
    fresh: list[Record] = []
    for record in records:
        name = coding.hash_of_raw(record.raw)
        stored = known.get(record.digest)
        if stored is not None:
            answers.append(Put(Outcome.DUPLICATE, name, StoreRecordId(stored)))
        elif name in refused:
            answers.append(Put(Outcome.REFUSED, name, reason=refused[name]))
        else:
            number = StoreRecordId(first + len(fresh))
            known[record.digest] = number
            fresh.append(record)
            answers.append(Put(Outcome.STORED, name, number))
    return answers, fresh


def _stored_already(records: Sequence[Record], known: dict[bytes, int]) -> dict[int, bytes]:
    """What was in the store before, by number, with the bytes that it ought to have."""
    return {known[record.digest]: record.raw for record in records if record.digest in known}


class _PresentFacts:
    """The facts of the present: each answer is one moment, pinned at its first tuple."""

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        """Every tuple of a predicate."""
        return self.match(predicate, (None,) * relations.ARITY.get(predicate, 0))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        """The tuples of a predicate that agree with the pattern, found by an index where one fits."""
        relations.check_pattern(predicate, pattern)
        return self._store.walk(lambda connection: facts.matching(connection, predicate, pattern))


class SqliteStore:
    """A store that is open. ``open_store`` makes one."""

    def __init__(self, source: Source, connection: apsw.Connection, *, now: Callable[[], int]) -> None:
        self._source = source
        self._path = source.path
        self._now = now
        self._connection = connection
        self._point = connection.cursor()
        self._readers = Readers(source)
        self._facts = _PresentFacts(self)
        self._places = Places(source.config.dictionary_cache_entries_max)
        self._texts = Texts(source.config.dictionary_cache_entries_max)
        self._generation = 0
        self._wakes: dict[object, Callable[[StoreRecordId], None]] = {}
        self._data_version: int = connection.pragma("data_version")
        self._is_closed = False

    # ---- writing --------------------------------------------------------------------------------------------------

    def put_many(self, raws: Iterable[bytes], *, source: str = "") -> Puts:
        """Validate and store. One answer per item, in order; rejected bytes go to the quarantine.

        A call is one transaction, held in memory: give it thousands of records at a time, not millions.
        """
        valid: list[Record] = []
        rejected: list[Rejected] = []
        answers: list[Put | None] = []
        for raw in raws:
            try:
                valid.append(validate(raw))
                answers.append(None)
            except InvalidRecord as failure:
                reason, detail = str(failure.reason), failure.detail
                rejected.append(Rejected(raw=raw, reason=reason, detail=detail, source=source))
                answers.append(Put(Outcome.REJECTED, None, reason=reason, detail=detail))
        stored = iter(self.put_records(valid, rejected=rejected))
        return [answer or next(stored) for answer in answers]

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Puts:
        """Store records that exist as values (and so are valid), and quarantine rejected bytes, in one commit.

        One answer per record, in order. What is rejected was answered where it was rejected.
        """
        with self._writing() as write:
            answers = self._put(records, write) if records else []
            if rejected:
                quarantine.add(self._connection, write.counts, rejected, config=self._source.config, now=self._now())
        return answers

    def _put(self, records: Sequence[Record], write: _Write) -> Puts:
        digests = [record.digest for record in records]
        keys = coding.keys_of(digests)
        known: dict[bytes, int] = dict(self._connection.execute(KNOWN, (apsw.carray(keys),)))
        refused = refusals.reasons(self._connection, keys) if write.counts.refused else {}
        first = write.high_water + 1
        fresh = records
        if known or refused or len(set(digests)) < len(digests):
            answers, fresh = _sort_out(records, known, refused, first)
            if known:
                rows.mend(self._connection, _stored_already(records, known))
            keys = coding.keys_of([record.digest for record in fresh])
        else:
            # The usual case: all are new, and there is nothing to decide for each.
            answers = [
                Put(Outcome.STORED, coding.hash_of_raw(record.raw), cast("StoreRecordId", number))
                for number, record in enumerate(records, first)
            ]
        if fresh:
            write.places, write.texts = rows.insert(
                self._connection, fresh, keys, first_id=first, places=self._places, texts=self._texts
            )
            kinds = [record.kind for record in fresh]
            for kind in Kind:
                write.counts.add(kind, kinds.count(kind))
            write.counts.record_bytes += sum([len(record.raw) for record in fresh])
            write.high_water = StoreRecordId(write.high_water + len(fresh))
        return answers

    def remove(self, hash: HashText, *, reason: str) -> bool:
        """Take a record and its facts out and refuse it from now on. False if it was not there (still refused).

        With it goes everything that was kept to save work: what the record says may stand there too. If it is a message
        of a tangle, that loses its data.
        """
        ids.parse_hash(hash)
        with self._writing() as write:
            number = lookup.locate(self._connection, hash)
            if number is not None:
                tangles.forget_record(self._connection, number)
            return self._take_out(hash, write, reason)

    def _take_out(self, hash: HashText, write: _Write, reason: str, tai: int | None = None) -> bool:
        number = lookup.locate(self._connection, hash)
        if number is not None:
            write.counts.record_bytes -= rows.delete(self._connection, number)
            write.counts.add(ids.parse_hash(hash)[0], -1)
        refusals.refuse(self._connection, write.counts, hash, reason=reason, now=self._now() if tai is None else tai)
        what = changes.What.REFUSED if number is None else changes.What.REMOVED
        changes.add(self._connection, what, hash)
        keeping.clear(self._connection)
        return number is not None

    def lift(self, hash: HashText) -> bool:
        """End a refusal. False if there was none."""
        ids.parse_hash(hash)
        with self._writing() as write:
            lifted = refusals.lift(self._connection, write.counts, hash)
            if lifted:
                changes.add(self._connection, changes.What.LIFTED, hash)
        return lifted

    def release(self, id: int) -> bool:
        """Forget one row of the quarantine. False if there was none."""
        with self._writing() as write:
            return quarantine.release(self._connection, write.counts, id)

    def release_all(self) -> int:
        """Forget every row of the quarantine, and what was only counted; how many rows there were."""
        with self._writing() as write:
            return quarantine.release_all(self._connection, write.counts)

    @property
    def tangles(self) -> SqliteTangles[_Write]:
        """The messages of tangles that are kept beside the records."""
        self._require_open()
        return SqliteTangles(
            self._connection,
            self._readers,
            writing=self._writing,
            put=self._put,
            take_out=self._take_out,
            read_only=self._source.access is not Access.WRITE,
        )

    @property
    def replica(self) -> SqliteReplica[_Write]:
        """What makes this store a copy of a replicated lace."""
        self._require_open()
        return SqliteReplica(
            self._connection, self._readers, writing=self._writing, put=self._put, take_out=self._take_out
        )

    def keep(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a value that only saves work, in place of what was there; None takes it out. Nobody is woken."""
        self._require_writable()
        keeping.check(kind, key, value)
        with faults.translated(self._path, self._connection), transaction(self._connection):
            keeping.put(self._connection, kind, key, value)

    def compact(self) -> None:
        """Give unused space back to the file system. The disk must have room for the store twice."""
        self._require_writable()
        with faults.translated(self._path, self._connection):
            compact.drop_unused(self._connection)
            compact.shrink(self._connection, busy_timeout_ms=self._source.config.busy_timeout_ms)

    @contextmanager
    def _writing(self) -> Iterator[_Write]:
        """One write transaction. What it leaves behind is durable, remembered and announced, in this order."""
        self._require_writable()
        with faults.translated(self._path, self._connection):
            before = self._connection.total_changes()
            with transaction(self._connection):
                counts = tally.read(self._connection)
                if counts.generation != self._generation:
                    self._texts.forget()
                    self._places.forget()
                    self._generation = counts.generation
                write = _Write(structs.replace(counts), tally.high_water(self._connection), {}, {})
                yield write
                if write.counts != counts:
                    tally.write(self._connection, write.counts)
            self._places.remember(write.places)
            self._texts.remember(write.texts)
            has_changed = self._connection.total_changes() > before
        if has_changed:
            self._wake(write.high_water)

    def _wake(self, high_water: StoreRecordId) -> None:
        """Call every subscriber. The commit has happened, so what one of them raises can only be a warning."""
        for wake in list(self._wakes.values()):
            try:
                wake(high_water)
            except Exception as error:  # noqa: BLE001 - it is somebody else's code
                warnings.warn(f"a subscriber of the store failed: {error!r}", RuntimeWarning, stacklevel=4)

    # ---- reading the present --------------------------------------------------------------------------------------

    def get(self, hash: HashText) -> bytes | None:
        """The bytes of a record, or None."""
        try:
            return lookup.get(self._point, hash)
        except apsw.Error as error:
            raise faults.translate(error, self._path) from error

    def get_many(self, records: Sequence[str], *, bytes_max: int) -> dict[str, bytes]:
        """The bytes of those records that are stored and undamaged, until so many bytes are together."""
        self._require_open()
        with faults.translated(self._path):
            return bulk.get_many(self._connection, records, bytes_max=bytes_max)

    def have(self, hash: HashText) -> bool:
        """Whether a record is stored."""
        try:
            return lookup.locate(self._connection, hash) is not None
        except apsw.Error as error:
            raise faults.translate(error, self._path) from error

    def high_water(self) -> StoreRecordId:
        """The id of the newest record that this view can have seen (0 for none ever)."""
        self._require_open()
        with faults.translated(self._path):
            return tally.high_water(self._connection)

    def stat(self) -> Stat:
        """Sizes and counts."""
        self._require_open()
        with self._readers.lend() as moment, faults.translated(self._path):
            counts = tally.read(moment.connection)
            messages = tangle_rows.read_tally(moment.connection)
            return Stat(
                records=counts.records(),
                record_bytes=counts.record_bytes,
                quarantined=counts.quarantined,
                quarantine_overflow=counts.quarantine_overflow,
                refused=counts.refused,
                high_water=moment.high_water,
                file_bytes=sum(path.stat().st_size for path in self._files() if path.exists()),
                schema_version=migrations.version_of(moment.connection),
                messages=messages.messages,
                messages_erased=messages.erased,
                messages_interop=messages.interop,
                messages_lacking=tangle_rows.count_lacking(moment.connection),
                messages_waiting=messages.waiting,
                message_bytes=messages.message_bytes,
            )

    def _files(self) -> tuple[Path, ...]:
        return self._path, self._path.with_name(f"{self._path.name}-wal")

    # ---- reading one moment ---------------------------------------------------------------------------------------

    def snapshot(self) -> SqliteSnapshot:
        """A coherent view of this moment."""
        self._require_open()
        return SqliteSnapshot(self._readers.lend())

    def walk(self, begin: Callable[[apsw.Connection], Iterator[Item]]) -> Iterator[Item]:
        """Iterate over something, at the moment of the first step."""
        self._require_open()
        with self._readers.lend() as moment:
            yield from moment.walk(begin)

    def scan(self, *, after: StoreRecordId = lookup.START, limit: int | None = None) -> Iterator[StoredRecord]:
        """Records in commit order, those with an id above ``after``."""
        lookup.check_limit(limit)
        return self.walk(lambda connection: lookup.scan(connection, after=after, limit=limit))

    def list(self, place: Coordinate | Prefix, *, tips: bool = False, limit: int | None = None) -> Iterator[Listed]:
        """Records at a place, by (group, app, name), within one coordinate the newest (TAI, hash text) first."""
        lookup.check_limit(limit)
        return self.walk(lambda connection: listing.walk(connection, place, tips=tips, limit=limit))

    @property
    def facts(self) -> FactSource:
        """What the records say. Ask a snapshot where several answers must be of one moment."""
        return self._facts

    def absent(self, records: Collection[str]) -> frozenset[str]:
        """Those that are neither stored nor refused."""
        with self.snapshot() as now:
            return now.absent(records)

    def fields(self, records: Sequence[str], names: frozenset[str] | None = None) -> Fields:
        """For each record its fields of these names (without names: all), by name and then by index as a number."""
        with self.snapshot() as now:
            return now.fields(records, names)

    def mark(self) -> Mark:
        """This moment, for asking later what has changed since."""
        with self.snapshot() as now:
            return now.mark()

    def changes(self, after: Mark) -> StoreChanges:
        """What has happened since a mark of this store."""
        with self.snapshot() as now:
            return now.changes(after)

    def facts_after(self, after: StoreRecordId, fields: frozenset[str] | None = None) -> Iterator[Fact]:
        """Every fact of the records with an id above ``after``; with ``fields``, of their fields only these."""
        return self.walk(lambda connection: facts.after(connection, after, fields))

    def kept(self, kind: str, key: str) -> bytes | None:
        """What was kept last under this name, or None."""
        with self.snapshot() as now:
            return now.kept(kind, key)

    def kept_rows(self, kind: str) -> Iterator[tuple[str, int]]:
        """The keys of everything that is kept under a kind, with sizes in bytes, what was kept longest ago first."""
        return self.walk(lambda connection: keeping.rows(connection, kind))

    def refusals(self) -> Iterator[Refusal]:
        """Every refusal, the oldest first."""
        return self.walk(refusals.walk)

    def quarantined(self, *, with_bytes: bool = True) -> Iterator[Quarantined]:
        """Every row of the quarantine, the oldest first; without their bytes, listing many costs little."""
        return self.walk(lambda connection: quarantine.walk(connection, with_bytes=with_bytes))

    def quarantined_row(self, id: int) -> Quarantined | None:
        """One row of the quarantine, or None."""
        self._require_open()
        with faults.translated(self._path):
            return quarantine.find(self._connection, id)

    def check(self, *, progress: Progress | None = None) -> Iterator[Finding]:
        """Verify every stored byte again, and that facts, counts and indexes agree with it."""
        return self.walk(lambda connection: check.check(connection, progress=progress))

    def backup(self, target: Path, *, progress: Progress | None = None) -> None:
        """A copy of this moment as a store of its own, while others go on reading and writing."""
        self._require_open()
        with self._readers.lend() as moment:
            backup.back_up(moment.connection, target, progress=progress)

    # ---- news, and the end ----------------------------------------------------------------------------------------

    def subscribe(self, wake: Callable[[StoreRecordId], None]) -> Callable[[], None]:
        """Call ``wake`` with the new high-water mark after each commit of this store object; returns the undo."""
        token = object()
        self._wakes[token] = wake

        def undo() -> None:
            self._wakes.pop(token, None)

        return undo

    def changed_elsewhere(self) -> bool:
        """Whether another connection or process has committed since the last call."""
        self._require_open()
        with faults.translated(self._path):
            version: int = self._connection.pragma("data_version")
        has_changed, self._data_version = version != self._data_version, version
        return has_changed

    def close(self) -> None:
        """Close the store. Snapshots that are open stay usable until they are closed themselves."""
        if not self._is_closed:
            self._is_closed = True
            with faults.translated(self._path):
                self._readers.close()
                self._connection.close(force=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(f"the store {self._path} is closed")

    def _require_writable(self) -> None:
        self._require_open()
        if self._source.access is not Access.WRITE:
            raise UsageError(f"the store {self._path} was opened for reading only")
