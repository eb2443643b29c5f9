"""The books of a link, kept by watching a real machine."""

from bobbin.interlace.config import Open
from bobbin.interlace.effects import FixedPoint, Notify
from bobbin.interlace.events import Fate, LinkClosed, Persisted, PersistFailed, Received, Settled
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Delivered, Transfer, Unavailable
from bobbin.interlace.result import Result
from bobbin.interlace.state import Phase
from bobbin.runtime.link_books import LinkBooks
from bobbin.runtime.metrics import Meter
from bobbin.runtime.pair import Pair, Side
from bobbin.simulator.holdings import MemoryHoldings
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import SetClock, Watched, config, record, records


def _meet(here: MemoryHoldings, there: MemoryHoldings) -> tuple[LinkBooks, Pair, Meter]:
    ours = InterlaceMachine(config(EVERYTHING, lifecycle=Open()), here)
    theirs = InterlaceMachine(config(EVERYTHING, lifecycle=Open(), initiator=False), there)
    meter = Meter()
    books = LinkBooks(ours, meter, here.absent)
    pair = Pair(Side(ours, here, [books.observe]), Side(theirs, there), clock=SetClock())
    pair.start()
    return books, pair, meter


def test_what_moved_is_counted_and_the_fixed_point_is_dated() -> None:
    books, pair, meter = _meet(Watched(records(3)), Watched(records(5, first=10)))
    pair.settle()
    assert (books.records_in, books.records_out) == (5, 3)
    assert books.phase is Phase.IDLE
    assert books.rounds == 1
    assert books.fixed_point is not None
    assert books.plan is not None
    assert (books.offered, books.claimed) == (8, 8)
    assert (books.missing, books.missing_why) == (0, {})
    assert books.waits == "at a fixed point, for anything new"
    text = meter.expose().decode()
    assert 'bobbin_records_total{direction="in"} 5.0' in text
    assert 'bobbin_records_total{direction="out"} 3.0' in text
    assert "bobbin_fixed_points_total 1.0" in text


def test_a_round_that_moves_nothing_does_not_end_the_stillness() -> None:
    books, pair, _ = _meet(Watched(records(1)), Watched())
    pair.settle()
    done = FixedPoint(Result(link=None, plan=None, peer=None))
    first = books.still_since = books.fixed_point = "1640995200:000000000"
    books.observe(Persisted(()), (Notify(done),))
    assert books.rounds == 2
    assert books.fixed_point != first
    assert books.still_since == first
    books.observe(Persisted((Settled(record="a", fate=Fate.STORED),)), (Notify(done),))
    assert books.still_since == books.fixed_point != first


def test_every_phase_says_what_it_waits_for() -> None:
    books, pair, _ = _meet(Watched(records(1)), Watched())
    seen = {books.waits}
    inbound, outbound = pair._to_left, pair._to_right
    while pair.left.turn(inbound, outbound, peer_closed=False, now=SetClock()()) or pair.right.turn(
        outbound, inbound, peer_closed=False, now=SetClock()()
    ):
        seen.add(books.waits)
    assert "for the peer's policy" in seen
    assert "for the peer's hello" in seen
    assert "for the peer's advertisements" in seen


def test_what_did_not_come_is_missing_with_its_reason_until_it_is_here() -> None:
    holdings = Watched()
    machine = InterlaceMachine(config(EVERYTHING), holdings)
    meter = Meter()
    here: set[str] = set()
    books = LinkBooks(machine, meter, lambda some: frozenset(some) - here)
    names = [record(number).hash for number in range(3)]
    books.observe(Received(Transfer(responses=(Unavailable(record=names[0]),))), ())
    books.observe(
        Persisted(
            (
                Settled(record=names[1], fate=Fate.REJECTED, reason="hash-mismatch"),
                Settled(record=names[2], fate=Fate.REFUSED),
            )
        ),
        (),
    )
    assert books.missing == 3
    assert books.missing_why == {"not-available": 1, "hash-mismatch": 1, "refused": 1}
    assert 'bobbin_rejected_total{reason="hash-mismatch"} 1.0' in meter.expose().decode()
    here.add(names[1])
    books._forget(books._failed.keys() - books._absent(books._failed.keys()))
    books.observe(Received(Transfer(responses=(Delivered(record="x", raw=b""),))), ())
    assert books.missing_why == {"not-available": 1, "refused": 1}


def test_a_store_that_fails_is_remembered() -> None:
    books, pair, _ = _meet(Watched(), Watched())
    pair.settle()
    books.observe(PersistFailed("the disk is full"), ())
    assert books.store_failure == PersistFailed("the disk is full", may_pass=False)


def test_a_link_that_is_lost_leaves_its_books_as_they_were() -> None:
    books, pair, _ = _meet(Watched(records(2)), Watched())
    pair.settle()
    pair.left.give(LinkClosed())
    pair.settle()
    assert books.phase is Phase.ENDED
    assert books.records_out == 2
