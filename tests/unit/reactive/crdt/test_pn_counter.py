import pytest

from bobbin.errors import UsageError
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.messages import U64_MAX, PeerId

A, B = PeerId(1), PeerId(2)


def test_what_all_peers_did_counts_once_each() -> None:
    """RX-100, RX-136."""
    a = PnCounter()
    a.add(5, A)
    b = a.fork()
    a.add(2, A)
    b.add(-3, B)
    assert a.merge(b)
    assert b.merge(a)
    assert a.value == b.value == 4
    assert not a.merge(b)
    assert a.value == 4


def test_tallies_that_level_out_change_nothing_to_be_seen() -> None:
    """RX-134."""
    a, b = PnCounter(), PnCounter()
    b.add(1, B)
    b.add(-1, B)
    assert not a.merge(b)
    assert a.added == {B: 1}
    assert a.taken == {B: 1}


def test_nothing_added_is_no_change() -> None:
    counter = PnCounter()
    assert not counter.add(0, A)
    assert counter.add(-2, A)
    assert counter.value == -2
    assert counter.added == {}


def test_a_tally_has_an_end() -> None:
    counter = PnCounter({A: U64_MAX})
    with pytest.raises(UsageError, match="peer 1"):
        counter.add(1, A)
    assert counter.value == U64_MAX
