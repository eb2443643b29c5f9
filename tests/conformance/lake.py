"""A lake for the kit: read as a store, and written to by runs of its own, as jobs would."""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from pathlib import Path

from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, validate
from bobbin.store.base import Outcome, Put, Rejected, Store, StoreRecordId
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.store import LakeStore
from tests.support.lake_tables import SMALL, make_facts, quarantine_rows, record_rows, stage


class Facts(Enum):
    """What the table of facts knows."""

    CURRENT = auto()
    OLDER = auto()
    """Half of the records of the first call."""


Puts = list[Put]


class WrittenLake(LakeStore):
    """A store over a lake whose records are put by a run for each call, and are by name within it."""

    def __init__(self, lake: Lake, facts: Facts) -> None:
        super().__init__(lake, present_seconds=0)
        self._facts_kept = facts

    def put_many(self, raws: Iterable[bytes], *, source: str = "") -> Puts:
        valid: list[Record] = []
        rejected: list[Rejected] = []
        answers: list[Put | None] = []
        for raw in raws:
            try:
                valid.append(validate(raw))
                answers.append(None)
            except InvalidRecord as error:
                rejected.append(Rejected(raw=raw, reason=str(error.reason), detail=error.detail, source=source))
                answers.append(Put(Outcome.REJECTED, None, reason=str(error.reason), detail=error.detail))
        stored = iter(self.put_records(valid, rejected=rejected))
        return [answer or next(stored) for answer in answers]

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Puts:
        new = self.absent([record.hash for record in records])
        fresh = {record.hash: record for record in records if record.hash in new}
        if fresh or rejected:
            self._ingest(list(fresh.values()), rejected)
        outcomes = [
            Outcome.STORED if fresh.pop(record.hash, None) is not None else Outcome.DUPLICATE for record in records
        ]
        numbers = self._now().records.locate_many([record.hash for record in records]).tolist()
        return [
            Put(outcome, record.hash, StoreRecordId(number))
            for outcome, record, number in zip(outcomes, records, numbers, strict=True)
        ]

    def _ingest(self, records: Sequence[Record], rejected: Sequence[Rejected]) -> None:
        if self._facts_kept is Facts.OLDER and not self.lake.manifest("facts").number:
            half = len(records) // 2
            self._run(records[:half], ())
            make_facts(self.lake, records[:half], shape=SMALL)
            records = records[half:]
        self._run(records, rejected)
        if self._facts_kept is Facts.CURRENT:
            make_facts(self.lake, [validate(line.raw) for line in self.scan()], shape=SMALL)
        self.changed_elsewhere()

    def _run(self, records: Sequence[Record], rejected: Sequence[Rejected]) -> None:
        with self.lake.begin("ingest") as run:
            stage(run, "records", record_rows(records), shape=SMALL)
            stage(run, "quarantine", quarantine_rows(rejected, run.id))
            run.append("records")
            run.append("quarantine")
            run.commit()


def open_lake(facts: Facts) -> Callable[..., Store]:
    """How the kit opens such a lake."""

    def open_store(path: Path, *, create: bool = False, now: Callable[[], int], read_only: bool = False) -> Store:
        del now
        lake = Lake.open_or_create(path) if create else Lake.open(path)
        return LakeStore(lake, present_seconds=0) if read_only else WrittenLake(lake, facts)

    return open_store
