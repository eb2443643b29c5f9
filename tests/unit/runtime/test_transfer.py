"""Files of records: what an import reports, what a verification counts, what an export writes."""

import io
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.records import jsonl
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText, Kind
from bobbin.records.record import Record, build_blob, build_plex, seal
from bobbin.records.signing import SigningKey
from bobbin.runtime import transfer
from bobbin.runtime.coming import Coming
from bobbin.runtime.ingest import Form
from bobbin.store.base import DamagedStore, Listed, Outcome, Put, Rejected, StoredRecord, StoreRecordId, View

KEY = SigningKey.from_secret(bytes(range(32)))
BLOB = build_blob(b"blob \x00")
PLEX = build_plex(group="u", app="a", name="n", tai_ns=1, data=b"plex")
SEAL = seal(PLEX, KEY, auxiliary=b"\x01" * 32)
RECORDS: tuple[Record, ...] = (BLOB, PLEX, SEAL)


class Sink:
    """Takes records; refuses those it is told to."""

    def __init__(self, refused: set[str]) -> None:
        self.refused = refused
        self.records: list[Record] = []
        self.rejected: list[Rejected] = []

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> list[Put]:
        self.records += records
        self.rejected += rejected
        return [
            Put(Outcome.REFUSED, record.hash, reason="told to")
            if record.hash in self.refused
            else Put(Outcome.STORED, record.hash)
            for record in records
        ]


class Moment:
    """A view of some records, as far as an export reads one."""

    def __init__(self, stored: Sequence[tuple[str, bytes]]) -> None:
        self._stored = [
            StoredRecord(StoreRecordId(number), HashText(name), raw) for number, (name, raw) in enumerate(stored, 1)
        ]

    def scan(self) -> Iterator[StoredRecord]:
        return iter(self._stored)

    def high_water(self) -> StoreRecordId:
        return StoreRecordId(len(self._stored))

    def get(self, wanted: HashText) -> bytes | None:
        return next((stored.raw for stored in self._stored if stored.hash == wanted), None)

    def list(self, _place: Coordinate | Prefix) -> Iterator[Listed]:
        for stored in self._stored:
            if stored.hash == PLEX.hash:
                yield Listed(
                    id=stored.id, hash=stored.hash, group="u", app="a", name="n", tai=1, verifier=None, data_length=4
                )


def view(*records: Record) -> View:
    return Moment([(record.hash, record.raw) for record in records])  # type: ignore[return-value]


def encoded(form: Form) -> bytes:
    if form == "bundle":
        return b"".join(record.raw for record in RECORDS)
    return b"".join(jsonl.encode(record) + b"\n" for record in RECORDS)


