"""Goals: which texts are goals, and what each asks of another side."""

from typing import Any

import pytest

from bobbin.tangles.canonical import SAFE_INTEGER_MAX, Json
from bobbin.tangles.goals import Goal, GoalKind, MalformedGoal, parse_goal, wish
from bobbin.tangles.message import MessageId
from bobbin.tangles.ranges import WantAll, WantFrom, WantNewest
from bobbin.tangles.tangle import Tangle
from tests.support.tangle_messages import Author
from tests.vectors.load import load


@pytest.mark.parametrize("row", load("pzp/goals/parse.json")["rows"], ids=lambda row: repr(row["dsl"]))
def test_the_goals_of_a_real_peer(row: dict[str, Any]) -> None:
    if not row["ok"]:
        with pytest.raises(MalformedGoal):
            parse_goal(row["dsl"])
        return
    goal = parse_goal(row["dsl"])
    assert (goal.kind, goal.text) == (row["type"], row["serialized"])
    assert goal.count == (row["count"] if row["type"] == "newest" else 0)


@pytest.mark.parametrize(
    "text", ["newest-", "newest", "newest-٣", "newest--1", "all\n", "newest-1\n", "Set", "newest-+1"]
)
def test_other_texts_are_none(text: str) -> None:
    with pytest.raises(MalformedGoal, match="a goal is all, none, set, dict or newest-N"):
        parse_goal(text)


def test_a_number_without_end_is_bounded() -> None:
    assert parse_goal("newest-" + "9" * 100_000).count == SAFE_INTEGER_MAX
    assert parse_goal("newest-0") == Goal(GoalKind.NEWEST, 0)


def no_data(_: MessageId) -> Json:
    raise AssertionError("no data is needed")


def test_wishes() -> None:
    tangle = Tangle("r")
    assert wish(None, tangle, no_data) is None
    assert wish(parse_goal("none"), tangle, no_data) is None
    assert wish(parse_goal("all"), tangle, no_data) == WantAll()
    assert wish(parse_goal("newest-5"), tangle, no_data) == WantNewest(5)
    assert wish(parse_goal("set"), tangle, no_data) == WantFrom(0)


def test_a_set_is_wanted_from_a_span_below_what_it_needs() -> None:
    alice = Author("alice")
    moot = alice.moot("set_v1__x")
    messages = [moot]
    for number in range(6):
        before: list[Json] = [messages[-1].id] if number else []
        data: dict[str, Json] = {"add": [str(number)], "del": [], "supersedes": before}
        messages.append(alice.post(moot.id, data, "set_v1__x"))
    tangle = Tangle(moot.id, messages)
    by_id = {message.id: message for message in messages}
    for span, expected in [(2, 4), (6, 0), (32, 0)]:
        assert wish(parse_goal("set"), tangle, lambda id: by_id[id].data, span=span) == WantFrom(expected)


def test_of_a_set_with_nothing_but_its_root_everything_is_wanted_in_the_modern_mode_alone() -> None:
    moot = Author("alice").moot("set_v1__x")
    tangle = Tangle(moot.id, [moot])
    assert wish(parse_goal("set"), tangle, no_data) == WantFrom(None)
    assert wish(parse_goal("dict"), tangle, no_data, modern=True) == WantFrom(0)


def test_which_goals_depend_on_what_messages_say() -> None:
    assert [goal for goal in ("all", "none", "set", "dict", "newest-3") if parse_goal(goal).needs_structure] == [
        "set",
        "dict",
    ]
