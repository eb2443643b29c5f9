from zlib import crc32

import pytest

from bobbin.store.wal.record import HEAD, PAYLOAD_BYTES_MAX, frame, payload_at

VECTOR = bytes.fromhex("09000000 2639f4cb") + b"123456789"
"""Length 9, the check value of CRC-32 (0xCBF43926), both with the least byte first, and the payload it is known by."""
PAYLOAD_OF_CHECKSUM_0 = bytes.fromhex("9d0ad96d")


def test_a_record_has_these_bytes() -> None:
    assert frame(b"123456789") == VECTOR
    assert frame(b"1234", b"56", b"789") == VECTOR
    assert payload_at(VECTOR, 0) == b"123456789"
    assert payload_at(b"before" + VECTOR + b"after", 6) == b"123456789"


def test_every_flipped_bit_is_found() -> None:
    for place in range(len(VECTOR)):
        for bit in range(8):
            flipped = bytearray(VECTOR)
            flipped[place] ^= 1 << bit
            assert payload_at(bytes(flipped), 0) is None, (place, bit)


def test_a_checksum_of_0_is_checked_like_any_other() -> None:
    assert crc32(PAYLOAD_OF_CHECKSUM_0) == 0
    record = frame(PAYLOAD_OF_CHECKSUM_0)
    assert record[4:8] == bytes(4)
    assert payload_at(record, 0) == PAYLOAD_OF_CHECKSUM_0
    assert payload_at(HEAD.pack(9, 0) + b"123456789", 0) is None


@pytest.mark.parametrize("size", range(len(VECTOR)))
def test_a_part_of_a_record_is_none(size: int) -> None:
    assert payload_at(VECTOR[:size], 0) is None


def test_eight_zeros_are_no_record() -> None:
    assert payload_at(bytes(64), 0) is None


@pytest.mark.parametrize("length", [PAYLOAD_BYTES_MAX + 1, 0xFFFF_FFFF])
def test_a_length_over_the_bound_is_refused_whatever_follows(length: int) -> None:
    class Long(bytes):
        """Says that it is long enough, and fails when somebody takes more than a head of it."""

        def __len__(self) -> int:
            return 1 << 40

        def __getitem__(self, _: object) -> bytes:  # type: ignore[override]
            raise AssertionError("read before the bound was checked")

    assert payload_at(Long(HEAD.pack(length, 0)), 0) is None
