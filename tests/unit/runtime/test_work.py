"""What a worker answers, and how it travels."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.records import signing
from bobbin.records.reasons import Reason
from bobbin.records.record import Blob, Plex, Record, Seal, build_blob, build_plex, seal
from bobbin.runtime import work
from bobbin.runtime.work import Invalid, Recognise, Validate, Verify

KEY = signing.SigningKey.from_secret(bytes(range(32)))
BLOB = build_blob(b"hello")
PLEX = build_plex(
    group="u", app="ding", name="links/1", tai_ns=0, data=b"\x00\xff", extras=[("X-Custom", "größer"), ("A", "b")]
)
SEAL = seal(PLEX, KEY, auxiliary=b"\x01" * 32)


@contextmanager
def pipe() -> Iterator[tuple[FileIO, FileIO]]:
    source, sink = os.pipe()
    with FileIO(source, "r") as reading, FileIO(sink, "w") as writing:
        yield reading, writing


def ask(raws: list[bytes]) -> list[work.Validated]:
    """What a caller sees who sends these bytes to a worker."""
    return work.restore(work._answer(bytearray(work.encode_request(Validate(raws)))), raws)


def test_a_record_comes_back_as_the_value_that_validation_gives() -> None:
    answers = ask([BLOB.raw, PLEX.raw, SEAL.raw])
    assert answers == [BLOB, PLEX, SEAL]
    assert [type(answer) for answer in answers] == [Blob, Plex, Seal]


def test_bytes_that_are_no_record_come_back_with_their_reason() -> None:
    [good, bad] = ask([SEAL.raw, SEAL.raw[:-1]])
    assert good == SEAL
    assert isinstance(bad, Invalid)
    assert bad.raw == SEAL.raw[:-1]
    assert bad.reason is Reason.EXACT_LENGTH
    assert bad.detail


def test_the_bytes_of_a_record_do_not_travel_back() -> None:
    large = build_blob(b"x" * 100_000)
    assert len(work._answer(bytearray(work.encode_request(Validate([large.raw] * 10))))) < 10_000


@given(st.lists(st.one_of(st.binary(max_size=300), st.sampled_from([BLOB.raw, PLEX.raw, SEAL.raw, SEAL.raw[4:]]))))
def test_travelling_changes_no_answer(raws: list[bytes]) -> None:
    assert ask(raws) == work.validate_batch(raws)


@given(st.lists(st.sampled_from([BLOB, PLEX, SEAL])), st.sampled_from([b"", b"?", SEAL.raw[:-1]]))
def test_the_records_at_the_front_of_a_stretch_come_back(records: list[Record], rest: bytes) -> None:
    stretch = b"".join(record.raw for record in records) + rest
    reply = work._answer(bytearray(work.encode_request(Recognise(stretch))))
    assert work.restore_run(reply, stretch) == work.recognise(stretch) == records
    assert Recognise(stretch).size == len(stretch)


def test_signatures_are_verified_one_by_one() -> None:
    public_x = bytes.fromhex("60e542dfcc8442c672331926787b32299780680adf70853c3f05eb0fea917426")
    good = (public_x, bytes(PLEX.digest), SEAL.signature)
    bad = (public_x, bytes(PLEX.digest), SEAL.signature[:-1] + bytes([SEAL.signature[-1] ^ 1]))
    reply = work._answer(bytearray(work.encode_request(Verify([good, bad, good, (public_x, b"", b"")]))))
    assert work.decode_verdicts(reply) == [True, False, True, False]


@given(st.binary(max_size=200_000))
def test_a_frame_arrives_whole(body: bytes) -> None:
    with pipe() as (source, sink):
        writer = threading.Thread(target=work.write_frame, args=(sink.fileno(), body))
        writer.start()
        assert work.read_frame(source.fileno()) == bytearray(body)
        writer.join()


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 5, 12])
def test_a_frame_that_is_cut_off_is_an_end(kept: int) -> None:
    with pipe() as (source, sink):
        sink.write((b"\x00\x00\x00\x09" + b"123456789")[:kept])
        sink.close()
        assert work.read_frame(source.fileno()) is None


def test_serving_answers_each_frame_in_order_and_ends_with_the_input() -> None:
    with pipe() as (source, to_worker), pipe() as (from_worker, sink):
        batches = [[BLOB.raw], [], [PLEX.raw, b"?"]]
        for batch in batches:
            work.write_frame(to_worker.fileno(), work.encode_request(Validate(batch)))
        to_worker.close()
        work.serve(source.fileno(), sink.fileno())
        sink.close()
        for batch in batches:
            reply = work.read_frame(from_worker.fileno())
            assert reply is not None
            assert work.restore(reply, batch) == work.validate_batch(batch)
        assert work.read_frame(from_worker.fileno()) is None


def test_serving_ends_quietly_when_nobody_reads_the_answers() -> None:
    with pipe() as (source, to_worker), pipe() as (from_worker, sink):
        work.write_frame(to_worker.fileno(), work.encode_request(Validate([BLOB.raw])))
        from_worker.close()
        work.serve(source.fileno(), sink.fileno())
