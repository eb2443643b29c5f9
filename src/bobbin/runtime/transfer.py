"""Records between a store and a file: import with a report, export, and verification without a store.

A file is a *bundle* (records one after the other) or *JSONL* (one line of JSON for each). Which of the two it is shows
in how it begins: JSONL begins with a brace, after white space at most, and no line of it begins as a record does.
Everything else is read as a bundle, also one whose first bytes are damaged.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, cast

from blake3 import blake3
from msgspec import Struct

from bobbin.records import ids, jsonl
from bobbin.records.canonical import MARK, MARKLINE_SIZE
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText, IdentifierError, Kind
from bobbin.records.reasons import Reason
from bobbin.records.record import Record, read_trusted
from bobbin.runtime.coming import Coming
from bobbin.runtime.ingest import UNIT_BYTES_MAX, UNIT_RECORDS_MAX, AheadSink, Form, Ingested, Sink, ingest
from bobbin.runtime.work import Invalid
from bobbin.runtime.workers import Validators
from bobbin.store.base import DamagedStore, Outcome, Progress, Put, Rejected, StoredRecord, View

_REPORT_EVERY: Final = 1000
_PEEK_BYTES: Final = 4096
_RECORD_BEGIN: Final = MARK + b": "
_BLANK: Final = b" \t\r\n"


class Problem(Struct, frozen=True, kw_only=True):
    """One record of a source that was not taken."""

    outcome: Outcome
    """``REJECTED`` or ``REFUSED``."""
    source: str
    offset: int | None
    """Where in the source it begins; None for a refused record, whose hash says which one it is."""
    size: int
    hash: HashText | None
    reason: str
    detail: str


class Exported(Struct, frozen=True, kw_only=True):
    """What an export wrote."""

    records: int
    bytes: int


class Verified(Struct, frozen=True, kw_only=True):
    """What a verification read."""

    records: dict[Kind, int]
    """Valid records by kind."""
    rejected: int
    bytes_read: int


def detect_form(stream: BinaryIO) -> tuple[Form, BinaryIO]:
    """The form of a stream, and the stream as if nobody had looked."""
    head = bytearray()
    # A pipe may give less than was asked for, so ask until there is enough, no more, or nothing left to doubt.
    some: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    while len(head) < _PEEK_BYTES and not _is_no_json(head) and (piece := some(_PEEK_BYTES - len(head))):
        head += piece
    return ("jsonl" if _is_jsonl(bytes(head)) else "bundle"), cast(BinaryIO, _Rewound(bytes(head), stream))


def _is_no_json(head: bytes | bytearray) -> bool:
    """Whether the first bytes alone say that this is no JSONL, whatever follows."""
    return bool(head.lstrip(_BLANK)) and not head.lstrip(_BLANK).startswith(b"{")


def _is_jsonl(head: bytes) -> bool:
    if not head.strip(_BLANK):
        # Blank lines and nothing else are nothing, and only JSONL has blank lines.
        return 0 < len(head) < _PEEK_BYTES
    # JSON has no raw line feed in its texts, so such a line is a record's, whatever became of the bytes before it.
    has_record = b"\n" + _RECORD_BEGIN in head or head[1:].startswith(_RECORD_BEGIN[1:])
    return head.lstrip(_BLANK).startswith(b"{") and not has_record


def import_records(
    store: Sink,
    stream: BinaryIO,
    *,
    source: str,
    form: Form | None,
    workers: int,
    report: Callable[[Problem], None] | None = None,
    acknowledge: Callable[[Ingested], None] | None = None,
) -> Ingested:
    """Store what is valid, quarantine what is not. ``report`` hears of each record not taken, once that is durable."""
    if form is None:
        form, stream = detect_form(stream)
    sink = store
    if report is not None:
        reporting = _ReportingAhead if isinstance(store, AheadSink) else _Reporting
        sink = reporting(store, source, report)
    return ingest(sink, stream, source=source, form=form, workers=workers, acknowledge=acknowledge)


def verify_records(
    stream: BinaryIO, *, source: str, form: Form | None, workers: int, report: Callable[[Problem], None] | None = None
) -> Verified:
    """Check every record of a stream and keep nothing."""
    sink = _Counting()
    total = import_records(sink, stream, source=source, form=form, workers=workers, report=report)
    return Verified(records=dict(sink.kinds), rejected=sink.rejected, bytes_read=total.bytes_read)


def verify_view(
    view: View, *, source: str, workers: int, report: Callable[[Problem], None], progress: Progress | None = None
) -> Verified:
    """Check every stored record again, and that it is the one whose name it is kept under. Nothing is written."""
    kinds: Counter[Kind] = Counter()
    rejected = size = 0
    total = view.high_water()
    waiting: deque[list[StoredRecord]] = deque()

    def raws() -> Iterator[list[bytes]]:
        for batch in _batches(view.scan()):
            waiting.append(batch)
            yield [stored.raw for stored in batch]

    with Validators(workers) as pool:
        for answers in pool.validate(raws()):
            batch = waiting.popleft()
            for stored, answer in zip(batch, answers, strict=True):
                size += len(stored.raw)
                if isinstance(answer, Invalid):
                    fault = (answer.reason, answer.detail)
                elif answer.hash != stored.hash:
                    fault = (Reason.NOT_REQUESTED, f"the stored bytes are those of {answer.hash}")
                else:
                    kinds[answer.kind] += 1
                    continue
                rejected += 1
                report(
                    Problem(
                        outcome=Outcome.REJECTED,
                        source=source,
                        offset=None,
                        size=len(stored.raw),
                        hash=stored.hash,
                        reason=fault[0],
                        detail=fault[1],
                    )
                )
            if progress is not None:
                progress(batch[-1].id, total)
    return Verified(records=dict(kinds), rejected=rejected, bytes_read=size)


def _batches(records: Iterator[StoredRecord]) -> Iterator[list[StoredRecord]]:
    """Records in lists, each of a size that a worker takes in one piece."""
    batch: list[StoredRecord] = []
    size = 0
    for stored in records:
        batch.append(stored)
        size += len(stored.raw)
        if len(batch) >= UNIT_RECORDS_MAX or size >= UNIT_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def export_records(
    view: View, stream: BinaryIO, *, form: Form, at: Coordinate | Prefix | None = None, progress: Progress | None = None
) -> Exported:
    """Write records to a stream: all in commit order, or those at a place in the order of a listing.

    Each is checked against its name first; a damaged one is ``DamagedStore``, and nothing of it is written.
    """
    total = view.high_water() if at is None else 0
    records = written = 0
    for position, raw in _raws(view, at):
        written += stream.write(raw if form == "bundle" else jsonl.encode(read_trusted(raw)) + b"\n")
        records += 1
        if progress is not None and records % _REPORT_EVERY == 0:
            progress(position if at is None else records, total)
    return Exported(records=records, bytes=written)


def _raws(view: View, at: Coordinate | Prefix | None) -> Iterator[tuple[int, bytes]]:
    if at is None:
        yield from ((stored.id, _intact(stored.hash, stored.raw)) for stored in view.scan())
        return
    for listed in view.list(at):
        yield listed.id, _intact(listed.hash, view.get(listed.hash))


def _intact(hash: HashText, raw: bytes | None) -> bytes:
    """The bytes, if they are those of this name.

    The digest covers every byte that was validated when the record came in, so one hash proves all of it again.
    """
    try:
        _, digest = ids.parse_hash(hash)
    except IdentifierError as error:
        raise DamagedStore(f"the store is damaged: {hash!r} is not the name of a record; run `bobbin fsck`") from error
    if raw is None:
        raise DamagedStore(f"the store is damaged: {hash} is listed, but its bytes are not found; run `bobbin fsck`")
    if (
        raw[:MARKLINE_SIZE] != b"%b%b\n" % (_RECORD_BEGIN, hash.encode())
        or blake3(memoryview(raw)[MARKLINE_SIZE:]).digest() != digest
    ):
        raise DamagedStore(f"the store is damaged: the stored bytes of {hash} have changed; run `bobbin fsck`")
    return raw


class _Rewound:
    """A stream of which the first bytes were read already."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream: Final = stream

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            return self._stream.read(size)
        if 0 <= size < len(self._head):
            head, self._head = self._head[:size], self._head[size:]
            return head
        head, self._head = self._head, b""
        # What is there already is handed on before the stream is asked for more, unless everything is wanted.
        return head if size >= 0 else head + self._stream.read()

    def read1(self, size: int = -1, /) -> bytes:
        some: Callable[[int], bytes] = getattr(self._stream, "read1", self._stream.read)
        return self.read(size) if self._head else some(size)

    def fileno(self) -> int:
        return self._stream.fileno()


