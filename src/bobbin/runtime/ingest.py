"""Bulk import: a stream of records, each checked, into a store, with memory that does not grow.

The stream is cut into extents, the extents are validated (by worker processes, or here), and the answers are written
in batches, one durable commit each. While workers validate, this process writes. Only after the commit is the caller
told, so what was acknowledged survives whatever comes next. What is no record goes to the quarantine of the store, in
the same commit as its good neighbours.

The sum always holds, after every commit: read = stored + duplicate + refused + rejected. A repeated import is safe:
what is there already is counted as duplicate.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Protocol, TypeAlias

from msgspec import Struct, structs

from bobbin.errors import ResourceError, UsageError
from bobbin.records.bundle import BundleReader, Damage, Extent, Piece
from bobbin.runtime.lines import LineReader
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
_outcome_of: Final = attrgetter("outcome")


class Sink(Protocol):
    """Where records go: the one method of a store that an import needs."""

    def put_records(self, records: "Sequence[Record]", *, rejected: Sequence[Rejected] = ()) -> list[Put]:
        """Store records and quarantine rejected bytes in one durable commit; one answer per record, in order."""
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
    units = _gather(reader, min(UNIT_RECORDS_MAX, batch_records_max), min(UNIT_BYTES_MAX, batch_bytes_max))
    writer = _Writer(store, reader, source=source, acknowledge=acknowledge)
    waiting: deque[_Unit] = deque()

    def raws() -> Iterator[list[bytes]]:
        for unit in units:
            waiting.append(unit)
            yield [extent.raw for extent in unit.extents if extent.record is None]

    with Validators(workers) as pool:
        for answers in pool.validate(raws()):
            unit = waiting.popleft()
            too_many = writer.items + unit.items > batch_records_max
            if writer.items and (too_many or writer.size + unit.size > batch_bytes_max):
                writer.commit(unit.start)
            writer.add(unit, answers)
    if writer.items:
        writer.commit(reader.bytes_read)
    return structs.replace(writer.total, bytes_read=reader.bytes_read, durable_offset=reader.bytes_read)


class _Unit:
    """Neighbours in the stream: extents to validate, and the damage found between them."""

    __slots__ = ("damages", "extents", "size", "start")

    def __init__(self, start: int) -> None:
        self.start: Final = start
        self.extents: Final[list[Extent]] = []
        self.damages: Final[list[Damage]] = []
        self.size = 0

    @property
    def items(self) -> int:
        return len(self.extents) + len(self.damages)


class _Reader:
    """The stream as pieces. Holds one chunk and one unfinished piece at a time."""

    def __init__(self, stream: BinaryIO, *, source: str, form: Form, recognises: bool) -> None:
        self._stream: Final = stream
        self._source: Final = source
        self._cutter: Final = LineReader() if form == "jsonl" else BundleReader(recognises=recognises)
        self.bytes_read = 0

    def __iter__(self) -> Iterator[Piece]:
        while chunk := self._read():
            self.bytes_read += len(chunk)
            yield from self._cutter.feed(chunk)
        yield from self._cutter.finish()

    def _read(self) -> bytes:
        try:
            return self._stream.read(CHUNK_BYTES)
        except OSError as error:
            raise ResourceError(f"cannot read {self._source}: {error.strerror or error}", retry=True) from error


class _Writer:
    """Gathers validated units into a batch, and commits it."""

    def __init__(
        self, store: Sink, reader: _Reader, *, source: str, acknowledge: Callable[[Ingested], None] | None
    ) -> None:
        self._store: Final = store
        self._reader: Final = reader
        self._source: Final = source
        self._acknowledge: Final = acknowledge
        self._records: list[Record] = []
        self._rejected: list[Rejected] = []
        self.size = 0
        self.total = Ingested()

    @property
    def items(self) -> int:
        return len(self._records) + len(self._rejected)

    def add(self, unit: _Unit, answers: list[Validated]) -> None:
        """Take a unit, and the answers for those of its extents that the reader has not recognised."""
        validated = iter(answers)
        for extent in unit.extents:
            answer = extent.record or next(validated)
            if isinstance(answer, Invalid):
                self._reject(answer.raw, answer.reason, answer.detail, extent.offset)
            else:
                self._records.append(answer)
        for damage in unit.damages:
            self._reject(damage.raw, damage.reason, damage.detail, damage.offset)
        self.size += unit.size

    def commit(self, durable_offset: int) -> None:
        """Write the batch, and say so once it is durable."""
        puts = self._store.put_records(self._records, rejected=self._rejected)
        outcomes = Counter(map(_outcome_of, puts))
        before = self.total
        self.total = Ingested(
            read=before.read + self.items,
            stored=before.stored + outcomes[Outcome.STORED],
            duplicate=before.duplicate + outcomes[Outcome.DUPLICATE],
            refused=before.refused + outcomes[Outcome.REFUSED],
            rejected=before.rejected + len(self._rejected),
            bytes_read=self._reader.bytes_read,
            durable_offset=durable_offset,
        )
        self._records, self._rejected, self.size = [], [], 0
        if self._acknowledge is not None:
            self._acknowledge(self.total)

    def _reject(self, raw: bytes, reason: str, detail: str, offset: int) -> None:
        self._rejected.append(Rejected(raw=raw, reason=reason, detail=detail, source=self._source, offset=offset))


def _gather(pieces: Iterable[Piece], items_max: int, bytes_max: int) -> Iterator[_Unit]:
    """Gather pieces into units. A unit holds at least one, however large that one is."""
    unit = _Unit(0)
    items = 0
    for piece in pieces:
        size = len(piece.raw)
        if items == items_max or (items and unit.size + size > bytes_max):
            yield unit
            unit = _Unit(piece.offset)
            items = 0
        if isinstance(piece, Extent):
            unit.extents.append(piece)
        else:
            unit.damages.append(piece)
        unit.size += size
        items += 1
    if items:
        yield unit
