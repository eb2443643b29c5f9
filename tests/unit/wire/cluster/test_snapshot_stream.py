from collections.abc import Iterator
from errno import ENOSPC
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, BinaryIO, cast

import pytest

from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.wire.cluster import snapshot_stream
from bobbin.wire.cluster.snapshot_stream import ENTRY_BYTES_MAX, SnapshotBuffer, SnapshotReader, decode, encode

_ENTRIES = [b"first", b"", b"third " * 100]
_HEAD = b"SNAP" + b"\x01\x00\x00\x00" + b"\x03" + bytes(7)
_STREAM = _HEAD + b"\x05\x00\x00\x00first" + bytes(4) + b"\x58\x02\x00\x00" + b"third " * 100


def test_the_bytes_are_head_then_length_and_bytes_of_each_entry() -> None:
    assert b"".join(encode(_ENTRIES)) == _STREAM
    assert len(_HEAD) == 16


def test_an_empty_state_has_a_stream_too() -> None:
    raw = b"".join(encode([]))
    assert raw == b"SNAP\x01\x00\x00\x00" + bytes(8)
    assert list(decode([raw])) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 17, 100, 10_000])
def test_entries_come_back_from_pieces_of_any_size(size: int) -> None:
    pieces = [_STREAM[at : at + size] for at in range(0, len(_STREAM), size)]
    assert list(decode(pieces)) == _ENTRIES


def test_large_states_are_written_in_pieces() -> None:
    entries = [bytes([number]) * 10_000 for number in range(50)]
    pieces = list(encode(entries))
    assert len(pieces) > 5
    assert max(map(len, pieces)) < 100_000
    assert list(decode(pieces)) == entries


def test_a_stream_that_stops_too_early_is_refused() -> None:
    for end in range(len(_STREAM)):
        with pytest.raises(IntegrityError):
            list(decode([_STREAM[:end]]))


def test_bytes_after_the_last_entry_are_refused() -> None:
    with pytest.raises(IntegrityError):
        list(decode([_STREAM + b"\x00"]))
    with pytest.raises(IntegrityError):
        list(decode([_STREAM, b"\x00"]))


@pytest.mark.parametrize(
    "head",
    [
        b"SNAQ" + _HEAD[4:],
        b"SNAP" + b"\x02\x00\x00\x00" + _HEAD[8:],
        b"SNAP" + b"\x00\x00\x00\x00" + _HEAD[8:],
        b"SNAP" + b"\x00\x00\x00\x01" + _HEAD[8:],
    ],
)
def test_another_version_or_another_file_is_refused(head: bytes) -> None:
    with pytest.raises(IntegrityError):
        list(decode([head + _STREAM[16:]]))


def test_the_largest_entry_is_waited_for_and_a_larger_one_is_refused_by_its_length_alone() -> None:
    at_the_bound, above = SnapshotReader(), SnapshotReader()
    assert at_the_bound.feed(_HEAD + (100 * 1_048_576).to_bytes(4, "little")) == []
    with pytest.raises(IntegrityError):
        above.feed(_HEAD + (100 * 1_048_576 + 1).to_bytes(4, "little"))


def test_an_entry_that_nobody_could_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ENTRY_BYTES_MAX == 100 * 1_048_576
    monkeypatch.setattr(snapshot_stream, "ENTRY_BYTES_MAX", 10)
    assert list(decode(encode([bytes(10)]))) == [bytes(10)]
    with pytest.raises(UsageError):
        list(encode([bytes(11)]))


# ---- the buffer -----------------------------------------------------------------------------------------------------


class _Folder:
    """Makes temporary files, and sees which of them are still there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened: list[IO[bytes]] = []

    def open(self) -> BinaryIO:
        file = NamedTemporaryFile(dir=self.path)  # noqa: SIM115 -- the buffer closes it
        self.opened.append(file)
        return cast(BinaryIO, file)

    @property
    def names(self) -> list[str]:
        return [path.name for path in self.path.iterdir()]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[_Folder]:
    folder = _Folder(tmp_path)
    yield folder
    for file in folder.opened:
        file.close()


def test_up_to_the_bound_everything_stays_in_memory(folder: _Folder) -> None:
    with SnapshotBuffer(10, folder.open) as buffer:
        buffer.write(b"12345")
        buffer.write(b"67890")
        assert not buffer.is_spilled
        assert folder.opened == []
        assert b"".join(buffer.pieces()) == b"1234567890"
        assert buffer.size == 10


def test_above_the_bound_everything_goes_to_a_file_that_is_gone_afterwards(folder: _Folder) -> None:
    data = bytes(range(256)) * 1_000
    with SnapshotBuffer(10, folder.open) as buffer:
        buffer.write(b"12345")
        buffer.write(b"678901")
        assert buffer.is_spilled
        assert len(folder.names) == 1
        buffer.write(data)
        assert b"".join(buffer.pieces()) == b"12345678901" + data
        assert b"".join(buffer.pieces()) == b"12345678901" + data
        assert buffer.size == 11 + len(data)
        assert len(folder.names) == 1
    assert folder.names == []


@pytest.mark.parametrize("memory", [1, 1_000_000])
def test_hash_and_size_are_those_of_the_whole_stream(folder: _Folder, memory: int) -> None:
    with SnapshotBuffer(memory, folder.open) as buffer:
        for piece in encode(_ENTRIES):
            buffer.write(piece)
        assert buffer.is_spilled is (memory == 1)
        assert buffer.sha256 == sha256(_STREAM).digest()
        assert buffer.size == len(_STREAM)
        assert list(decode(buffer.pieces())) == _ENTRIES


def test_the_file_is_gone_after_an_error_as_well(folder: _Folder) -> None:
    def fail() -> None:
        with SnapshotBuffer(1, folder.open) as buffer:
            buffer.write(b"12345")
            assert len(folder.names) == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert folder.names == []


class _FailingFile(BytesIO):
    """A file on a bad disk: the error comes when it is written, read, or only when it is closed."""

    def __init__(self, fails_at: str) -> None:
        super().__init__()
        self.fails_at = fails_at

    def write(self, data: object) -> int:
        self._fail("write")
        return super().write(cast(bytes, data))

    def read(self, size: int | None = -1) -> bytes:
        self._fail("read")
        return b"" if self.fails_at == "end" else super().read(size)

    def close(self) -> None:
        super().close()
        self._fail("close")

    def _fail(self, what: str) -> None:
        if what == self.fails_at:
            raise OSError(ENOSPC, "no space")


@pytest.mark.parametrize("fails_at", ["write", "read", "end", "close"])
def test_a_file_that_fails_is_a_resource_error_and_is_closed(fails_at: str) -> None:
    file = _FailingFile(fails_at)

    def use() -> None:
        with SnapshotBuffer(1, lambda: file) as buffer:
            buffer.write(b"12345")
            list(buffer.pieces())

    if fails_at == "close":
        use()
    else:
        with pytest.raises(ResourceError):
            use()
    assert file.closed


def test_no_file_at_all_is_a_resource_error() -> None:
    def refuse() -> BinaryIO:
        raise OSError(ENOSPC, "no space")

    with pytest.raises(ResourceError) as caught, SnapshotBuffer(1, refuse) as buffer:
        buffer.write(b"12345")
    assert caught.value.retry
