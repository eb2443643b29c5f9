import msgspec
import pytest

from bobbin.errors import UsageError
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.vocabulary import RUNTIME_ARITY
from bobbin.records.ids import Verifier
from tests.policy_worlds import ALICE, BOB

_START = "1640995200:000000000"
_TICK = "1640995210:000000000"


def test_every_fact_has_its_predicate_and_arity() -> None:
    facts = RuntimeFacts(
        here=ALICE,
        peer=BOB,
        transport="tcp:127.0.0.1:4790",
        transport_encrypted=True,
        start_tai=_START,
        tick_tai=_TICK,
        clock_skew_seconds=3,
    ).tuples()
    assert facts == {
        "Here": {(ALICE,)},
        "Peer": {(BOB,)},
        "Transport": {("tcp:127.0.0.1:4790",)},
        "TransportEncrypted": {()},
        "StartTAI": {(_START,)},
        "TickTAI": {(_TICK,)},
        "ClockSkewSeconds": {("3",)},
    }
    assert {name: len(next(iter(tuples))) for name, tuples in facts.items()} == dict(RUNTIME_ARITY)


def test_what_is_not_proven_has_no_stand_in() -> None:
    assert RuntimeFacts().tuples() == {}


@pytest.mark.parametrize(
    "change",
    [
        {"here": Verifier("V.alice.H3")},
        {"peer": Verifier("source:0")},
        {"start_tai": "1640995200"},
        {"tick_tai": "soon"},
        {"start_tai": _TICK, "tick_tai": _START},
        {"clock_skew_seconds": -1},
        {"clock_skew_seconds": 2**64},
        {"transport": ""},
        {"transport": "tcp:a\nb"},
        {"transport": "unix:/e\u0301"},
        {"transport": "x" * 5000},
    ],
)
def test_a_value_that_exists_is_valid(change: dict[str, str | int]) -> None:
    with pytest.raises(UsageError):
        RuntimeFacts(**change)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        msgspec.structs.replace(RuntimeFacts(), **change)
