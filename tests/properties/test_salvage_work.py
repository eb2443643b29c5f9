"""What hostile bundles may cost: the bytes that are hashed are linear in the bytes of the bundle."""

from collections.abc import Callable

import pytest
from blake3 import blake3

from bobbin import profile
from bobbin.records import bundle as bundle_module
from bobbin.records import canonical, salvage
from bobbin.records.ids import Kind
from tests.unit.records.bundles import AFTER, BEFORE, check_tiling, imported, make_seal, read

RESERVE = 20_000


class Hashed:
    """Counts the bytes that are hashed, the length lines in front of guessed data aside."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self, first: bytes | memoryview) -> "Hasher":
        return Hasher(self, first)


class Hasher:
    """One digest in the making."""

    def __init__(self, count: Hashed, first: bytes | memoryview) -> None:
        self._count = count
        self._hasher = blake3(first)
        self._count.bytes += len(first) if len(first) > len("Data-Length: 33554432\n\n") else 0

    def update(self, more: bytes | memoryview) -> None:
        self._count.bytes += len(more)
        self._hasher.update(more)

    def digest(self) -> bytes:
        return self._hasher.digest()


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Hashed:
    """A small reserve, so that some hundred kilobytes are beyond it."""
    count = Hashed()
    monkeypatch.setattr(salvage, "blake3", count)
    monkeypatch.setattr(bundle_module, "blake3", count)
    monkeypatch.setattr(salvage, "PROOF_BYTES_RESERVE", RESERVE)
    return count


def blob_head(length: int, salt: bytes) -> bytes:
    return canonical.markline(Kind.BLOB, salt) + b"Data-Length: %d\n\n" % length


def claims(length: int) -> bytes:
    """A Blob with wrong data that ends at a mark, and 64 heads in it that claim to go on far beyond."""
    data = b"".join(blob_head(length, b"%d" % i) for i in range(64))
    return blob_head(len(data), b"wrong") + data


def hidden(length: int) -> bytes:
    """A Blob whose length is far too large, and whose digest is that of the data up to the next mark."""
    return canonical.blob_record(b"short").replace(b"Data-Length: 5", b"Data-Length: %d" % length)


def cut(_: int) -> bytes:
    """A Seal cut off after its Blob's markline: the end of the input and the next marks are tried."""
    record = make_seal("cut", b"")
    return record[: record.index(b"Data-Length")] + b"Data-Xength: 1234\n\n"


@pytest.mark.parametrize("shape", [claims, hidden, cut, lambda _: cut(0)[:-1]], ids=["claims", "hidden", "cut", "line"])
@pytest.mark.parametrize("size", [100_000, 300_000])
def test_hashing_is_linear(shape: Callable[[int], bytes], size: int, hashed: Hashed) -> None:
    piece = shape(size // 2)
    raw = piece * (size // len(piece)) + AFTER
    pieces = read(raw)
    check_tiling(raw, pieces)
    assert hashed.bytes <= 7 * len(raw) + RESERVE + len(raw), "the last is the longest record that can be there"


def test_good_records_are_read_whatever_was_spent(hashed: Hashed) -> None:
    good = make_seal("large", b"x" * 10 * RESERVE)
    raw = BEFORE + good + BEFORE * 100 + good + AFTER
    assert imported(read(raw)) == [BEFORE, good, *[BEFORE] * 100, good, AFTER]
    assert hashed.bytes <= len(raw)


def test_the_reserve_is_enough_for_the_longest_record_at_the_start() -> None:
    large = bytearray(make_seal("large", b"x" * profile.DATA_BYTES_MAX))
    large[-1] ^= 1
    pieces = read(bytes(large) + AFTER)
    assert [len(piece.raw) for piece in pieces] == [len(large), len(AFTER)]
    assert imported(pieces) == [AFTER]


def test_a_spent_budget_errs_on_the_long_side(hashed: Hashed, monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt = BEFORE[:-1] + b"?"
    assert imported(read(spoilt + AFTER)) == [AFTER]
    monkeypatch.setattr(salvage, "PROOF_BYTES_RESERVE", 0)
    assert imported(read(spoilt + AFTER)) == []
    assert hashed.bytes > 0
