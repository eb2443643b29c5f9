"""A pipe that falls silent is told of once, and only while something waits to be settled."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from bobbin.runtime.patient import PatientReader


class Pipe:
    """Both ends of a pipe, and a clock that stands still until it is moved."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.reading: BinaryIO = os.fdopen(reading, "rb")
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def write(self, data: bytes) -> None:
        os.write(self.writing, data)

    def close(self) -> None:
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()
    made.reading.close()


def test_what_is_there_comes_and_then_the_silence_is_told_once(pipe: Pipe) -> None:
    reader = PatientReader(pipe.reading, seconds=0.0, clock=pipe.clock)
    pipe.write(b"abc")
    assert reader.read(100) == b"abc"
    assert reader.read(100) is None
    pipe.write(b"def")
    assert reader.read(100) == b"def"
    assert reader.read(100) is None
    pipe.close()
    assert reader.read(100) == b"", "a silence that was told of is not told again"
    assert reader.read(100) == b""


def test_a_chunk_is_filled_as_long_as_something_is_there(pipe: Pipe) -> None:
    reader = PatientReader(pipe.reading, seconds=0.0, clock=pipe.clock)
    pipe.write(b"abcdef")
    assert [reader.read(2), reader.read(3), reader.read(5)] == [b"ab", b"cde", b"f"]
    pipe.write(b"gh")
    assert reader.read(5) == b"gh"


def test_the_end_is_no_silence(pipe: Pipe) -> None:
    reader = PatientReader(pipe.reading, seconds=3600.0, clock=pipe.clock)
    pipe.write(b"abc")
    pipe.close()
    assert reader.read(100) == b"abc"
    assert reader.read(100) == b""


def test_time_passes_from_the_first_byte_that_is_not_settled(pipe: Pipe) -> None:
    reader = PatientReader(pipe.reading, seconds=10.0, clock=pipe.clock)
    pipe.write(b"abc")
    assert reader.read(3) == b"abc"
    pipe.now = 9.0
    pipe.write(b"def")
    assert reader.read(3) == b"def"
    pipe.now = 10.0
    assert reader.read(3) is None, "the first bytes have waited long enough, though others came since"


def test_files_and_streams_of_this_process_are_read_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"abc")
    with file.open("rb") as stream:
        reader = PatientReader(stream, seconds=0.0)
        assert [reader.read(2), reader.read(2), reader.read(2)] == [b"ab", b"c", b""]
    reader = PatientReader(io.BytesIO(b"abc"), seconds=0.0)
    assert [reader.read(2), reader.read(2), reader.read(2)] == [b"ab", b"c", b""]
