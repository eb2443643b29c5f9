"""A store in memory, as plain as can be: what the promises of ``bobbin.store.base`` mean, spelled in dictionaries.

It is one of the implementations that the kit tests (so the kit cannot lean on SQLite), and the oracle that the others
are compared with. What is on its ``Disk`` survives closing, like a file would.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from msgspec import structs

from bobbin.errors import UsageError
from bobbin.facts.extract import Fact, extract
from bobbin.facts.relations import ARITY, FIELD, Pattern, Tuple, agrees, check_pattern
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText, Kind, parse_hash
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Blob, Plex, Record, Seal, validate
from bobbin.store.base import (
    KEPT_BYTES_MAX,
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

Puts: TypeAlias = list[Put]
_Listing: TypeAlias = list[Listed]
_Told: TypeAlias = list[tuple[str, str, str]]
_START = StoreRecordId(0)


@dataclass
class State:
    """What a store holds."""

    records: dict[int, Record] = field(default_factory=dict)
    refusals: dict[HashText, Refusal] = field(default_factory=dict)
    quarantine: dict[int, Quarantined] = field(default_factory=dict)
    high_water: int = 0
    quarantine_high_water: int = 0
    commits: int = 0
    done: list[tuple[str, HashText]] = field(default_factory=list)
    """Removals, refusals and lifted refusals, in order."""
    kept: dict[tuple[str, str], bytes] = field(default_factory=dict)


@dataclass
class Disk:
    """Where model stores rest."""

    states: dict[Path, State] = field(default_factory=dict)


class _Facts:
    def __init__(self, state: State) -> None:
        self._state = state

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        return self.match(predicate, (None,) * ARITY.get(predicate, 0))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        check_pattern(predicate, pattern)
        facts = [fact for record in self._state.records.values() for fact in extract(record)]
        return iter([values for name, values in facts if name == predicate and agrees(values, pattern)])


class _View:
    """Reading a state: the live one, or a copy."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._is_closed = False

    def get(self, hash: HashText) -> bytes | None:
        number = self._find(hash)
        return None if number is None else self._state.records[number].raw

    def have(self, hash: HashText) -> bool:
        return self._find(hash) is not None

    def scan(self, *, after: StoreRecordId = _START, limit: int | None = None) -> Iterator[StoredRecord]:
        _check_limit(limit)
        found = [
            StoredRecord(StoreRecordId(number), record.hash, record.raw)
            for number, record in sorted(self._state.records.items())
            if number > after
        ]
        return iter(found[:limit])

    def list(self, place: Coordinate | Prefix, *, tips: bool = False, limit: int | None = None) -> Iterator[Listed]:
        _check_limit(limit)
        found = [
            _listed(number, record)
            for number, record in self._state.records.items()
            if not isinstance(record, Blob) and _covers(place, record.coordinate)
        ]
        return iter(_in_order(found, tips=tips)[:limit])

    def high_water(self) -> StoreRecordId:
        self.require_open()
        return StoreRecordId(self._state.high_water)

    @property
    def facts(self) -> _Facts:
        return _Facts(self._state)

    def absent(self, records: Collection[str]) -> frozenset[str]:
        known = {record.hash for record in self._state.records.values()} | self._state.refusals.keys()
        return frozenset(record for record in records if record not in known)

    def fields(self, records: Sequence[str], names: frozenset[str] | None = None) -> Fields:
        self.require_open()
        told: dict[str, _Told] = {record.hash: [] for record in self._state.records.values()}
        for record, name, index, value in self.facts.enumerate(FIELD):
            if names is None or name in names:
                told[record].append((name, index, value))
        ordered = {record: tuple(sorted(some, key=lambda one: (one[0], int(one[1])))) for record, some in told.items()}
        return [ordered.get(record) for record in records]

    def mark(self) -> Mark:
        self.require_open()
        return Mark(StoreRecordId(self._state.high_water), len(self._state.done))

    def changes(self, after: Mark) -> StoreChanges:
        now = self.mark()
        if after.high_water > now.high_water or after.removal > now.removal:
            raise UsageError("a mark of another moment")
        done = self._state.done[after.removal :]
        return StoreChanges(
            mark=now,
            stored=tuple(found.hash for found in self.scan(after=after.high_water)),
            removed=frozenset(hash for what, hash in done if what == "removed"),
            refused=frozenset(hash for what, hash in done if what == "refused"),
            lifted=frozenset(hash for what, hash in done if what == "lifted"),
        )

    def facts_after(self, after: StoreRecordId, fields: frozenset[str] | None = None) -> Iterator[Fact]:
        new = [record for number, record in self._state.records.items() if number > after]
        found = [fact for record in new for fact in extract(record)]
        return iter([fact for fact in found if fields is None or fact[0] != FIELD or fact[1][1] in fields])

    def kept(self, kind: str, key: str) -> bytes | None:
        self.require_open()
        _check_kept(kind, key, None)
        return self._state.kept.get((kind, key))

    def close(self) -> None:
        self._is_closed = True

    def require_open(self) -> None:
        if self._is_closed:
            raise UsageError("closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, hash_text: HashText) -> int | None:
        self.require_open()
        parse_hash(hash_text)
        return next((number for number, record in self._state.records.items() if record.hash == hash_text), None)


class ModelStore(_View):
    """A store object over a state that other store objects may share."""

    def __init__(self, disk: Disk, path: Path, *, now: Callable[[], int], read_only: bool) -> None:
        super().__init__(disk.states[path])
        self._disk = disk
        self._now = now
        self._read_only = read_only
        self._own_commits = 0
        self._seen_commits = self._state.commits
        self._wakes: dict[object, Callable[[StoreRecordId], None]] = {}

    def get_many(self, records: Sequence[str], *, bytes_max: int) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        stored = {record.hash: record.raw for record in self._state.records.values()}
        for record in records:
            if record in stored and sum(map(len, found.values())) < bytes_max:
                found[record] = stored[HashText(record)]
        return found

    def put_many(self, raws: Iterable[bytes], *, source: str = "") -> Puts:
        answers: Puts = []
        changed = False
        items = list(raws)
        self._require_writable()
        for raw in items:
            try:
                answers.append(self._put(validate(raw)))
            except InvalidRecord as failure:
                reason = str(failure.reason)
                changed |= self._quarantine(Rejected(raw=raw, reason=reason, detail=failure.detail, source=source))
                answers.append(Put(Outcome.REJECTED, None, reason=reason, detail=failure.detail))
        if changed or any(answer.outcome is Outcome.STORED for answer in answers):
            self._commit()
        return answers

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Puts:
        self._require_writable()
        answers = [self._put(record) for record in records]
        quarantined = [self._quarantine(item) for item in rejected]
        if any(quarantined) or any(answer.outcome is Outcome.STORED for answer in answers):
            self._commit()
        return answers

    def _put(self, record: Record) -> Put:
        number = self._find(record.hash)
        if number is not None:
            return Put(Outcome.DUPLICATE, record.hash, StoreRecordId(number))
        if refusal := self._state.refusals.get(record.hash):
            return Put(Outcome.REFUSED, record.hash, reason=refusal.reason)
        self._state.high_water += 1
        self._state.records[self._state.high_water] = record
        return Put(Outcome.STORED, record.hash, StoreRecordId(self._state.high_water))

    def _quarantine(self, item: Rejected) -> bool:
        place = (item.raw, item.reason, item.source, item.offset)
        if any((row.raw, row.reason, row.source, row.offset) == place for row in self._state.quarantine.values()):
            return False
        self._state.quarantine_high_water += 1
        number = self._state.quarantine_high_water
        self._state.quarantine[number] = Quarantined(
            id=number,
            raw=item.raw,
            size=len(item.raw),
            reason=item.reason,
            detail=item.detail,
            source=item.source,
            offset=item.offset,
            tai=self._now(),
        )
        return True

    def remove(self, hash: HashText, *, reason: str) -> bool:
        self._require_writable()
        number = self._find(hash)
        if number is not None:
            del self._state.records[number]
        self._state.kept.clear()
        self._state.refusals[hash] = Refusal(hash=hash, reason=reason, tai=self._now())
        self._state.done.append(("refused" if number is None else "removed", hash))
        self._commit()
        return number is not None

    def lift(self, hash: HashText) -> bool:
        self._require_writable()
        parse_hash(hash)
        lifted = self._state.refusals.pop(hash, None) is not None
        if lifted:
            self._state.done.append(("lifted", hash))
            self._commit()
        return lifted

    def refusals(self) -> Iterator[Refusal]:
        return iter(list(self._state.refusals.values()))

    def quarantined(self, *, with_bytes: bool = True) -> Iterator[Quarantined]:
        rows = list(self._state.quarantine.values())
        return iter(rows if with_bytes else [structs.replace(row, raw=None) for row in rows])

    def quarantined_row(self, id: int) -> Quarantined | None:
        return self._state.quarantine.get(id)

    def release_all(self) -> int:
        self._require_writable()
        rows = len(self._state.quarantine)
        self._state.quarantine.clear()
        if rows:
            self._commit()
        return rows

    def release(self, id: int) -> bool:
        self._require_writable()
        released = self._state.quarantine.pop(id, None) is not None
        if released:
            self._commit()
        return released

    def snapshot(self) -> _View:
        self.require_open()
        return _View(deepcopy(self._state))

    def subscribe(self, wake: Callable[[StoreRecordId], None]) -> Callable[[], None]:
        token = object()
        self._wakes[token] = wake

        def undo() -> None:
            self._wakes.pop(token, None)

        return undo

    def changed_elsewhere(self) -> bool:
        elsewhere = self._state.commits - self._own_commits
        changed, self._seen_commits = elsewhere != self._seen_commits, elsewhere
        return changed

    def backup(self, target: Path, *, progress: Progress | None = None) -> None:
        if target in self._disk.states:
            raise UsageError("exists")
        self._disk.states[target] = deepcopy(self._state)
        if progress is not None:
            progress(1, 1)

    def check(self, *, progress: Progress | None = None) -> Iterator[Finding]:
        if progress is not None:
            progress(len(self._state.records), len(self._state.records))
        return iter(())

    def compact(self) -> None:
        self._require_writable()

    def keep(self, kind: str, key: str, value: bytes | None) -> None:
        self._require_writable()
        _check_kept(kind, key, value)
        self._state.kept.pop((kind, key), None)
        if value is not None:
            self._state.kept[kind, key] = value

    def kept_rows(self, kind: str) -> Iterator[tuple[str, int]]:
        self.require_open()
        return iter([(key, len(value)) for (found, key), value in self._state.kept.items() if found == kind])

    def stat(self) -> Stat:
        records = self._state.records.values()
        return Stat(
            records={kind: sum(record.kind is kind for record in records) for kind in Kind},
            record_bytes=sum(len(record.raw) for record in records),
            quarantined=len(self._state.quarantine),
            refused=len(self._state.refusals),
            high_water=self.high_water(),
            file_bytes=1,
            schema_version=1,
        )

    def _commit(self) -> None:
        self._state.commits += 1
        self._own_commits += 1
        for wake in list(self._wakes.values()):
            wake(self.high_water())

    def _require_writable(self) -> None:
        self.require_open()
        if self._read_only:
            raise UsageError("read-only")


def open_model(
    disk: Disk, path: Path, *, create: bool = False, now: Callable[[], int], read_only: bool = False
) -> ModelStore:
    """Open the model store that rests at this path."""
    if path not in disk.states:
        if not create:
            raise UsageError(f"there is no store at {path}")
        disk.states[path] = State()
    return ModelStore(disk, path, now=now, read_only=read_only)


def _check_kept(kind: str, key: str, value: bytes | None) -> None:
    if not kind or not key or (value is not None and len(value) > KEPT_BYTES_MAX):
        raise UsageError("a kept value has a name and a bound")


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise UsageError("a limit is a number of records")


def _covers(place: Coordinate | Prefix, coordinate: Coordinate) -> bool:
    if isinstance(place, Coordinate):
        return place == coordinate
    if place.group != coordinate.group or place.app not in {None, coordinate.app}:
        return False
    return coordinate.name.startswith(place.name)


def _listed(number: int, record: Plex | Seal) -> Listed:
    return Listed(
        id=StoreRecordId(number),
        hash=record.hash,
        group=record.group,
        app=record.app,
        name=record.name,
        tai=record.tai,
        verifier=record.verifier if isinstance(record, Seal) else None,
        data_length=record.data_length,
    )


def _in_order(listing: _Listing, *, tips: bool) -> _Listing:
    by_age = sorted(listing, key=lambda line: (line.tai, line.hash), reverse=True)
    ordered = sorted(by_age, key=lambda line: (line.group.encode(), line.app.encode(), line.name.encode()))
    if not tips:
        return ordered
    newest = {(line.group, line.app, line.name): line for line in reversed(ordered)}
    return [line for line in ordered if newest[line.group, line.app, line.name] is line]
