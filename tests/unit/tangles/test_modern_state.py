"""Runs of the modern mode: who wants what, and what always holds."""

import pytest

from bobbin.tangles.modern_frames import Form, Part
from bobbin.tangles.modern_spans import Span
from bobbin.tangles.modern_state import ModernRun, Reply, Step
from bobbin.tangles.session_effects import Role


def test_each_side_knows_its_own_wants() -> None:
    span = Span(0, 3, opener_wants=True, answerer_wants=False)
    opener, answerer = ModernRun(Role.OPENER, 1, bytes(8)), ModernRun(Role.ANSWERER, 1, bytes(8))
    assert (opener.wants_own(span), opener.wants_remote(span)) == (True, False)
    assert (answerer.wants_own(span), answerer.wants_remote(span)) == (False, True)


def test_what_a_peer_does_not_want_is_known_to_who_resolves() -> None:
    run = ModernRun(Role.ANSWERER, 1, bytes(8))
    run.spans = (
        Span(0, 3, opener_wants=False, answerer_wants=True),
        Span(4, 4, opener_wants=True, answerer_wants=True),
    )
    assert [run.is_told(number) for number in (0, 1)] == [False, True]
    run.resolved.add(0)
    assert run.is_told(0)


def test_an_empty_reply_says_nothing() -> None:
    assert Reply().is_empty
    assert not Reply(parts=[Part(0, Form.LIST)]).is_empty
    assert not Reply(wants=[7]).is_empty
    assert not Reply(lacking={"m": None}).is_empty


def test_invariants_are_noticed() -> None:
    run = ModernRun(Role.OPENER, 1, bytes(8))
    run.check()
    run.step = Step.PARCELS
    with pytest.raises(AssertionError):
        run.check()
    run.step = Step.WAITING
    run.uncommitted.add(1)
    with pytest.raises(AssertionError):
        run.check()
    answerer = ModernRun(Role.ANSWERER, 1, bytes(8))
    with pytest.raises(AssertionError):
        answerer.check()
    answerer.step = Step.WAITING
    answerer.resolved.add(0)
    with pytest.raises(AssertionError):
        answerer.check()
    answerer.resolved.clear()
    answerer.spans = (
        Span(4, 9, opener_wants=True, answerer_wants=True),
        Span(3, 3, opener_wants=True, answerer_wants=True),
    )
    with pytest.raises(AssertionError):
        answerer.check()
