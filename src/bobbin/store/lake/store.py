"""A lake as a store that is only read: its records, what they say, and what has come since.

One moment of the lake is one manifest of its records. Reading one record may see a moment that is a little old (a tenth
of a second); everything that iterates, every snapshot and every mark takes the newest. Records come into a lake by
jobs, never through this object: whatever would write raises ``ReadOnlyLake``, which says what to do instead. Values
that only save work are kept in memory, within a bound, and end with the object.

One store object belongs to one thread at a time. Any number may have the same lake open while jobs write to it.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self, TypeVar

from bobbin.errors import UsageError
from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.facts.relations import FactSource, Pattern, Tuple
from bobbin.interlace.built import Built
from bobbin.interlace.schema import Schema
from bobbin.policy.executables import LocalPolicy
from bobbin.records import tai
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText
from bobbin.records.record import Record
from bobbin.store.base import (
    KEPT_BYTES_MAX,
    Fields,
    Finding,
    Listed,
    Mark,
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
from bobbin.store.lake import built, check, lookup, reading
from bobbin.store.lake.errors import LakeError, ReadOnlyLake
from bobbin.store.lake.files import Files
from bobbin.store.lake.lake import VERSION, Lake
from bobbin.store.lake.moment import Moment, open_moment
from bobbin.store.lake.snapshot import START, LakeSnapshot
from bobbin.store.lake.tables import FACTS, QUARANTINE, RECORDS

Item = TypeVar("Item")

PRESENT_SECONDS: Final = 0.1
"""How old the moment may be that single records are read from."""
KEPT_TOTAL_BYTES_MAX: Final = 64 << 20
_NO_TIME: Final = 0

Puts = list[Put]
_Kept = dict[tuple[str, str], bytes]


class _PresentFacts:
    """The facts of the present: each answer is one moment, pinned at its first tuple."""

    def __init__(self, store: "LakeStore") -> None:
        self._store = store

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        """Every tuple of a predicate."""
        return self.match(predicate, (None,) * relations.ARITY.get(predicate, 0))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        """The tuples of a predicate that agree with the pattern."""
        relations.check_pattern(predicate, pattern)
        return self._store.walk(lambda now: now.facts.match(predicate, pattern))


class LakeStore:
    """A lake that is open for reading. ``open_lake_store`` makes one."""

    def __init__(self, lake: Lake, *, present_seconds: float = PRESENT_SECONDS) -> None:
        self.lake: Final = lake
        self._present_seconds = present_seconds
        self._moment = open_moment(lake)
        self._looked = time.monotonic()
        self._told = self._numbers()
        self._kept: _Kept = {}
        self._facts = _PresentFacts(self)
        self._is_closed = False

    read_only: Final = True

    # ---- reading the present --------------------------------------------------------------------------------------

    def get(self, hash: HashText) -> bytes | None:
        """The bytes of a record, or None."""
        return self._recent().get(hash)

    def get_many(self, records: Sequence[str], *, bytes_max: int) -> dict[str, bytes]:
        """The bytes of those records that are here, in their order, until so many bytes are together."""
        return self._recent().get_many(records, bytes_max=bytes_max)

    def have(self, hash: HashText) -> bool:
        """Whether a record is here."""
        return self._recent().have(hash)

    def high_water(self) -> StoreRecordId:
        """How many records there are."""
        return self._now().high_water()

    def stat(self) -> Stat:
        """Sizes and counts. The bytes of the records are added up when they are first asked for."""
        now = self._now()
        manifests = [self.lake.manifest(table) for table in (FACTS.name, QUARANTINE.name)]
        named = [file for manifest in (now.manifest, *manifests) for file in manifest.files]
        return Stat(
            records=now.records.kinds(),
            record_bytes=now.record_bytes(),
            quarantined=manifests[1].rows,
            refused=0,
            high_water=now.high_water(),
            file_bytes=sum(file.bytes for file in named),
            schema_version=VERSION,
        )

    # ---- reading one moment ---------------------------------------------------------------------------------------

    def snapshot(self) -> LakeSnapshot:
        """A coherent view of this moment."""
        return LakeSnapshot(self._now(), dict(self._kept), let_go=lambda: None)

    def walk(self, begin: Callable[[LakeSnapshot], Iterator[Item]]) -> Iterator[Item]:
        """Iterate over something, at the moment of the first step."""
        with self.snapshot() as now:
            yield from begin(now)

    def scan(self, *, after: StoreRecordId = START, limit: int | None = None) -> Iterator[StoredRecord]:
        """Records in the order of their numbers, those above ``after``."""
        lookup.check_limit(limit)
        return self.walk(lambda now: now.scan(after=after, limit=limit))

    def list(self, place: Coordinate | Prefix, *, tips: bool = False, limit: int | None = None) -> Iterator[Listed]:
        """Records at a place, by (group, app, name), within one coordinate the newest (TAI, hash text) first."""
        lookup.check_limit(limit)
        return self.walk(lambda now: now.list(place, tips=tips, limit=limit))

    @property
    def facts(self) -> FactSource:
        """What the records say. Ask a snapshot where several answers must be of one moment."""
        return self._facts

    def absent(self, records: Collection[str]) -> frozenset[str]:
        """Those that are not here."""
        return self._now().absent(records)

    def fields(self, records: Sequence[str], names: frozenset[str] | None = None) -> Fields:
        """For each record its fields of these names (without names: all), by name and then by index as a number."""
        return self._now().fields(records, names)

    def mark(self) -> Mark:
        """This moment, for asking later what has changed since."""
        return self._now().mark()

    def changes(self, after: Mark) -> StoreChanges:
        """What has come since a mark of this lake."""
        return self._now().changes(after)

    def facts_after(self, after: StoreRecordId, fields: frozenset[str] | None = None) -> Iterator[Fact]:
        """Every fact of the records with a number above ``after``; with ``fields``, of their fields only these."""
        return self.walk(lambda now: now.facts_after(after, fields))

    def refusals(self) -> Iterator[Refusal]:
        """A lake refuses nothing."""
        self._require_open()
        return iter(())

    def quarantined(self, *, with_bytes: bool = True) -> Iterator[Quarantined]:
        """Every row of the quarantine, in the order in which the runs came; without their bytes at little cost."""
        self._require_open()
        return self._quarantined(with_bytes=with_bytes)

    def _quarantined(self, *, with_bytes: bool) -> Iterator[Quarantined]:
        columns = [name for name in QUARANTINE.schema.names if name != "digest" and (with_bytes or name != "raw")]
        number = 0
        times: dict[str, int] = {}
        for file in self.lake.manifest(QUARANTINE.name).files:
            for piece in reading.pieces(self.lake.files, file, QUARANTINE, columns=columns):
                for row in piece.to_pylist():
                    number += 1
                    run = row.pop("run")
                    if run not in times:
                        report = self.lake.report(run)
                        times[run] = _NO_TIME if report is None else tai.parse(report.started)
                    yield Quarantined(id=number, tai=times[run], **{"raw": None, **row})

    def quarantined_row(self, id: int) -> Quarantined | None:
        """One row of the quarantine, or None."""
        return next((row for row in self.quarantined() if row.id == id), None)

    def check(self, *, progress: Progress | None = None) -> Iterator[Finding]:
        """Verify the whole lake: every file, record, quarantined byte, manifest and report."""
        self._require_open()
        return check.check(self.lake, progress=progress, counted=RECORDS.name)

    # ---- what only saves work -------------------------------------------------------------------------------------

    def keep(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a value in memory, in place of what was there; None takes it out."""
        self._require_open()
        if not kind or not key:
            raise UsageError("a kept value has a kind and a key")
        if value is not None and len(value) > KEPT_BYTES_MAX:
            raise UsageError(f"a kept value has at most {KEPT_BYTES_MAX} bytes, not {len(value)}")
        before = self._kept.pop((kind, key), None)
        if value is None:
            return
        if sum(map(len, self._kept.values())) + len(value) > KEPT_TOTAL_BYTES_MAX:
            if before is not None:
                self._kept[kind, key] = before
            raise LakeError(f"a lake keeps at most {KEPT_TOTAL_BYTES_MAX} bytes that only save work")
        self._kept[kind, key] = value

    def kept(self, kind: str, key: str) -> bytes | None:
        """What was kept last under this name, or None."""
        self._require_open()
        return self._kept.get((kind, key))

    def kept_rows(self, kind: str) -> Iterator[tuple[str, int]]:
        """The keys of everything that is kept under a kind, with sizes in bytes, what was kept longest ago first."""
        self._require_open()
        return iter([(key, len(value)) for (found, key), value in self._kept.items() if found == kind])

    def built(self, policy: LocalPolicy, schema: Schema, records: Collection[str], length: int) -> Built:
        """What ``bobbin pipeline advertise`` has made of these records, if it is of this policy and of the present."""
        self._require_open()
        return built.find(self.lake, policy, schema, records, length)

    # ---- writing, which a lake does not take ----------------------------------------------------------------------

    def put_many(self, raws: Iterable[bytes], *, source: str = "") -> Puts:
        """Refused."""
        del raws, source
        self._refuse("records come into it by `bobbin pipeline ingest`")

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Puts:
        """Refused, unless there is nothing to put."""
        if records or rejected:
            self._refuse("records come into it by `bobbin pipeline ingest`")
        return []

    def remove(self, hash: HashText, *, reason: str) -> bool:
        """Refused."""
        del hash, reason
        self._refuse("a record cannot be taken out of it; export what shall stay into a lace or another lake")

    def lift(self, hash: HashText) -> bool:
        """Refused."""
        del hash
        self._refuse("it refuses no record, so there is nothing to lift")

    def release(self, id: int) -> bool:
        """Refused."""
        del id
        self._refuse("its quarantine is never emptied")

    def release_all(self) -> int:
        """Refused."""
        self._refuse("its quarantine is never emptied")

    def backup(self, target: Path, *, progress: Progress | None = None) -> None:
        """Refused."""
        del target, progress
        self._refuse("copy its folder, or export it by `bobbin pipeline export`")

    def compact(self) -> None:
        """Refused."""
        self._refuse("`bobbin lake compact` does that")

    def _refuse(self, advice: str) -> NoReturn:
        self._require_open()
        raise ReadOnlyLake(f"the lake {self.lake.location} is only read here: {advice}")

    # ---- news, and the end ----------------------------------------------------------------------------------------

    def subscribe(self, wake: Callable[[StoreRecordId], None]) -> Callable[[], None]:
        """Nobody is ever woken, since this object commits nothing. ``changed_elsewhere`` has the news."""
        del wake
        return lambda: None

    def changed_elsewhere(self) -> bool:
        """Whether a job has changed the records or the facts since the last call."""
        self._now()
        told, self._told = self._told, self._numbers()
        return told != self._told

    def close(self) -> None:
        """Let go of files and memory. Snapshots that are open stay usable."""
        self._is_closed = True
        self._moment.records.close()
        self._kept.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _recent(self) -> Moment:
        """A moment that is not much older than now."""
        if time.monotonic() - self._looked >= self._present_seconds:
            return self._now()
        self._require_open()
        return self._moment

    def _now(self) -> Moment:
        self._require_open()
        records, facts = self.lake.manifest(RECORDS.name), self.lake.manifest(FACTS.name)
        self._looked = time.monotonic()
        if records != self._moment.manifest or facts != self._moment.facts_manifest:
            self._moment = Moment(self.lake, records, facts)
        return self._moment

    def _numbers(self) -> tuple[int, int]:
        return self._moment.manifest.number, self._moment.facts_manifest.number

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(f"the lake {self.lake.location} is closed")


def open_lake_store(location: str | Path, *, files: Files | None = None) -> LakeStore:
    """The lake at a location, as a store for reading."""
    return LakeStore(Lake.open(location, files=files))
