"""The store of a replicated lace: read here, written through the log.

Reading is of the store of this node: what it has done of the log. ``settle`` waits until that is all that is committed
by now; what is read then is linearizable. Without it a reading may be old, and is never wrong: it is some moment of the
one order that all nodes go through.

A write is validated here, proposed, and over when it is committed by a quorum, on its disks, and done by this node. A
call with more records than one command holds is several commands, of which each is done as a whole; if something goes
wrong between them, those before it stay. To put again what may have been put is always safe.

Some things are this node's own: the quarantine, and values that save work and are of no use elsewhere.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from bobbin.errors import ResourceError, UsageError
from bobbin.facts.extract import Fact
from bobbin.facts.relations import FactSource
from bobbin.records import ids
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, validate
from bobbin.runtime import replicated_commands as wire
from bobbin.runtime.coming import Coming
from bobbin.runtime.replicated_commands import Answer, Answered, Keep, Lift, PutPiece, PutRecords, Remove, Stored, Truth
from bobbin.runtime.replicated_machine import SHARED_KINDS
from bobbin.runtime.replicated_proposing import new_token
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
    Snapshot,
    Stat,
    StoreChanges,
    StoredRecord,
    StoreRecordId,
)
from bobbin.store.sqlite import keeping
from bobbin.store.sqlite.replica import ReplicaState
from bobbin.store.sqlite.store import SqliteStore

_START: Final = StoreRecordId(0)


class Writer(Protocol):
    """Has commands done."""

    def begin(self, commands: Sequence[Answered]) -> Coming[list[Answer]]:
        """Propose them. What is returned waits until they are committed, and done by the store of this node."""
        ...

    def settle(self) -> None:
        """Returns when the store of this node holds all that was committed before."""
        ...


class ReplicatedStore:
    """A ``Store`` that nodes share."""

    def __init__(
        self,
        local: SqliteStore,
        writer: Writer,
        *,
        now: Callable[[], int],
        subscribe: Callable[[Callable[[StoreRecordId], None]], Callable[[], None]] | None = None,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        """``local``: the store of this node, opened for this object alone. ``subscribe`` hears of what others write.

        ``closed`` is called when this object is closed.
        """
        self._local: Final = local
        self._writer: Final = writer
        self._now: Final = now
        self._subscribe: Final = subscribe
        self._wakes: Final[dict[object, tuple[Callable[[StoreRecordId], None], Callable[[], None]]]] = {}
        """By token, with what undoes its subscription to what others write."""
        self._closed: Final = closed
        self._is_closed = False
        self._seen = local.mark()
        """Where the store would be if nobody else wrote since it was last looked at."""

    # ---- writing through the log ------------------------------------------------------------------------------------

    def put_many(self, raws: Iterable[bytes], *, source: str = "") -> list[Put]:
        """Validate and store. One answer per item, in order; rejected bytes go to the quarantine of this node."""
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

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> list[Put]:
        """Store records that exist as values, and quarantine rejected bytes at this node.

        What is rejected is durable before the records are proposed, and stays where they fail.
        """
        return self.begin_put(records, rejected=rejected)()

    def begin_put(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Coming[list[Put]]:
        """The same in two steps: what is returned waits, while what others begin is on its way as well."""
        if rejected:
            self._local.put_records([], rejected=rejected)
        if not records:
            return Coming(list)
        parts = list(_parts(records))
        answers = self._begin([command for commands, _ in parts for command in commands])
        return answers.then(lambda answers: self._puts_of(parts, records, answers))

    @staticmethod
    def _puts_of(
        parts: Sequence[tuple[list[Answered], int]], records: Sequence[Record], answers: Sequence[Answer]
    ) -> list[Put]:
        puts: list[Put] = []
        at = 0
        for commands, count in parts:
            told = next((one for one in answers[at : at + len(commands)] if isinstance(one, Stored)), None)
            if told is None:
                raise ResourceError("too many long records were on their way at once; put it again", retry=True)
            puts += wire.puts_of(told, [record.hash for record in records[len(puts) : len(puts) + count]])
            at += len(commands)
        return puts

    def remove(self, hash: HashText, *, reason: str) -> bool:
        """Take a record and its facts out, at every node, and refuse it from now on."""
        ids.parse_hash(hash)
        return self._whether(Remove(new_token(), hash, reason, self._now()))

    def lift(self, hash: HashText) -> bool:
        """End a refusal, at every node."""
        ids.parse_hash(hash)
        return self._whether(Lift(new_token(), hash))

    def keep(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a value that saves work: at every node where an exchange left off, everything else at this one."""
        keeping.check(kind, key, value)
        if kind in SHARED_KINDS and len(value or b"") <= wire.KEPT_BYTES_MAX:
            self._whether(Keep(new_token(), kind, key, value))
        else:
            self._local.keep(kind, key, value)

    def settle(self) -> None:
        """Wait until this node holds all that was committed before: what is read then is linearizable."""
        self._writer.settle()

    def _whether(self, command: Answered) -> bool:
        (answer,) = self._begin([command])()
        assert isinstance(answer, Truth), "the answer to such a command"
        return answer.value

    def _begin(self, commands: Sequence[Answered]) -> Coming[Sequence[Answer]]:
        if self._is_closed:
            raise UsageError("this store is closed")
        return self._writer.begin(commands).then(lambda answers: self._note(commands, answers))

    def _note(self, commands: Sequence[Answered], answers: list[Answer]) -> Sequence[Answer]:
        """They are done: so the mark is further, and whoever waits for news is told."""
        self._seen = _moved(commands, answers, self._seen)
        if self._wakes and any(map(wire.is_news, commands, answers)):
            high_water = self._local.high_water()
            for wake, _ in list(self._wakes.values()):
                try:
                    wake(high_water)
                except Exception as error:  # noqa: BLE001 -- it is somebody else's code, and the commit has happened
                    warnings.warn(f"a subscriber of the store failed: {error!r}", RuntimeWarning, stacklevel=4)
        return answers

    # ---- this node's own --------------------------------------------------------------------------------------------

    def quarantined(self, *, with_bytes: bool = True) -> Iterator[Quarantined]:
        """Every row of the quarantine of this node, the oldest first."""
        return self._local.quarantined(with_bytes=with_bytes)

    def quarantined_row(self, id: int) -> Quarantined | None:
        """One row of the quarantine, or None."""
        return self._local.quarantined_row(id)

    def release(self, id: int) -> bool:
        """Forget one row of the quarantine. False if there was none."""
        return self._local.release(id)

    def release_all(self) -> int:
        """Forget every row of the quarantine; how many there were."""
        return self._local.release_all()

    def compact(self) -> None:
        """Give unused space of this node's store back to the file system."""
        self._local.compact()

    def backup(self, target: Path, *, progress: Progress | None = None) -> None:
        """A copy of this moment of this node's store as a store of its own."""
        self._local.backup(target, progress=progress)

    def check(self, *, progress: Progress | None = None) -> Iterator[Finding]:
        """Verify every byte of this node's store again."""
        return self._local.check(progress=progress)

    def replica(self) -> ReplicaState | None:
        """How far this node is."""
        return self._local.replica.state()

    # ---- reading ----------------------------------------------------------------------------------------------------

    def get(self, hash: HashText) -> bytes | None:
        """The bytes of a record, or None."""
        return self._local.get(hash)

    def get_many(self, records: Sequence[str], *, bytes_max: int) -> dict[str, bytes]:
        """The bytes of those records that are stored and undamaged, until so many bytes are together."""
        return self._local.get_many(records, bytes_max=bytes_max)

    def have(self, hash: HashText) -> bool:
        """Whether a record is stored."""
        return self._local.have(hash)

    def high_water(self) -> StoreRecordId:
        """The id of the newest record that this view can have seen."""
        return self._local.high_water()

    def stat(self) -> Stat:
        """Sizes and counts."""
        return self._local.stat()

    def snapshot(self) -> Snapshot:
        """A coherent view of this moment of this node."""
        return self._local.snapshot()

    def scan(self, *, after: StoreRecordId = _START, limit: int | None = None) -> Iterator[StoredRecord]:
        """Records in commit order, those with an id above ``after``."""
        return self._local.scan(after=after, limit=limit)

    def list(self, place: Coordinate | Prefix, *, tips: bool = False, limit: int | None = None) -> Iterator[Listed]:
        """Records at a place."""
        return self._local.list(place, tips=tips, limit=limit)

    @property
    def facts(self) -> FactSource:
        """What the records say."""
        return self._local.facts

    def absent(self, records: Collection[str]) -> frozenset[str]:
        """Those that are neither stored nor refused."""
        return self._local.absent(records)

    def fields(self, records: Sequence[str], names: frozenset[str] | None = None) -> Fields:
        """For each record its fields of these names."""
        return self._local.fields(records, names)

    def mark(self) -> Mark:
        """This moment, for asking later what has changed since. It means the same at every node."""
        return self._local.mark()

    def changes(self, after: Mark) -> StoreChanges:
        """What has happened since a mark of any node of this lace that is not ahead of this one."""
        return self._local.changes(after)

    def facts_after(self, after: StoreRecordId, fields: frozenset[str] | None = None) -> Iterator[Fact]:
        """Every fact of the records with an id above ``after``."""
        return self._local.facts_after(after, fields)

    def kept(self, kind: str, key: str) -> bytes | None:
        """What was kept last under this name, or None."""
        return self._local.kept(kind, key)

    def kept_rows(self, kind: str) -> Iterator[tuple[str, int]]:
        """The keys of everything that is kept under a kind, with sizes in bytes."""
        return self._local.kept_rows(kind)

    def refusals(self) -> Iterator[Refusal]:
        """Every refusal, the oldest first."""
        return self._local.refusals()

    # ---- news, and the end ------------------------------------------------------------------------------------------

    def subscribe(self, wake: Callable[[StoreRecordId], None]) -> Callable[[], None]:
        """Call ``wake`` when records have come or gone, by whichever node; returns the undo.

        What others write is told in another thread, where ``wake`` must not write.
        """
        token = object()
        elsewhere = _nothing if self._subscribe is None else self._subscribe(wake)
        self._wakes[token] = wake, elsewhere

        def undo() -> None:
            self._wakes.pop(token, None)
            elsewhere()

        return undo

    def changed_elsewhere(self) -> bool:
        """Whether records have come or gone since the last call by what was not written through this object."""
        before, self._seen = self._seen, self._local.mark()
        return self._seen != before

    tangles: Final = None
    """Messages of tangles are not in the log, so there are none."""

    def close(self) -> None:
        """Close the store of this node for this object."""
        if not self._is_closed:
            self._is_closed = True
            for _, undo in self._wakes.values():
                undo()
            self._closed()
            self._local.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _nothing() -> None:
    """There is nothing to undo."""


