"""The books of a round: iterations, bytes, and one fate for every record."""

import pytest

from bobbin.interlace.events import Fate, Settled
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Delivered, Transfer, Unavailable
from bobbin.interlace.reasons import LimitReached, Reason
from bobbin.interlace.rounds import Ending, Round
from bobbin.interlace.transfer import TransferPhase


def _phase(books: Round, *answers: Delivered | Unavailable, fate: Fate = Fate.STORED) -> TransferPhase:
    """A phase in which these answers came, to a list of three."""
    phase = TransferPhase(("P.a.H3", "P.b.H3", "P.c.H3"), (), books.account)
    phase.take(Transfer(responses=answers, last=True), Limits())
    phase.hand_over()
    phase.settle(
        tuple(Settled(record=one.record, fate=fate, reason="why") for one in answers if isinstance(one, Delivered))
    )
    return phase


def test_iterations_are_counted_up_to_the_limit() -> None:
    """IL-281, IL-037."""
    books, limits = Round(), Limits(max_loop_iterations=2)
    books.count_iteration(limits)
    books.count_iteration(limits)
    with pytest.raises(LimitReached) as reached:
        books.count_iteration(limits)
    assert (reached.value.reason, reached.value.limit) == (Reason.LOOP_LIMIT, "max_loop_iterations")
    assert books.iterations == 2
    books.check(limits)


def test_a_record_has_its_last_fate() -> None:
    """IL-033, IL-238: rejected first, then not available, then received."""
    books = Round()
    wrong = Delivered(record="P.a.H3", raw=b"12345")
    books.enter(_phase(books, wrong, fate=Fate.REJECTED))
    assert books.result(None, None, cursor_updated=False).rejected == {"P.a.H3": "why"}
    books.check(Limits())
    books.enter(_phase(books, Unavailable(record="P.a.H3")))
    result = books.result(None, None, cursor_updated=False)
    assert not result.rejected
    assert result.not_available == {"P.a.H3"}
    books.check(Limits())
    books.enter(_phase(books, Delivered(record="P.a.H3", raw=b"123")))
    result = books.result(None, None, cursor_updated=True)
    assert result.received == {"P.a.H3"}
    assert not result.not_available
    assert result.bytes_received == 8
    assert result.cursor_updated
    books.check(Limits())


def test_what_was_received_stays_received() -> None:
    """IL-033, IL-238: a record that came, left, and was asked for again in vain is still one that came."""
    books = Round()
    books.enter(_phase(books, Delivered(record="P.a.H3", raw=b"1")))
    books.enter(_phase(books, Delivered(record="P.a.H3", raw=b"2"), fate=Fate.REJECTED))
    books.enter(_phase(books, Unavailable(record="P.a.H3")))
    result = books.result(None, None, cursor_updated=False)
    assert result.received == {"P.a.H3"}
    assert not result.rejected
    assert not result.not_available
    books.check(Limits())


def test_without_an_ending_it_is_a_fixed_point() -> None:
    """IL-203, ILC-126: what is deferred counts only where the round was broken off."""
    books = Round()
    books.enter(_phase(books, Delivered(record="P.a.H3", raw=b"1")))
    result = books.result(None, None, cursor_updated=False)
    assert (result.fixed_point, result.reason, result.limit, result.deferred) == (True, None, None, frozenset())
    ending = Ending(reason=Reason.TRANSFER_LIMIT, detail="too much", limit="max_total_transferred_bytes")
    broken = books.result(None, ending, cursor_updated=False)
    assert not broken.fixed_point
    assert (broken.reason, broken.detail, broken.limit) == (ending.reason, ending.detail, ending.limit)
    assert broken.deferred == {"P.b.H3", "P.c.H3"}
    assert broken.received == {"P.a.H3"}


def test_entering_twice_changes_nothing() -> None:
    """A phase that is broken off is entered when it breaks and when its last bytes are settled."""
    books = Round()
    phase = _phase(books, Delivered(record="P.a.H3", raw=b"1"), Unavailable(record="P.b.H3"))
    books.enter(phase)
    once = books.result(None, None, cursor_updated=False)
    books.enter(phase)
    assert books.result(None, None, cursor_updated=False) == once


def test_without_an_agreement_there_is_no_name() -> None:
    result = Round().result(None, None, cursor_updated=False)
    assert (result.link, result.plan, result.peer) == (None, None, None)


def test_how_each_advertise_phase_went_is_in_the_result() -> None:
    books = Round()
    books.note_reconciled("sketch", None)
    books.note_reconciled(None, None)
    books.note_reconciled("partitions", "symbols of no use")
    result = books.result(None, None, cursor_updated=False)
    assert result.strategies == ("sketch", "partitions")
    assert result.fallbacks == ("symbols of no use",)
