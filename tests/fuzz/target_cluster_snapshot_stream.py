"""Snapshot streams: the same entries whole and byte by byte, the same stream again, or an ``IntegrityError``."""

from collections.abc import Iterator

from bobbin.errors import IntegrityError
from bobbin.wire.cluster.snapshot_stream import SnapshotReader, decode, encode


class _Entries:
    def __init__(self, entries: list[bytes]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._entries)


def one_input(data: bytes) -> None:
    entries, is_whole = _read([data])
    assert _read([data[at : at + 1] for at in range(len(data))])[1] == is_whole
    if is_whole:
        assert _read([data[at : at + 7] for at in range(0, len(data), 7)]) == (entries, True)
        assert b"".join(encode(_Entries(entries))) == data
    try:
        assert list(decode([data])) == entries
    except IntegrityError:
        assert not is_whole


def _read(parts: list[bytes]) -> tuple[list[bytes], bool]:
    reader = SnapshotReader()
    found: list[bytes] = []
    try:
        for part in parts:
            found += reader.feed(part)
        reader.finish()
    except IntegrityError:
        return found, False
    return found, True
