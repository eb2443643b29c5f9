"""A fact in the wrong phase is out of phase; a fact of no phase is malformed."""

import pytest

from bobbin.errors import PeerError
from bobbin.interlace.reasons import Reason
from bobbin.wire.predicates import PHASES, refuse


@pytest.mark.parametrize(
    ("predicate", "phase", "reason"),
    [
        ("KnotProof", "hello", Reason.OUT_OF_PHASE),
        ("HelloTAI", "setup", Reason.OUT_OF_PHASE),
        ("HelloTAI", "hello", Reason.MALFORMED_BLOCK),
        ("HelloNew", "hello", Reason.MALFORMED_BLOCK),
        ("NotAvailable", "advertise", Reason.OUT_OF_PHASE),
        ("ExchangePlan", "setup", Reason.OUT_OF_PHASE),
        ("MayRequest", "transfer", Reason.OUT_OF_PHASE),
        ("MayRequest", "request", Reason.MALFORMED_BLOCK),
        ("Have", "advertise", Reason.MALFORMED_BLOCK),
        ("Nonsense", "proof", Reason.MALFORMED_BLOCK),
    ],
)
def test_what_a_fact_is_refused_as(predicate: str, phase: str, reason: Reason) -> None:
    """ILC-095."""
    with pytest.raises(PeerError) as refused:
        refuse(7, predicate, ("x",), phase)
    assert refused.value.code == reason


def test_a_tick_stands_in_the_phases_of_the_loop_only() -> None:
    """ILC-142."""
    assert {phase for phase, known in PHASES.items() if "TickReady" in known} == {"advertise", "request", "transfer"}
