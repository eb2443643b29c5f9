"""Bulk import: a stream of records, each checked, into a store, with memory that does not grow.

The stream is cut into extents, the extents are validated (by worker processes, or here), and the answers are written
in batches, one durable commit each. As long as a bundle holds nothing but valid records, cutting and validating are one
pass. While workers validate, this process writes. Only after the commit is the caller told, so what was acknowledged
survives whatever comes next. What is no record goes to the quarantine of the store, in
the same commit as its good neighbours.

A pipe that stays open and falls silent holds nothing back: everything that it has given is validated, committed and
acknowledged then, though the batch is not full (``patient``).

The sum always holds, after every commit: read = stored + duplicate + refused + rejected. A repeated import is safe:
what is there already is counted as duplicate.
"""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable

from msgspec import Struct, structs

from bobbin.errors import ResourceError, UsageError
from bobbin.records.bundle import BundleReader, Damage, Extent, Piece, Run, skim
from bobbin.records.salvage import WINDOW_BYTES
from bobbin.runtime.coming import Coming
from bobbin.runtime.lines import LineReader
from bobbin.runtime.patient import PatientReader
from bobbin.runtime.work import Invalid, Validated
from bobbin.runtime.workers import Validators
from bobbin.store.base import Outcome, Put, Rejected

if TYPE_CHECKING:
    from bobbin.records.record import Record

Form: TypeAlias = Literal["bundle", "jsonl"]
"""Records one after the other, or one line of JSON for each."""

BATCH_RECORDS_MAX: Final = 4096
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
UNIT_RECORDS_MAX: Final = 256
"""A unit is what is validated in one piece: small, so that every worker has one soon and the first commit is near."""

UNIT_BYTES_MAX: Final = 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024
_AHEAD_MAX: Final = 2
"""Commits under way while the next batch is gathered, where the store has them begin."""
_outcome_of: Final = attrgetter("outcome")


class Sink(Protocol):
    """Where records go: the one method of a store that an import needs."""

    def put_records(self, records: "Sequence[Record]", *, rejected: Sequence[Rejected] = ()) -> list[Put]:
        """Store records and quarantine rejected bytes in one durable commit; one answer per record, in order."""
        ...


@runtime_checkable
class AheadSink(Protocol):
    """A sink whose commits wait for others, so that the next one may begin before the one before has ended."""

    def begin_put(self, records: "Sequence[Record]", *, rejected: Sequence[Rejected] = ()) -> Coming[list[Put]]:
        """The same as ``put_records``; the answers, or what went wrong, come from what is returned, which waits.

        It is called once, in the order of the beginnings, and in the same thread; or else it is abandoned.
        """
        ...


class Ingested(Struct, frozen=True, kw_only=True):
    """What became of everything that was read so far."""

    read: int = 0
    """Records and pieces of damage, up to ``durable_offset``."""
    stored: int = 0
    duplicate: int = 0
    refused: int = 0
    rejected: int = 0
    bytes_read: int = 0
    """How far the stream has been read: some way ahead of what is durable."""
    durable_offset: int = 0
    """Everything before this byte of the source is committed."""

    def __post_init__(self) -> None:
        assert self.read == self.stored + self.duplicate + self.refused + self.rejected, "every item has one outcome"
        assert self.durable_offset <= self.bytes_read, "nothing is committed before it is read"


def ingest(
    store: Sink,
    stream: BinaryIO,
    *,
    source: str,
    form: Form,
    workers: int,
    batch_records_max: int = BATCH_RECORDS_MAX,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    acknowledge: Callable[[Ingested], None] | None = None,
) -> Ingested:
    """Import everything in the stream; returns the final count.

    ``source`` names the stream in the quarantine. ``acknowledge`` is called after each commit, with the count so far.
    A commit has at most ``batch_records_max`` items and ``batch_bytes_max`` bytes, unless a single record is larger.
    """
    if batch_records_max < 1 or batch_bytes_max < 1:
        raise UsageError("a batch has room for at least one record")
    reader = _Reader(stream, source=source, form=form, recognises=workers == 0)
    writer = _Writer(
        store,
        reader,
        source=source,
        items_max=batch_records_max,
        bytes_max=batch_bytes_max,
        acknowledge=acknowledge,
    )
    items_max, bytes_max = min(UNIT_RECORDS_MAX, batch_records_max), min(UNIT_BYTES_MAX, batch_bytes_max)
    with writer:
        with Validators(workers) as pool:
            if workers:
                for run in reader.run_ahead(pool, writer.settle):
                    for unit in _cut(run, items_max, bytes_max):
                        writer.add(unit)
            waiting: deque[_Unit] = deque()

            def raws() -> Iterator[list[bytes] | None]:
                for unit in _gather(reader, items_max, bytes_max):
                    if unit is None:
                        # When this comes back, everything before it has been answered and taken.
                        yield None
                        writer.settle()
                        continue
                    waiting.append(unit)
                    yield [extent.raw for extent in unit.extents]

            for answers in pool.validate(raws()):
                writer.add(waiting.popleft(), answers)
        writer.finish()
    return structs.replace(writer.total, bytes_read=reader.bytes_read, durable_offset=reader.bytes_read)


