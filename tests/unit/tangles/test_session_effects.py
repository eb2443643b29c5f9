"""Effects: the unions are closed over what the module defines, in the order in which a driver performs them."""

from typing import get_args

import pytest
from msgspec import Struct

from bobbin.tangles import session_effects
from bobbin.tangles.session_effects import Commit, Effect, Finished, Notice, Notify, Role, Send
from tests.tangle_cases import ACCOUNT, AUTHOR
from tests.tangle_pairs import modern_pair, store_of, sync


def test_effects_are_listed_in_the_order_of_a_step() -> None:
    """Commit, send, notify: nothing is told before it is durable."""
    assert get_args(Effect) == (Commit, Send, Notify)


def test_everything_that_is_defined_is_an_effect_or_a_notice() -> None:
    defined = {
        value
        for value in vars(session_effects).values()
        if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == session_effects.__name__
    }
    assert set(get_args(Effect)) | set(get_args(Notice)) == defined


def test_a_commit_goes_by_the_rules_of_interop_unless_it_says_otherwise() -> None:
    commit = Commit(token=1, tangle="t", messages=())
    assert not commit.modern
    assert commit.newest is None


def test_a_run_of_nine_phases_claims_no_agreement() -> None:
    finished = Finished(tangle="t", role=Role.OPENER, sent=0, added=(), refused=())
    assert finished.agreed is None


# ---- how a run of the modern mode is said to have ended --------------------------------------------------------------


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("goals", [("all", None), ("all", "none"), ("newest-9", "all"), (None, "all")])
def test_that_both_have_the_same_is_said_though_it_need_not_be(
    opener: int, goals: tuple[str | None, str | None]
) -> None:
    messages = AUTHOR.line(4)
    tangle = messages[0].id
    first, second = ({} if goal is None else {tangle: goal} for goal in goals)
    pair = modern_pair(store_of([*ACCOUNT, *messages], first), store_of([*ACCOUNT, *messages], second))
    sync(pair, tangle, opener)
    assert [[finished.agreed for finished in side.finished] for side in pair.sides] == [[True], [True]]


def test_a_side_that_wants_less_may_differ_and_nobody_has_the_same_of_nothing() -> None:
    messages = AUTHOR.line(4)
    tangle = messages[0].id
    pair = modern_pair(store_of([*ACCOUNT, *messages], {tangle: "all"}), store_of([*ACCOUNT, *messages[:3]], {}))
    sync(pair, tangle)
    assert [[finished.agreed for finished in side.finished] for side in pair.sides] == [[None], [None]]
    pair = modern_pair(store_of([], {tangle: "all"}), store_of([], {}))
    sync(pair, tangle)
    assert [[finished.agreed for finished in side.finished] for side in pair.sides] == [[None], [None]]


@pytest.mark.parametrize("opener", [0, 1])
def test_both_sides_count_the_same_messages(opener: int) -> None:
    """An account that the reader knows from elsewhere comes along: nobody could tell that it is there."""
    messages = AUTHOR.line(4)
    tangle = messages[0].id
    pair = modern_pair(store_of(ACCOUNT, {tangle: "all"}), store_of([*ACCOUNT, *messages], {tangle: "all"}))
    sync(pair, tangle, opener)
    reader, writer = (side.finished[-1] for side in pair.sides)
    assert (reader.received, len(reader.added)) == (writer.sent, 5) == (6, 5)
    assert (writer.received, reader.sent) == (0, 0)