class Trickle(io.RawIOBase):
    """A stream that gives at most a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = data
        self._step = step

    def read(self, size: int = -1, /) -> bytes:
        size = self._step if size < 0 else min(size, self._step)
        head, self._data = self._data[:size], self._data[size:]
        return head


# ---- forms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (BLOB.raw, "bundle"),
        (jsonl.encode(BLOB), "jsonl"),
        (b"\n{}", "jsonl"),
        (b" {", "jsonl"),
        (b"", "bundle"),
        (b"[", "bundle"),
        (b" \t\r\n" * 2000 + BLOB.raw, "bundle"),
    ],
)
def test_the_beginning_shows_the_form(content: bytes, form: Form) -> None:
    assert transfer.detect_form(io.BytesIO(content))[0] == form


@pytest.mark.parametrize(
    ("first", "head"),
    [
        *((first, SEAL.raw) for first in (b"{", b" ", b"\t", b"\r", b"\n", b"{ {", b"\n\n{")),
        # No other record begins in the part that is looked at.
        *((first, build_blob(b"x" * 10_000).raw) for first in (b"{", b" ", b"\t", b"\r", b"\n")),
    ],
)
def test_a_bundle_whose_first_bytes_are_damaged_is_still_a_bundle(first: bytes, head: bytes) -> None:
    content = first + head[len(first) :] + SEAL.raw + PLEX.raw
    sink = Sink(set())
    done = transfer.import_records(sink, io.BytesIO(content), source="x", form=None, workers=0)
    assert [record.hash for record in sink.records] == [SEAL.hash, PLEX.hash]
    assert (done.stored, done.rejected) == (2, 1)


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\t\r\n"])
def test_blank_input_holds_nothing(content: bytes) -> None:
    done = transfer.import_records(Sink(set()), io.BytesIO(content), source="x", form=None, workers=0)
    assert (done.read, done.rejected) == (0, 0)


def test_a_json_text_may_speak_of_records() -> None:
    blob = build_blob(b"first\n" + PLEX.raw)
    assert transfer.detect_form(io.BytesIO(jsonl.encode(blob) + b"\n"))[0] == "jsonl"


@given(st.binary(max_size=50) | st.binary(min_size=4090, max_size=4110), st.integers(1, 7), st.integers(1, 9))
def test_looking_at_a_stream_takes_nothing_from_it(content: bytes, step: int, size: int) -> None:
    stream: BinaryIO = Trickle(content, step)  # type: ignore[assignment]
    _, stream = transfer.detect_form(stream)
    pieces = []
    while piece := stream.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    assert b"".join(pieces) == content


# ---- import and verification --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["bundle", "jsonl"])
@pytest.mark.parametrize("named", [True, False])
def test_everything_valid_is_handed_on_in_order(form: Form, *, named: bool) -> None:
    sink = Sink(set())
    problems: list[transfer.Problem] = []
    done = transfer.import_records(
        sink,
        io.BytesIO(encoded(form)),
        source="x",
        form=form if named else None,
        workers=0,
        report=problems.append,
    )
    assert [record.raw for record in sink.records] == [record.raw for record in RECORDS]
    assert (done.read, done.stored, problems) == (3, 3, [])


def test_what_is_not_taken_is_reported_by_offset_and_by_name() -> None:
    sink = Sink({SEAL.hash})
    problems: list[transfer.Problem] = []
    bad = bytearray(PLEX.raw)
    bad[-1] ^= 1
    content = BLOB.raw + bad + SEAL.raw + b"rubbish"
    done = transfer.import_records(
        sink, io.BytesIO(content), source="x", form="bundle", workers=0, report=problems.append
    )
    assert (done.stored, done.refused, done.rejected) == (1, 1, 2)
    first, second, third = problems
    assert (first.outcome, first.offset, first.size, first.reason) == (
        Outcome.REJECTED,
        len(BLOB.raw),
        len(bad),
        "blob-digest",
    )
    assert (second.outcome, second.offset, second.size) == (Outcome.REJECTED, len(content) - 7, 7)
    assert (third.outcome, third.offset, third.hash, third.reason) == (Outcome.REFUSED, None, SEAL.hash, "told to")


@pytest.mark.parametrize("begins", [False, True])
def test_problems_are_reported_after_the_commit_and_before_the_acknowledgement(*, begins: bool) -> None:
    order: list[str] = []

    class Store(Sink):
        def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> list[Put]:
            order.append("commit")
            return super().put_records(records, rejected=rejected)

    class Ahead(Store):
        def begin_put(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Coming[list[Put]]:
            return Coming(lambda: self.put_records(records, rejected=rejected))

    transfer.import_records(
        (Ahead if begins else Store)(set()),
        io.BytesIO(BLOB.raw + b"rubbish"),
        source="x",
        form=None,
        workers=0,
        report=lambda _: order.append("report"),
        acknowledge=lambda _: order.append("acknowledge"),
    )
    assert order == ["commit", "report", "acknowledge"]


def test_a_verification_counts_by_kind() -> None:
    problems: list[transfer.Problem] = []
    content = encoded("bundle") * 2 + b"rubbish"
    answer = transfer.verify_records(io.BytesIO(content), source="x", form=None, workers=0, report=problems.append)
    assert answer.records == {Kind.BLOB: 2, Kind.PLEX: 2, Kind.SEAL: 2}
    assert (answer.rejected, answer.bytes_read, len(problems)) == (1, len(content), 1)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_view_is_verified_record_by_record(workers: int) -> None:
    bad = bytearray(PLEX.raw)
    bad[-1] ^= 1
    moment: View = Moment(  # type: ignore[assignment]
        [(BLOB.hash, BLOB.raw), (PLEX.hash, bytes(bad)), (SEAL.hash, PLEX.raw), (SEAL.hash, SEAL.raw)]
    )
    problems: list[transfer.Problem] = []
    steps: list[tuple[int, int]] = []
    answer = transfer.verify_view(
        moment, source="x", workers=workers, report=problems.append, progress=lambda *step: steps.append(step)
    )
    assert answer.records == {Kind.BLOB: 1, Kind.SEAL: 1}
    assert [(problem.hash, problem.reason) for problem in problems] == [
        (PLEX.hash, "blob-digest"),
        (SEAL.hash, "not-requested"),
    ]
    assert answer.rejected == 2
    assert steps[-1] == (4, 4)


# ---- export -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["bundle", "jsonl"])
def test_an_export_is_what_an_import_reads(form: Form) -> None:
    stream = io.BytesIO()
    done = transfer.export_records(view(*RECORDS), stream, form=form)
    assert stream.getvalue() == encoded(form)
    assert (done.records, done.bytes) == (3, len(stream.getvalue()))


def test_an_export_of_a_place_holds_what_a_listing_shows() -> None:
    stream = io.BytesIO()
    place = Coordinate(group="u", app="a", name="n")
    assert transfer.export_records(view(*RECORDS), stream, form="bundle", at=place).records == 1
    assert stream.getvalue() == PLEX.raw


def test_a_long_export_says_how_far_it_is() -> None:
    steps: list[tuple[int, int]] = []
    moment = view(*(build_blob(b"%d" % number) for number in range(2500)))
    transfer.export_records(moment, io.BytesIO(), form="bundle", progress=lambda *step: steps.append(step))
    assert steps == [(1000, 2500), (2000, 2500)]


@pytest.mark.parametrize("form", ["bundle", "jsonl"])
@pytest.mark.parametrize("way", ["data", "name", "other"])
def test_a_damaged_record_is_named_and_never_written(form: Form, way: str) -> None:
    bad = bytearray(PLEX.raw)
    if way == "data":
        bad[-1] ^= 1
    elif way == "name":
        bad[0] ^= 1
    else:
        bad[:] = BLOB.raw
    moment: View = Moment([(BLOB.hash, BLOB.raw), (PLEX.hash, bytes(bad))])  # type: ignore[assignment]
    stream = io.BytesIO()
    with pytest.raises(DamagedStore, match=PLEX.hash):
        transfer.export_records(moment, stream, form=form)
    assert stream.getvalue() == (BLOB.raw if form == "bundle" else jsonl.encode(BLOB) + b"\n")
    with pytest.raises(DamagedStore, match=PLEX.hash):
        transfer.export_records(moment, io.BytesIO(), form=form, at=Coordinate(group="u", app="a", name="n"))


def test_a_record_that_is_listed_but_not_found_is_damage() -> None:
    class Hollow(Moment):
        def get(self, _wanted: HashText) -> bytes | None:
            return None

    moment: View = Hollow([(PLEX.hash, PLEX.raw)])  # type: ignore[assignment]
    with pytest.raises(DamagedStore, match=PLEX.hash):
        transfer.export_records(moment, io.BytesIO(), form="bundle", at=Coordinate(group="u", app="a", name="n"))


def test_a_name_that_is_none_is_damage() -> None:
    moment: View = Moment([("nonsense", PLEX.raw)])  # type: ignore[assignment]
    with pytest.raises(DamagedStore, match="nonsense"):
        transfer.export_records(moment, io.BytesIO(), form="bundle")


class Piecemeal:
    """A pipe that gives what was written, one piece at a time, and counts how often it was asked."""

    def __init__(self, *pieces: bytes) -> None:
        self.asked = 0
        self._pieces = list(pieces)

    def read1(self, size: int = -1, /) -> bytes:
        del size
        self.asked += 1
        return self._pieces.pop(0) if self._pieces else b""

    read = read1

    def fileno(self) -> int:
        return 7


def test_a_pipe_is_asked_no_longer_than_there_is_doubt() -> None:
    """More may come much later: what begins like a record is a bundle at once."""
    pipe = Piecemeal(b"\n", PLEX.raw, SEAL.raw)
    form, rewound = transfer.detect_form(cast(BinaryIO, pipe))
    assert (form, pipe.asked) == ("bundle", 2)
    some = cast(io.BufferedReader, rewound)
    assert some.read1(10_000) == b"\n" + PLEX.raw
    assert (some.read1(10_000), some.read1(10_000)) == (SEAL.raw, b"")
    assert some.fileno() == 7
