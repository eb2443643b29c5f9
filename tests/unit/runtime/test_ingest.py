"""Bulk import into a store that notes what happens: counts, offsets, bounds, and the order of commit and word."""

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import ResourceError, UsageError
from bobbin.records import jsonl, signing
from bobbin.records.reasons import Reason
from bobbin.records.record import Record, build_blob, build_plex, seal
from bobbin.runtime import ingest as module
from bobbin.runtime.coming import Coming
from bobbin.runtime.ingest import Ingested, ingest
from bobbin.store.base import Outcome, Put, Rejected, StoreRecordId

KEY = signing.SigningKey.from_secret(bytes(range(32)))


def make(number: int, size: int = 40) -> Record:
    plex = build_plex(group="u", app="ding", name=f"links/{number}", tai_ns=number, data=b"x" * size)
    return seal(plex, KEY, auxiliary=b"\x01" * 32)


RECORDS = [make(number) for number in range(20)]


class Memory:
    """A store in a dictionary. ``events`` has every commit and, when a test puts it there, every word about one."""

    def __init__(self, *, refused: Sequence[Record] = (), fail_at: int | None = None) -> None:
        self.kept: dict[str, bytes] = {}
        self.rejected: list[Rejected] = []
        self.events: list[object] = []
        self.batches: list[int] = []
        self._refused = {record.hash for record in refused}
        self._fail_at = fail_at

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> list[Put]:
        if self._fail_at == len(self.batches):
            raise ResourceError("the disk is full", retry=False)
        puts = []
        for record in records:
            if record.hash in self._refused:
                outcome = Outcome.REFUSED
            elif record.hash in self.kept:
                outcome = Outcome.DUPLICATE
            else:
                outcome = Outcome.STORED
                self.kept[record.hash] = record.raw
            puts.append(Put(outcome, record.hash, StoreRecordId(len(self.kept))))
        self.rejected += rejected
        self.batches.append(len(records) + len(rejected))
        self.events.append("commit")
        return puts


class Ahead(Memory):
    """A store whose commits begin, and go on by themselves when others end: they end in their order."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        super().__init__(fail_at=fail_at)
        self.under_way: list[tuple[int, Future[list[Put]], Callable[[], list[Put]]]] = []

    def begin_put(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Coming[list[Put]]:
        number = self.events.count("begin")
        self.events.append("begin")
        future: Future[list[Put]] = Future()
        self.under_way.append((number, future, lambda: self.put_records(records, rejected=rejected)))

        def wait() -> list[Put]:
            while not future.done():
                self._end_the_oldest()
            return future.result()

        return Coming(wait, lambda: self.events.append(f"stop {number}"))

    def _end_the_oldest(self) -> None:
        _, future, commit = self.under_way.pop(0)
        try:
            future.set_result(commit())
        except ResourceError as error:
            self.batches.append(0)
            future.set_exception(error)


def bundle(records: Sequence[Record]) -> bytes:
    return b"".join(record.raw for record in records)


def run(
    store: Memory,
    data: bytes,
    *,
    form: module.Form = "bundle",
    workers: int = 0,
    batch_records_max: int = 4,
    batch_bytes_max: int = 1 << 20,
    acknowledge: Callable[[Ingested], None] | None = None,
) -> Ingested:
    return ingest(
        store,
        io.BytesIO(data),
        source="test",
        form=form,
        workers=workers,
        batch_records_max=batch_records_max,
        batch_bytes_max=batch_bytes_max,
        acknowledge=acknowledge,
    )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("form", ["bundle", "jsonl"])
def test_every_record_of_a_stream_is_stored(form: module.Form, workers: int) -> None:
    store = Memory()
    data = bundle(RECORDS) if form == "bundle" else b"".join(jsonl.encode(record) + b"\n" for record in RECORDS)
    total = run(store, data, form=form, workers=workers)
    assert list(store.kept.values()) == [record.raw for record in RECORDS]
    assert total == Ingested(read=20, stored=20, bytes_read=len(data), durable_offset=len(data))


def test_a_second_import_stores_nothing() -> None:
    store = Memory()
    run(store, bundle(RECORDS))
    again = run(store, bundle(RECORDS))
    assert (again.stored, again.duplicate, again.read) == (0, 20, 20)


def test_a_refused_record_is_counted_as_refused() -> None:
    total = run(Memory(refused=RECORDS[3:5]), bundle(RECORDS))
    assert (total.stored, total.refused, total.read) == (18, 2, 20)


def test_an_empty_stream_commits_nothing() -> None:
    store = Memory()
    said: list[Ingested] = []
    assert run(store, b"", acknowledge=said.append) == Ingested()
    assert store.events == []
    assert said == []


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_no_record_is_rejected_with_source_offset_and_reason(workers: int) -> None:
    forged = bytearray(RECORDS[5].raw)
    forged[RECORDS[5].raw.index(b"Signature: ") + 12] ^= 1
    store = Memory()
    data = bundle(RECORDS[:5]) + bytes(forged) + b"rubbish" + bundle(RECORDS[6:])
    total = run(store, data, workers=workers)
    assert (total.stored, total.rejected, total.read) == (19, 2, 21)
    start = sum(len(record.raw) for record in RECORDS[:5])
    first, second = sorted(store.rejected, key=lambda item: item.offset or 0)
    assert (first.raw, first.offset, first.source) == (bytes(forged), start, "test")
    assert first.reason in set(Reason)
    assert (second.raw, second.offset, second.source) == (b"rubbish", start + len(forged), "test")
    assert second.detail
    assert set(store.kept) == {record.hash for record in RECORDS} - {RECORDS[5].hash}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that many stretches come of, so that some are on their way when one turns out to be cut wrong."""
    monkeypatch.setattr(module, "CHUNK_BYTES", 700)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("at", [0, 1, 9, 18, 19])
