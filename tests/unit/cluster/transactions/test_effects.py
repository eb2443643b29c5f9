"""What a coordinator wants comes in the order in which it is to be done."""

from typing import get_args

from bobbin.cluster.transactions.coordinator import Coordinator
from bobbin.cluster.transactions.effects import CoordinatorEffect, End, Mistake, Send, WakeAt, Write
from bobbin.cluster.transactions.messages import No, TxPrepareResponse
from bobbin.cluster.transactions.recovery import TxRecoveryState
from bobbin.cluster.transactions.stats import TxStats
from tests.unit.cluster.transactions.driven import DEFAULT, HOME, ONE, X, delta_of, parts


def test_writes_come_before_what_is_said_and_that_before_what_is_answered() -> None:
    state = TxRecoveryState()
    coordinator = Coordinator(HOME, DEFAULT, TxStats(), state, delta_of=delta_of)
    effects = coordinator.begin(X, parts(X), 5_000, 1, now_ms=0, at_ms=0)
    assert [type(effect) for effect in effects] == [Write, WakeAt]
    first = effects[0]
    assert isinstance(first, Write)
    state.apply(first.entries)
    effects = coordinator.written(first.ticket, now_ms=1)
    assert [type(effect) for effect in effects] == [Send, Send, WakeAt]
    effects = coordinator.vote(TxPrepareResponse(X, ONE, No("held")), now_ms=2)
    assert [type(effect) for effect in effects] == [Write, Send, End, WakeAt]


def test_a_wake_is_asked_for_once() -> None:
    coordinator = Coordinator(HOME, DEFAULT, TxStats(), TxRecoveryState(), delta_of=delta_of)
    assert (coordinator.tick(now_ms=0), coordinator.due_ms) == ([], None)
    effects = coordinator.begin(X, parts(X), 5_000, 1, now_ms=0, at_ms=0)
    assert effects[-1] == WakeAt(5_000)
    assert coordinator.due_ms == 5_000
    assert coordinator.tick(now_ms=1) == []


def test_all_kinds_and_mistakes_have_their_names() -> None:
    assert [kind.__name__ for kind in get_args(CoordinatorEffect)] == [
        "Write",
        "Send",
        "End",
        "Refused",
        "Alarm",
        "WakeAt",
    ]
    assert len({mistake.value for mistake in Mistake}) == 6
