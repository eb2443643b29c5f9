"""Short ids against a plain SipHash, written from its description."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.reconcile.short_ids import SharedId, digest_rows, find, keyed_ids, short_ids

_MASK = (1 << 64) - 1
_KEY = bytes(range(16))

digests = st.lists(st.binary(min_size=32, max_size=32), max_size=20, unique=True)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _sip_round(v: list[int]) -> None:
    v[0] = (v[0] + v[1]) & _MASK
    v[1] = _rotated(v[1], 13) ^ v[0]
    v[0] = _rotated(v[0], 32)
    v[2] = (v[2] + v[3]) & _MASK
    v[3] = _rotated(v[3], 16) ^ v[2]
    v[0] = (v[0] + v[3]) & _MASK
    v[3] = _rotated(v[3], 21) ^ v[0]
    v[2] = (v[2] + v[1]) & _MASK
    v[1] = _rotated(v[1], 17) ^ v[2]
    v[2] = _rotated(v[2], 32)


def _siphash(key: bytes, message: bytes, rounds: int = 1, last_rounds: int = 3) -> int:
    low, high = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        for _ in range(rounds):
            _sip_round(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(last_rounds):
        _sip_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize(("length", "expected"), [(0, 0x726FDB47DD0E0E31), (15, 0xA129CA6149BE45E5)])
def test_the_plain_siphash_gives_the_published_values(length: int, expected: int) -> None:
    """Those are of two rounds for each word and four at the end; the short ids take one and three."""
    assert _siphash(_KEY, bytes(range(length)), 2, 4) == expected


@given(st.binary(min_size=16, max_size=16), digests)
def test_a_short_id_is_the_siphash_of_its_digest(key: bytes, given_digests: list[bytes]) -> None:
    expected = [_siphash(key, digest) for digest in given_digests]

    assert short_ids(key, digest_rows(given_digests)).tolist() == expected


def test_batches_do_not_show() -> None:
    rows = np.random.default_rng(1).integers(0, 1 << 64, (40_000, 4), dtype=np.uint64)

    together = short_ids(_KEY, rows)

    assert together[[0, 16_383, 16_384, 39_999]].tolist() == [
        _siphash(_KEY, rows[number].astype("<u8").tobytes()) for number in (0, 16_383, 16_384, 39_999)
    ]


def test_two_rows_with_one_id_are_reported() -> None:
    with pytest.raises(SharedId, match="same short id"):
        short_ids(_KEY, digest_rows([b"a" * 32, b"b" * 32, b"a" * 32]))


def test_no_digests_have_no_ids() -> None:
    assert short_ids(_KEY, digest_rows([])).tolist() == []


@pytest.mark.parametrize("key", [b"", bytes(15), bytes(17)])
def test_a_key_of_another_length_is_refused(key: bytes) -> None:
    with pytest.raises(UsageError, match="16 bytes"):
        short_ids(key, digest_rows([]))


def test_a_digest_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError, match="32 bytes"):
        digest_rows([bytes(31)])


def test_whoever_compares_a_root_anyway_may_have_the_same_id_twice() -> None:
    rows = digest_rows([bytes(32), bytes(32), b"\x01" * 32])
    ids = keyed_ids(_KEY, rows)
    assert ids[0] == ids[1] == _siphash(_KEY, bytes(32))
    with pytest.raises(SharedId):
        short_ids(_KEY, rows)
    assert short_ids(_KEY, rows[1:]).tolist() == ids[1:].tolist()
    with pytest.raises(UsageError, match="16 bytes"):
        keyed_ids(b"", rows)


@given(st.lists(st.integers(0, _MASK)), st.lists(st.integers(0, 9) | st.integers(0, _MASK)), st.integers(0, 20))
def test_ids_are_found_where_they_stand(some: list[int], others: list[int], picked: int) -> None:
    wanted = [*others, *some[::2][:picked]]
    # Ids that agree in all the bits that are looked at first.
    ids = [*some, *[one ^ 1 << 40 for one in some], *others[:2]]

    found = find(np.array(ids, np.uint64), np.array(wanted, np.uint64))

    assert found.tolist() == [at for at, one in enumerate(ids) if one in wanted]
