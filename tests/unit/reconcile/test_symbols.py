"""Symbols as bytes."""

import numpy as np
import pytest

from bobbin.reconcile.symbols import SYMBOL_BYTES, MalformedSymbols, Symbols, checks_of


def test_a_symbol_is_its_sum_and_its_check() -> None:
    symbols = Symbols(0, np.array([1, 0x0102030405060708], np.uint64), np.array([2, 0xABCD], np.uint16))

    assert symbols.encode() == bytes.fromhex("0100000000000000 0200 0807060504030201 cdab")
    assert len(symbols) == 2
    assert len(symbols.encode()) == 2 * SYMBOL_BYTES


def test_symbols_come_back() -> None:
    generator = np.random.default_rng(1)
    sums = generator.integers(0, 1 << 64, 50, dtype=np.uint64)
    symbols = Symbols(7, sums, generator.integers(0, 1 << 16, 50, dtype=np.uint16))

    again = Symbols.decode(7, symbols.encode())

    assert again.first == 7
    assert again.sums.tolist() == symbols.sums.tolist()
    assert again.checks.tolist() == symbols.checks.tolist()


@pytest.mark.parametrize("length", [1, 9, 11, 19])
def test_part_of_a_symbol_is_refused(length: int) -> None:
    with pytest.raises(MalformedSymbols, match="whole number"):
        Symbols.decode(0, bytes(length))


def test_checks_are_fixed_for_ever() -> None:
    assert checks_of(np.array([1, 2, 3, 2**64 - 1], np.uint64)).tolist() == [49842, 34149, 18456, 55339]


def test_the_check_of_a_sum_says_nothing_about_the_sum_of_checks() -> None:
    ids = np.random.default_rng(2).integers(1, 1 << 64, (20_000, 2), dtype=np.uint64)

    agree = checks_of(ids[:, 0] + ids[:, 1]) == checks_of(ids[:, 0]) + checks_of(ids[:, 1])

    assert int(agree.sum()) <= 5