@pytest.mark.parametrize("damage", ["signature", "length", "mark", "lost", "added", "planted"])
def test_workers_that_run_ahead_change_nothing(at: int, damage: str) -> None:
    raws = [record.raw for record in RECORDS]
    raws[at] = {
        "signature": lambda raw: raw.replace(b"Signature: ", b"Signature: 0", 1),
        "length": lambda raw: raw.replace(b"Data-Length: 40", b"Data-Length: 4"),
        "mark": lambda raw: b"?" + raw[1:],
        "lost": lambda raw: raw[:100] + raw[300:],
        "added": lambda raw: raw + b"\n\nData-Length: 7\n\n",
        "planted": lambda raw: raw[:-40] + RECORDS[0].raw,
    }[damage](raws[at])
    data = b"".join(raws)
    stores = Memory(), Memory()
    totals = [run(store, data, workers=workers) for store, workers in zip(stores, (0, 2), strict=True)]
    assert totals[0] == totals[1]
    assert totals[0].rejected > 0
    assert list(stores[0].kept.items()) == list(stores[1].kept.items())
    assert sorted(stores[0].rejected, key=str) == sorted(stores[1].rejected, key=str)


@pytest.mark.usefixtures("small_chunks")
def test_workers_take_a_record_that_is_longer_than_a_chunk() -> None:
    records = [make(1), make(2, size=5000), make(3)]
    store = Memory()
    assert run(store, bundle(records), workers=1).stored == 3
    assert list(store.kept.values()) == [record.raw for record in records]


def test_a_line_that_says_no_record_is_rejected() -> None:
    store = Memory()
    lines = [jsonl.encode(RECORDS[0]), b"{}", jsonl.encode(RECORDS[1])]
    total = run(store, b"\n".join(lines), form="jsonl")
    assert (total.stored, total.rejected) == (2, 1)
    assert store.rejected[0].raw == b"{}"
    assert store.rejected[0].offset == len(lines[0]) + 1


def test_the_word_comes_after_the_commit() -> None:
    store = Memory()
    run(store, bundle(RECORDS), acknowledge=store.events.append)
    kinds = ["commit" if event == "commit" else "word" for event in store.events]
    assert kinds == ["commit", "word"] * 5


@given(
    st.lists(st.tuples(st.integers(0, 19), st.sampled_from(["good", "forged", "rubbish"])), max_size=25),
    st.integers(1, 7),
    st.integers(1, 3000),
)
def test_each_word_is_true(items: list[tuple[int, str]], records_max: int, bytes_max: int) -> None:
    """At every word: the sum holds, and everything before the durable offset has its outcome."""
    store = Memory()
    data = b""
    ends: list[tuple[int, Record | None]] = []
    for number, state in items:
        record = RECORDS[number]
        piece = {"good": record.raw, "forged": record.raw[:-1] + b"y", "rubbish": b"#"}[state]
        data += piece
        ends.append((len(data), record if state == "good" else None))
    said: list[Ingested] = []

    def hear(word: Ingested) -> None:
        said.append(word)
        assert word.read == word.stored + word.duplicate + word.refused + word.rejected
        for end, record in ends:
            if end <= word.durable_offset and record is not None:
                assert record.hash in store.kept
        assert word.rejected == len(store.rejected)
        assert word.stored == len(store.kept)

    total = run(store, data, batch_records_max=records_max, batch_bytes_max=bytes_max, acknowledge=hear)
    assert (said[-1] if said else Ingested()) == total
    assert total.durable_offset == total.bytes_read == len(data)
    assert [word.durable_offset for word in said] == sorted({word.durable_offset for word in said})
    assert all(size <= records_max for size in store.batches)


