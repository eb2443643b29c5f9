"""Symbols: as many as were estimated, more on demand, and never without end."""

import numpy as np
import pytest

from bobbin.interlace.choice import symbols_for
from bobbin.interlace.reconciliation import More, Ranged, Sketched
from bobbin.interlace.sketching import SketchFinding, SketchTelling
from bobbin.interlace.ways import Unusable
from bobbin.reconcile import Encoder, MalformedSymbols, Symbols
from bobbin.reconcile.symbols import SYMBOL_BYTES
from tests.unit.interlace.test_ways import keyed


def test_the_stream_goes_on_where_it_was() -> None:
    whole = Encoder(keyed(range(90)).ids).produce(60)
    telling = SketchTelling(keyed(range(90)), 10, 1_000)
    first = telling.tell()
    rest = telling.tell_more(More(symbols=60 - symbols_for(10)))
    assert (first.first, rest.first) == (0, symbols_for(10))
    assert first.raw + rest.raw == whole.encode()


def test_no_more_symbols_are_told_than_the_bound_says() -> None:
    telling = SketchTelling(keyed(range(90)), 10_000, 50)
    assert len(telling.tell().raw) == 50 * SYMBOL_BYTES
    with pytest.raises(Unusable, match="50"):
        telling.tell_more(More(symbols=1))


def test_too_small_an_estimate_costs_turns_not_the_answer() -> None:
    ours, theirs = keyed(range(40)), keyed(range(200, 260))
    telling, finding = SketchTelling(theirs, 1, 1_000), SketchFinding(ours, symbols_max=1_000, turns_max=40)
    found, turns = finding.hear(telling.tell()), 0
    while found is None:
        found, turns = finding.hear(telling.tell_more(finding.ask())), turns + 1
    assert turns > 2
    assert sorted(found.missing) == sorted(theirs.ids)
    assert sorted(found.extra) == sorted(ours.ids)


def test_turns_are_bounded() -> None:
    finding = SketchFinding(keyed(range(40)), symbols_max=1_000, turns_max=2)
    telling = SketchTelling(keyed(range(300, 600)), 1, 100_000)
    assert finding.hear(telling.tell()) is None
    for _ in range(2):
        assert finding.hear(telling.tell_more(finding.ask())) is None
    with pytest.raises(Unusable, match="not enough"):
        finding.ask()


def test_symbols_are_bounded() -> None:
    finding = SketchFinding(keyed(range(40)), symbols_max=20, turns_max=9)
    telling = SketchTelling(keyed(range(300, 600)), 1, 100_000)
    assert finding.hear(telling.tell()) is None
    with pytest.raises(Unusable, match="not enough"):
        finding.ask()
    with pytest.raises(Unusable, match="up to 20"):
        finding.hear(telling.tell_more(More(symbols=16)))


def test_no_more_symbols_are_taken_than_were_asked_for() -> None:
    finding = SketchFinding(keyed(range(40)), symbols_max=100_000, turns_max=9)
    telling = SketchTelling(keyed(range(300, 600)), 1, 100_000)
    assert finding.hear(telling.tell()) is None
    asked = finding.ask().symbols
    with pytest.raises(Unusable, match=f"{asked} were asked for"):
        finding.hear(telling.tell_more(More(symbols=asked + 1)))


def test_symbols_that_no_set_has_are_given_up_on() -> None:
    finding = SketchFinding(keyed(range(40)), symbols_max=10_000, turns_max=9)
    lies = np.random.default_rng(3)

    def go_on() -> None:
        for turn in range(12):
            raw = lies.bytes(16 * SYMBOL_BYTES)
            assert finding.hear(Sketched(first=16 * turn, raw=raw)) is None
            finding.ask()

    with pytest.raises(Unusable):
        go_on()


def test_one_inconsistency_is_forgiven_and_a_second_is_not() -> None:
    # Symbols of an id that this side has: no difference is an id of both.
    own = keyed(range(5))
    twice = Encoder(own.ids).produce(8).sums + Encoder(own.ids[:1]).produce(8).sums
    checks = Encoder(own.ids).produce(8).checks + Encoder(own.ids[:1]).produce(8).checks
    finding = SketchFinding(own, symbols_max=100, turns_max=9)
    assert finding.hear(Sketched(first=0, raw=Symbols(0, twice[:4], checks[:4]).encode())) is None
    with pytest.raises(Unusable):
        finding.hear(Sketched(first=4, raw=Symbols(4, twice[4:], checks[4:]).encode()))


@pytest.mark.parametrize(
    "part", [Sketched(first=1, raw=bytes(10)), Ranged(moment=0, ids=b""), Sketched(first=0, raw=b"")]
)
def test_what_does_not_follow_is_of_no_use(part: Sketched | Ranged) -> None:
    with pytest.raises(Unusable):
        SketchFinding(keyed(range(4)), symbols_max=100, turns_max=1).hear(part)


def test_bytes_that_are_no_symbols_are_an_error() -> None:
    with pytest.raises(MalformedSymbols):
        SketchFinding(keyed(range(4)), symbols_max=100, turns_max=1).hear(Sketched(first=0, raw=b"123"))
