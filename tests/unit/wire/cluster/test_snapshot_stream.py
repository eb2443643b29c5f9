import pytest

from bobbin.errors import IntegrityError, UsageError
from bobbin.wire.cluster import snapshot_stream
from bobbin.wire.cluster.snapshot_stream import ENTRY_BYTES_MAX, SnapshotReader, decode, encode

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