class _Reporting:
    """Passes everything on to a store, and tells about what was not taken once the commit is durable."""

    def __init__(self, store: Sink, source: str, report: Callable[[Problem], None]) -> None:
        self._store: Final = store
        self._source: Final = source
        self._report: Final = report

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> list[Put]:
        return self._told(records, rejected, self._store.put_records(records, rejected=rejected))

    def _told(self, records: Sequence[Record], rejected: Sequence[Rejected], puts: list[Put]) -> list[Put]:
        for bad in sorted(rejected, key=lambda bad: bad.offset or 0):
            self._report(
                Problem(
                    outcome=Outcome.REJECTED,
                    source=bad.source,
                    offset=bad.offset,
                    size=len(bad.raw),
                    hash=None,
                    reason=bad.reason,
                    detail=bad.detail,
                )
            )
        for record, put in zip(records, puts, strict=True):
            if put.outcome is Outcome.REFUSED:
                self._report(
                    Problem(
                        outcome=Outcome.REFUSED,
                        source=self._source,
                        offset=None,
                        size=len(record.raw),
                        hash=record.hash,
                        reason=put.reason or "",
                        detail="removed on purpose earlier",
                    )
                )
        return puts


class _ReportingAhead(_Reporting):
    """The same over a store that has commits begin."""

    def begin_put(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Coming[list[Put]]:
        assert isinstance(self._store, AheadSink), "it is made over such a store alone"
        put = self._store.begin_put(records, rejected=rejected)
        return put.then(lambda puts: self._told(records, rejected, puts))


class _Counting:
    """Takes every record and keeps none."""

    def __init__(self) -> None:
        self.kinds: Final[Counter[Kind]] = Counter()
        self.rejected = 0

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> list[Put]:
        self.kinds.update(record.kind for record in records)
        self.rejected += len(rejected)
        return [Put(Outcome.STORED, record.hash) for record in records]