def test_a_batch_is_bounded_in_bytes_unless_one_record_is_larger() -> None:
    store = Memory()
    large = make(99, size=5000)
    size = len(RECORDS[0].raw)
    run(store, bundle([*RECORDS[:6], large, *RECORDS[6:8]]), batch_records_max=100, batch_bytes_max=3 * size + 10)
    assert store.batches == [3, 3, 1, 2]


class Tap:
    """A stream that never ends by itself and counts what was taken from it."""

    def __init__(self, record: bytes, count: int) -> None:
        self.taken = 0
        self._record = record
        self._rest = count * len(record)
        self._pattern = record * (2 + module.CHUNK_BYTES // len(record))

    def read(self, size: int) -> bytes:
        begin = self.taken % len(self._record)
        chunk = self._pattern[begin : begin + min(size, self._rest)]
        self.taken += len(chunk)
        self._rest -= len(chunk)
        return chunk


@pytest.mark.parametrize("workers", [0, 1])
def test_reading_stays_a_bounded_way_ahead_of_committing(workers: int) -> None:
    raw = build_blob(b"x" * 10_000).raw
    tap = Tap(raw, 6_000)
    ahead: list[int] = []
    total = ingest(
        Memory(),
        cast(BinaryIO, tap),
        source="test",
        form="bundle",
        workers=workers,
        batch_bytes_max=1 << 20,
        acknowledge=lambda word: ahead.append(tap.taken - word.durable_offset),
    )
    assert total.read == 6_000
    # A batch that waits, one being validated per place in the queue, and the chunk that is being cut.
    places = 8 * workers
    assert max(ahead) <= (2 + places) * (1 << 20) + 2 * module.CHUNK_BYTES


class Broken(io.RawIOBase):
    """A stream whose disk fails after some bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    def read(self, size: int = -1, /) -> bytes:
        if not self._data:
            raise OSError(5, "Input/output error")
        data, self._data = self._data[:size], self._data[size:]
        return data


def test_a_stream_that_fails_is_an_error_and_what_was_said_stays() -> None:
    store = Memory()
    said: list[Ingested] = []
    with pytest.raises(ResourceError, match="cannot read test"):
        ingest(
            store,
            cast(BinaryIO, Broken(bundle(RECORDS))),
            source="test",
            form="bundle",
            workers=0,
            batch_records_max=4,
            acknowledge=said.append,
        )
    assert said
    assert said[-1].stored == len(store.kept)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_store_that_fails_ends_the_import(workers: int) -> None:
    store = Memory(fail_at=2)
    said: list[Ingested] = []
    with pytest.raises(ResourceError, match="disk is full"):
        run(store, bundle(RECORDS), workers=workers, acknowledge=said.append)
    assert [word.stored for word in said] == [4, 8]


@pytest.mark.parametrize("workers", [0, 1])
def test_commits_that_begin_are_few_and_their_words_come_in_order(workers: int) -> None:
    store = Ahead()
    total = run(store, bundle(RECORDS), workers=workers, acknowledge=store.events.append)
    assert total.stored == len(RECORDS)
    under_way = most = 0
    words = []
    for event in store.events:
        under_way += (event == "begin") - (event == "commit")
        most = max(most, under_way)
        if isinstance(event, Ingested):
            words.append(event.stored)
    assert (under_way, most, words) == (0, 3, [4, 8, 12, 16, 20])
    assert store.kept == {record.hash: record.raw for record in RECORDS}


def test_what_has_begun_ends_before_the_import_fails() -> None:
    store = Ahead(fail_at=1)
    said: list[Ingested] = []
    with pytest.raises(ResourceError, match="disk is full"):
        run(store, bundle(RECORDS), acknowledge=said.append)
    assert [word.stored for word in said] == [4]
    assert store.events.count("begin") == 4, "two more were under way, and nothing began after that"
    _expect_rest(store, begun=4)


class _Failing(io.BytesIO):
    """A source that cannot be read to its end."""

    def read(self, size: int | None = -1) -> bytes:
        chunk = super().read(min(size or 0, 1_300))
        if self.tell() > 3_900:
            raise OSError("the disk is gone")
        return chunk


def test_what_has_begun_ends_before_anybody_hears_of_a_source_that_fails() -> None:
    store = Ahead()
    with pytest.raises(ResourceError, match="cannot read"):
        ingest(store, _Failing(bundle(RECORDS)), source="x", form="bundle", workers=0, batch_records_max=2)
    _expect_rest(store, begun=store.events.count("begin"))


def test_what_has_begun_ends_before_anybody_hears_of_a_commit_that_cannot_begin() -> None:
    class Full(Ahead):
        def begin_put(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> Coming[list[Put]]:
            if self.events.count("begin") == 2:
                raise ResourceError("no room for what is rejected", retry=True)
            return super().begin_put(records, rejected=rejected)

    store = Full()
    with pytest.raises(ResourceError, match="no room"):
        run(store, bundle(RECORDS))
    _expect_rest(store, begun=2)


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
def test_what_has_begun_ends_before_anybody_hears_that_a_word_failed(error: BaseException) -> None:
    store = Ahead()

    def say(_: Ingested) -> None:
        raise error

    with pytest.raises(type(error)):
        run(store, bundle(RECORDS), acknowledge=say)
    _expect_rest(store, begun=3)


def _expect_rest(store: Ahead, *, begun: int) -> None:
    """Whatever began was told to stop, or was waited for; so nothing of it is still to come."""
    assert store.events.count("begin") == begun
    assert store.under_way == []
    stops = [event for event in store.events if str(event).startswith("stop")]
    assert stops, "those that nobody will wait for are told first, all of them"
    assert "commit" not in store.events[store.events.index(stops[0]) : store.events.index(stops[-1])]


def test_an_answer_for_each_record_or_none_is_counted() -> None:
    class Short(Memory):
        def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> list[Put]:
            return super().put_records(records, rejected=rejected)[:-1]

    with pytest.raises(AssertionError, match="each record has an answer"):
        run(Short(), bundle(RECORDS))


@pytest.mark.parametrize("limits", [{"batch_records_max": 0}, {"batch_bytes_max": 0}])
def test_a_batch_without_room_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        run(Memory(), b"", **limits)  # type: ignore[arg-type]


def test_a_count_that_does_not_add_up_cannot_exist() -> None:
    with pytest.raises(AssertionError):
        Ingested(read=2, stored=1)


# ---- a pipe that stays open -----------------------------------------------------------------------------------------

SECONDS_MAX = 60
"""Far above what any of these takes; a word that never comes fails here."""


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("form", ["bundle", "jsonl"])
def test_a_pipe_that_falls_silent_holds_nothing_back(form: module.Form, workers: int) -> None:
    """Fewer records than fill a batch, and half of another: all that are whole are acknowledged while it is open."""
    reading, writing = os.pipe()
    words: SimpleQueue[Ingested] = SimpleQueue()
    store = Memory()
    encoded = [record.raw if form == "bundle" else jsonl.encode(record) + b"\n" for record in RECORDS]
    with os.fdopen(reading, "rb") as stream, ThreadPoolExecutor(1) as pool:
        done = pool.submit(ingest, store, stream, source="test", form=form, workers=workers, acknowledge=words.put)
        try:
            sent = 0
            for begin, end in ((0, 7), (7, 20)):
                pieces = b"".join(encoded[begin:end])
                cut = 0 if end == 20 else 30
                os.write(writing, pieces + encoded[end % 20][:cut])
                word = _word(words, end)
                sent += len(pieces)
                assert (word.stored, word.durable_offset) == (end, sent)
                encoded[end % 20] = encoded[end % 20][cut:]
                sent += cut
        finally:
            os.close(writing)
        total = done.result(SECONDS_MAX)
    assert (total.stored, total.rejected, total.durable_offset) == (20, 0, sum(map(len, encoded)) + 30)
    assert list(store.kept) == [record.hash for record in RECORDS]


def _word(words: "SimpleQueue[Ingested]", stored: int) -> Ingested:
    """The word of the commit that makes it so many. The pipe may be read in more than one go."""
    while True:
        word = words.get(timeout=SECONDS_MAX)
        if word.stored >= stored:
            return word


@pytest.mark.parametrize("workers", [0, 2])
def test_damage_does_not_hold_up_what_came_before_it(workers: int) -> None:
    reading, writing = os.pipe()
    words: SimpleQueue[Ingested] = SimpleQueue()
    store = Memory()
    with os.fdopen(reading, "rb") as stream, ThreadPoolExecutor(1) as pool:
        done = pool.submit(ingest, store, stream, source="test", form="bundle", workers=workers, acknowledge=words.put)
        try:
            os.write(writing, bundle(RECORDS[:5]) + b"rubbish" + bundle(RECORDS[5:8]))
            assert _word(words, 5).durable_offset == len(bundle(RECORDS[:5]))
        finally:
            os.close(writing)
        total = done.result(SECONDS_MAX)
    assert (total.stored, total.rejected) == (8, 1)