class _Unit:
    """Neighbours in the stream: valid records, or else extents to validate and the damage found between them."""

    __slots__ = ("damages", "extents", "records", "size", "start")

    def __init__(self, start: int) -> None:
        self.start: Final = start
        self.records: Sequence[Record] = ()
        self.extents: Final[list[Extent]] = []
        self.damages: Final[list[Damage]] = []
        self.size = 0

    @property
    def items(self) -> int:
        return len(self.records) + len(self.extents) + len(self.damages)


class _Reader:
    """The stream as pieces. Holds one chunk and one unfinished piece at a time.

    To cut a bundle for certain takes a digest of every record's data, and validating takes the same digest again. So
    where workers validate, ``run_ahead`` cuts by what the headers declare (for a record of 1,000 bytes that takes 0.9
    microseconds instead of 5), and has the workers say how far valid records reach: if that is where the cut is, the
    cut was right. At the first one that was not, or where the stream ends, the cutter takes over. It reads everything
    again that is behind the last record that was recognised, also what was on its way to workers, and cuts what it
    would have cut all along.
    """

    def __init__(self, stream: BinaryIO, *, source: str, form: Form, recognises: bool) -> None:
        self._stream: Final = PatientReader(stream)
        self._source: Final = source
        self._cutter: Final = LineReader() if form == "jsonl" else BundleReader(recognises=recognises)
        self._again: Final[deque[bytes]] = deque()
        """What was read already and is still to be cut."""
        self._rest = b""
        """What was left over when ``run_ahead`` stopped cutting."""
        self.bytes_read = 0

    @property
    def position(self) -> int:
        """Where the next piece begins: everything before has been given out."""
        return self._cutter.position

    def __iter__(self) -> Iterator[Piece | None]:
        """The pieces that are left; None where the stream has fallen silent."""
        while self._again:
            yield from self._cutter.feed(self._again.popleft())
        while (chunk := self._read()) != b"":
            if chunk is None:
                yield None
            else:
                yield from self._cutter.feed(chunk)
        yield from self._cutter.finish()

    def run_ahead(self, pool: Validators, settle: Callable[[], None]) -> Iterator[Run]:
        """The valid records at the front of a bundle, validated by workers. To be exhausted before anything else.

        ``settle`` is called where the stream has fallen silent, once every record before has been given out.
        """
        if isinstance(self._cutter, LineReader):
            return
        offset = 0
        waiting: deque[bytes] = deque()
        for records in pool.recognise(self._stretches(waiting, settle)):
            stretch = waiting.popleft()
            if self._again:
                # A cut before this one was wrong, so this one says nothing.
                self._again.append(stretch)
                continue
            size = sum(len(record.raw) for record in records)
            if records:
                self._cutter.pass_over(stretch[:size])
                yield Run(records=records, offset=offset, size=size)
                offset += size
            if size < len(stretch):
                self._again.append(stretch[size:])
        self._again.append(self._rest)

    def _stretches(self, waiting: deque[bytes], settle: Callable[[], None]) -> Iterator[bytes | None]:
        buffer = bytearray()
        while not self._again and len(buffer) < WINDOW_BYTES and (chunk := self._read()) != b"":
            if chunk is None:
                yield None
                settle()
                continue
            buffer += chunk
            if end := skim(buffer):
                stretch = bytes(buffer[:end])
                del buffer[:end]
                waiting.append(stretch)
                yield stretch
        self._rest = bytes(buffer)

    def _read(self) -> bytes | None:
        """The next bytes, none at the end; None where there are none now and what came before is to be settled."""
        try:
            chunk = self._stream.read(CHUNK_BYTES)
        except OSError as error:
            raise ResourceError(f"cannot read {self._source}: {error.strerror or error}", retry=True) from error
        self.bytes_read += len(chunk or b"")
        return chunk


class _Begun(Struct):
    """A commit that has begun."""

    put: Coming[list[Put]]
    records: int
    rejected: int
    durable_offset: int


