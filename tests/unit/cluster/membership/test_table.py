"""The member table: one total order, so that merging is the same in whatever order words come."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bobbin.cluster.membership.messages import GossipNodeState, Health
from bobbin.cluster.membership.table import (
    HIGH_INCARNATION,
    INCARNATION_LEAP_MAX,
    U64_MAX,
    MemberTable,
    is_plausible,
    next_incarnation,
    supersedes,
)
from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError
from tests.unit.cluster.membership.driven import A, B, C, word

# Few values, so that ties of every kind are drawn.
WORDS = st.builds(
    GossipNodeState,
    st.sampled_from([A, B]),
    st.sampled_from(list(Health)),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([A, B, C]),
)
SOME = st.lists(WORDS, max_size=6)


def merged(*parts: list[GossipNodeState]) -> dict[NodeId, GossipNodeState]:
    table = MemberTable()
    for part in parts:
        table.merge(part)
    return table.states


@given(SOME, SOME, SOME)
@settings(deadline=None, max_examples=50)
def test_merging_is_commutative_associative_and_idempotent(
    one: list[GossipNodeState], two: list[GossipNodeState], three: list[GossipNodeState]
) -> None:
    whole = merged(one, two, three)
    assert merged(three, one, two) == whole
    assert merged(one + two + three) == whole
    assert merged(list(merged(one, two).values()), three) == merged(one, list(merged(two, three).values())) == whole
    assert merged(one, two, three, one, three) == whole


@given(WORDS, WORDS)
def test_of_two_different_words_on_one_node_exactly_one_stands(one: GossipNodeState, two: GossipNodeState) -> None:
    other = GossipNodeState(one.node, two.health, two.timestamp, two.incarnation, two.writer)
    assert supersedes(one, other) + supersedes(other, one) == (one != other)


def test_incarnation_decides_then_severity_then_timestamp_then_writer() -> None:
    rising = [
        word(B, Health.FAILED, 1, at=900, by=C),
        word(B, Health.UNKNOWN, 2, at=800, by=C),
        word(B, Health.HEALTHY, 2, at=700, by=C),
        word(B, Health.DEGRADED, 2, at=600, by=C),
        word(B, Health.FAILED, 2, at=1, by=C),
        word(B, Health.FAILED, 2, at=2, by=A),
        word(B, Health.FAILED, 2, at=2, by=B),
    ]
    for place, lower in enumerate(rising):
        assert all(supersedes(higher, lower) for higher in rising[place + 1 :])
        assert not supersedes(lower, lower)


def test_a_later_clock_does_not_undo_a_failure() -> None:
    failed, later = word(B, Health.FAILED, 3, at=5, by=A), word(B, Health.HEALTHY, 3, at=99)
    assert merged([failed], [later]) == merged([later], [failed]) == {B: failed}
    assert merged([failed], [word(B, Health.HEALTHY, 4, at=1)])[B].health is Health.HEALTHY


def test_equal_incarnation_and_timestamp_end_alike_on_both_sides() -> None:
    here, there = word(B, Health.HEALTHY, 1, at=7), word(B, Health.DEGRADED, 1, at=7, by=C)
    assert merged([here], [there]) == merged([there], [here]) == {B: there}


def test_merge_returns_exactly_those_that_changed() -> None:
    table = MemberTable()
    table.merge([word(A, Health.HEALTHY, 2), word(B, Health.HEALTHY, 2)])
    version = table.version
    incoming = [word(A, Health.HEALTHY, 1), word(B, Health.DEGRADED, 2, by=A), word(B, Health.FAILED, 2, by=A)]
    assert table.merge([*incoming, word(C, Health.HEALTHY)]) == [B, C]
    assert table.states[A] == word(A, Health.HEALTHY, 2)
    assert table.version > version
    assert table.merge(incoming) == []


def test_the_clock_follows_the_latest_stamp_and_adds_one() -> None:
    table = MemberTable()
    table.merge([word(A, Health.HEALTHY, at=41), word(B, Health.HEALTHY, at=7)])
    assert table.time == 42
    table.merge([word(A, Health.HEALTHY, at=3)])
    assert table.time == 43, "also for words that change nothing"
    table.merge([])
    assert table.time == 43
    table.write(C, Health.HEALTHY, 1, writer=C)
    assert (table.time, table.states[C].timestamp) == (44, 44)


def test_a_word_of_ones_own_must_stand() -> None:
    table = MemberTable()
    table.merge([word(B, Health.FAILED, 2)])
    with pytest.raises(AssertionError, match="does not supersede"):
        table.write(B, Health.HEALTHY, 2, writer=A)


def test_a_new_member_is_unknown_until_anything_is_heard() -> None:
    table = MemberTable()
    table.introduce(B)
    assert table.states[B] == GossipNodeState(B, Health.UNKNOWN, 0, 0, B)
    assert table.time == 0
    table.merge([word(B, Health.HEALTHY, 1)])
    table.introduce(B)
    assert table.states[B].health is Health.HEALTHY
    table.forget(B)
    assert table.states == {}


def test_the_last_incarnation_has_no_next() -> None:
    assert next_incarnation(U64_MAX - 1) == U64_MAX == 2**64 - 1
    with pytest.raises(UsageError, match="used up"):
        next_incarnation(U64_MAX)


def test_a_few_lies_do_not_use_up_incarnations() -> None:
    assert is_plausible(HIGH_INCARNATION, 1)
    assert not is_plausible(HIGH_INCARNATION + 1, 1)
    assert is_plausible(HIGH_INCARNATION + 1 + INCARNATION_LEAP_MAX, HIGH_INCARNATION + 1)
    assert not is_plausible(HIGH_INCARNATION + 2 + INCARNATION_LEAP_MAX, HIGH_INCARNATION + 1)