def _moved(commands: Sequence[Answered], answers: Sequence[Answer], before: Mark) -> Mark:
    """Where a mark is after these, if nobody else writes."""
    stored = removals = 0
    for command, answer in zip(commands, answers, strict=True):
        if isinstance(answer, Stored):
            stored += sum(outcome is Outcome.STORED for outcome, _, _ in answer.each) if answer.each else answer.count
        elif wire.is_news(command, answer):
            removals += 1
    return Mark(StoreRecordId(before.high_water + stored), before.removal + removals)


def _parts(records: Sequence[Record]) -> Iterator[tuple[list[Answered], int]]:
    """The commands that put records, in order, those of one answer together, with the number of records it is about."""
    raws: list[bytes] = []
    size = 0
    for record in records:
        raw = record.raw
        is_long = len(raw) > wire.PIECE_BYTES
        if raws and (is_long or size + len(raw) > wire.COMMAND_BYTES or len(raws) == wire.COMMAND_RECORDS_MAX):
            yield [PutRecords(new_token(), raws)], len(raws)
            raws, size = [], 0
        if is_long:
            yield list(_pieces(raw)), 1
            continue
        raws.append(raw)
        size += len(raw)
    if raws:
        yield [PutRecords(new_token(), raws)], len(raws)


def _pieces(raw: bytes) -> Iterator[PutPiece]:
    record = new_token()
    starts = range(0, len(raw), wire.PIECE_BYTES)
    for number, start in enumerate(starts):
        yield PutPiece(new_token(), record, number, raw[start : start + wire.PIECE_BYTES], len(starts))