class _Writer:
    """Gathers validated units into batches, and commits each.

    Where the store has commits begin, more of them begin while the oldest is under way; what is said of them comes in
    their order. As a context it lets none of them go on by itself: whatever ends the import, nothing comes later.
    """

    def __init__(
        self,
        store: Sink,
        reader: _Reader,
        *,
        source: str,
        items_max: int,
        bytes_max: int,
        acknowledge: Callable[[Ingested], None] | None,
    ) -> None:
        self._store: Final = store
        self._reader: Final = reader
        self._source: Final = source
        self._items_max: Final = items_max
        self._bytes_max: Final = bytes_max
        self._acknowledge: Final = acknowledge
        self._records: list[Record] = []
        self._rejected: list[Rejected] = []
        self._size = 0
        self._begun: deque[_Begun] = deque()
        """Commits that have begun, where the store has them begin."""
        self.total = Ingested()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        for one in self._begun:
            one.put.stop()
        for one in self._begun:
            one.put.abandon()

    @property
    def _items(self) -> int:
        return len(self._records) + len(self._rejected)

    def add(self, unit: _Unit, answers: Sequence[Validated] = ()) -> None:
        """Take a unit, and the answers for its extents. Commits first what is there, where both are too much."""
        too_many = self._items + unit.items > self._items_max
        if self._items and (too_many or self._size + unit.size > self._bytes_max):
            self._commit(unit.start)
        self._records += unit.records
        for extent, answer in zip(unit.extents, answers, strict=True):
            if isinstance(answer, Invalid):
                self._reject(answer.raw, answer.reason, answer.detail, extent.offset)
            else:
                self._records.append(answer)
        for damage in unit.damages:
            self._reject(damage.raw, damage.reason, damage.detail, damage.offset)
        self._size += unit.size

    def settle(self) -> None:
        """Commit what is there, since nobody knows when more will come. To be called when every piece is added."""
        if self._items:
            self._commit(self._reader.position)
        self._land(0)

    def finish(self) -> None:
        """Commit what is left, once the stream has ended."""
        if self._items:
            self._commit(self._reader.bytes_read)
        self._land(0)

    def _commit(self, durable_offset: int) -> None:
        """Write the batch, and say so once it is durable."""
        records, rejected = self._records, self._rejected
        self._records, self._rejected, self._size = [], [], 0
        if isinstance(self._store, AheadSink):
            put = self._store.begin_put(records, rejected=rejected)
            self._begun.append(_Begun(put, len(records), len(rejected), durable_offset))
            self._land(_AHEAD_MAX)
        else:
            puts = self._store.put_records(records, rejected=rejected)
            self._note(puts, len(records), len(rejected), durable_offset)

    def _land(self, left: int) -> None:
        """Wait for commits that have begun until only so many are left."""
        while len(self._begun) > left:
            one = self._begun[0]
            puts = one.put()
            self._begun.popleft()
            self._note(puts, one.records, one.rejected, one.durable_offset)

    def _note(self, puts: Sequence[Put], records: int, rejected: int, durable_offset: int) -> None:
        """A batch is durable."""
        assert len(puts) == records, "each record has an answer"
        outcomes = Counter(map(_outcome_of, puts))
        before = self.total
        self.total = Ingested(
            read=before.read + records + rejected,
            stored=before.stored + outcomes[Outcome.STORED],
            duplicate=before.duplicate + outcomes[Outcome.DUPLICATE],
            refused=before.refused + outcomes[Outcome.REFUSED],
            rejected=before.rejected + rejected,
            bytes_read=self._reader.bytes_read,
            durable_offset=durable_offset,
        )
        if self._acknowledge is not None:
            self._acknowledge(self.total)

    def _reject(self, raw: bytes, reason: str, detail: str, offset: int) -> None:
        self._rejected.append(Rejected(raw=raw, reason=reason, detail=detail, source=self._source, offset=offset))


def _gather(pieces: Iterable[Piece | None], items_max: int, bytes_max: int) -> Iterator[_Unit | None]:
    """Gather pieces into units. A unit holds at least one, however large that one is; runs are units of their own.

    None ends a unit, and is handed on.
    """
    unit = _Unit(0)
    items = 0
    for piece in pieces:
        if piece is None:
            if items:
                yield unit
                items = 0
            yield None
            continue
        is_run = isinstance(piece, Run)
        size = piece.size if isinstance(piece, Run) else len(piece.raw)
        if items and (is_run or items == items_max or unit.size + size > bytes_max):
            yield unit
            items = 0
        if isinstance(piece, Run):
            yield from _cut(piece, items_max, bytes_max)
            continue
        if not items:
            unit = _Unit(piece.offset)
        if isinstance(piece, Extent):
            unit.extents.append(piece)
        else:
            unit.damages.append(piece)
        unit.size += size
        items += 1
    if items:
        yield unit


def _cut(run: Run, items_max: int, bytes_max: int) -> Iterator[_Unit]:
    """The records of a run, in units that keep the bounds."""
    ends = list(accumulate(len(record.raw) for record in run.records))
    begin = done = 0
    while begin < len(ends):
        end = min(begin + items_max, len(ends), max(begin + 1, bisect_right(ends, done + bytes_max)))
        unit = _Unit(run.offset + done)
        unit.records = run.records[begin:end]
        unit.size = ends[end - 1] - done
        yield unit
        begin, done = end, ends[end - 1]
