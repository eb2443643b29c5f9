"""Chains of symbols come apart one id at a time, also where a set is in them."""

import numpy as np
import pytest

from bobbin.reconcile import decode
from bobbin.reconcile.decode import Decoder, InconsistentSymbols
from bobbin.reconcile.encode import Encoder
from bobbin.reconcile.short_ids import Ids
from bobbin.reconcile.symbols import Symbols
from bobbin.simulator.chained_symbols import COUNT_MIN, chain, chained

_NOTHING: Ids = np.empty(0, np.uint64)


def test_a_chain_gives_one_id_for_each_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    made = chain(256)
    assert made.links > 30
    decoder = Decoder(_NOTHING)
    assert not decoder.add(made.symbols)
    assert len(decoder.missing) >= made.links
    monkeypatch.setattr(decode, "WAVES_MAX", made.links)
    with pytest.raises(InconsistentSymbols, match="waves"):
        Decoder(_NOTHING).add(made.symbols)


def test_a_set_hides_a_chain_and_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.random.default_rng(3).integers(1, 1 << 64, 40, dtype=np.uint64)
    told = Encoder(ids).produce(300)
    twisted = chained(told.encode())
    assert len(twisted) == len(told.encode())
    links = chain(256).links
    monkeypatch.setattr(decode, "WAVES_MAX", links)
    with pytest.raises(InconsistentSymbols, match="waves"):
        Decoder(ids).add(Symbols.decode(0, twisted))
    few = Encoder(ids).produce(COUNT_MIN - 1).encode()
    assert chained(few) == few


def test_short_chains_can_be_made() -> None:
    assert [chain(count).links >= 1 for count in (16, 32, 64, 128)] == [True] * 4
