"""What a decoder finds is the difference, whatever it is, and nothing that it is sent makes it do worse than refuse."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bobbin.errors import UsageError
from bobbin.reconcile import decode
from bobbin.reconcile.decode import Decoder, InconsistentSymbols
from bobbin.reconcile.encode import Encoder
from bobbin.reconcile.short_ids import Ids
from bobbin.reconcile.symbols import Checks, Symbols
from bobbin.simulator.chained_symbols import chain

_SYMBOLS_MAX = 4_000

seeds = st.integers(0, 2**32)


def _random_ids(generator: np.random.Generator, count: int) -> Ids:
    return np.unique(generator.integers(1, 1 << 64, count, dtype=np.uint64))


@given(seeds, st.integers(0, 500), st.integers(0, 120), st.integers(0, 120), st.integers(1, 40))
def test_the_difference_of_two_sets_is_found(seed: int, common: int, missing: int, extra: int, stretch: int) -> None:
    generator = np.random.default_rng(seed)
    shared, theirs, ours = (_random_ids(generator, count) for count in (common, missing, extra))
    encoder, decoder = Encoder(np.concatenate((shared, theirs))), Decoder(np.concatenate((ours, shared)))

    while not decoder.add(encoder.produce(stretch)):
        assert decoder.received < _SYMBOLS_MAX, "the stream does not end"

    assert sorted(decoder.missing.tolist()) == sorted(theirs.tolist())
    assert sorted(decoder.extra.tolist()) == sorted(ours.tolist())
    assert decoder.is_complete


def test_a_thousand_differences_take_about_1_4_symbols_each() -> None:
    generator = np.random.default_rng(11)
    shared, theirs = _random_ids(generator, 20_000), _random_ids(generator, 1_000)
    encoder, decoder = Encoder(np.concatenate((shared, theirs))), Decoder(shared)

    while not decoder.add(encoder.produce(20)):
        pass

    assert 1_200 <= decoder.received <= 1_600


def test_equal_sets_need_one_symbol() -> None:
    ids = _random_ids(np.random.default_rng(1), 1_000)
    decoder = Decoder(ids)

    assert decoder.add(Encoder(ids[::-1]).produce(1))
    assert decoder.received == 1


def test_nothing_is_known_before_a_symbol_has_come() -> None:
    ids = _random_ids(np.random.default_rng(1), 10)
    decoder = Decoder(ids)

    assert not decoder.is_complete
    assert not decoder.add(Encoder(ids).produce(0))


def test_symbols_out_of_order_are_refused() -> None:
    encoder, decoder = Encoder(_random_ids(np.random.default_rng(1), 10)), Decoder(np.empty(0, np.uint64))
    encoder.produce(3)

    with pytest.raises(UsageError, match="symbol 0 is next, not 3"):
        decoder.add(encoder.produce(3))


def test_the_own_stream_must_be_at_its_beginning() -> None:
    ids = _random_ids(np.random.default_rng(1), 10)
    encoder = Encoder(ids)
    assert Decoder(ids, encoder=encoder).add(Encoder(ids).produce(4))

    with pytest.raises(UsageError, match="from its beginning"):
        Decoder(ids, encoder=encoder)


def test_an_id_that_comes_back_is_an_inconsistency() -> None:
    """Symbol 0 holds an id, symbol 1 the same one though it has no place there, or lacks it where it must be."""
    one = Encoder(np.array([5], np.uint64)).produce(64)
    sums, checks = one.sums.copy(), one.checks.copy()
    present = np.flatnonzero(sums)
    sums[present[1:]], checks[present[1:]] = 0, 0  # taking the id out of symbol 0 puts it into all the others

    with pytest.raises(InconsistentSymbols):
        Decoder(np.empty(0, np.uint64)).add(Symbols(0, sums, checks))


def test_symbols_that_give_one_id_at_a_time_cost_no_more_than_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at all symbols once for each id would be quadratic work, in one step of whoever receives them."""
    looked: list[int] = []
    single = decode._single

    def counted(sums: Ids, checks: Checks, places: NDArray[np.int64]) -> Ids:
        looked.append(len(places))
        return single(sums, checks, places)

    monkeypatch.setattr(decode, "_single", counted)
    made = chain(1_024)
    symbols, links = made.symbols, made.links
    assert links > 100
    decoder = Decoder(np.empty(0, np.uint64))
    assert not decoder.add(symbols)
    assert len(decoder.missing) >= links
    assert len(looked) > links, "they come apart one by one"
    assert sum(looked) < 60 * len(symbols)


def test_symbols_that_need_too_many_waves_are_refused() -> None:
    made = chain(2_048)
    symbols, links = made.symbols, made.links
    assert links > decode.WAVES_MAX
    with pytest.raises(InconsistentSymbols, match="waves"):
        Decoder(np.empty(0, np.uint64)).add(symbols)


def test_symbols_of_sets_need_few_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "WAVES_MAX", decode.WAVES_MAX // 4)
    encoder, decoder = Encoder(_random_ids(np.random.default_rng(3), 3_000)), Decoder(np.empty(0, np.uint64))
    while not decoder.add(encoder.produce(50)):
        pass
    again = Decoder(np.empty(0, np.uint64))
    assert again.add(Encoder(decoder.missing).produce(decoder.received)), "with hardly enough symbols, all at once"


@given(st.binary(max_size=600), st.lists(st.integers(1, 2**64 - 1), max_size=20, unique=True))
def test_invented_symbols_end(raw: bytes, own: list[int]) -> None:
    """Random bytes are refused or lead nowhere; they never find more ids than there are symbols, and always end."""
    symbols = Symbols.decode(0, raw[: len(raw) // 10 * 10])
    decoder = Decoder(np.array(own, np.uint64))

    with suppress(InconsistentSymbols):
        decoder.add(symbols)

    assert len(decoder.missing) + len(decoder.extra) <= len(symbols)
