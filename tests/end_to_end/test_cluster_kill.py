"""A sample of kills and cuts against three processes under load; ``evidence/cluster_kill.py`` makes them all."""

import asyncio
from itertools import permutations

import pytest

from evidence.cluster_kill import EVERYBODY, FOLLOWER, LEADER, SHAPES, Campaign, campaign, result_of, ways_of
from evidence.cluster_load import Load
from evidence.cluster_nodes import Timeouts
from tests.oracle.linearizability import Kind, Operation

PATIENT = Timeouts(election=(500, 1_000), heartbeat=150, rpc=300)
"""For a machine that has much else to do."""


@pytest.mark.slow
def test_kills_and_cuts_under_load_lose_nothing_and_show_one_order() -> None:
    """CL-057, CL-305: one kill of the leader, of a follower and of all at once, and two cuts."""
    found = asyncio.run(campaign(kills=3, cuts=2, seed=1, timeouts=PATIENT, clients=4))
    # A follower more, where the leader had changed just before it was killed.
    assert (found.kills[LEADER], found.kills[EVERYBODY]) == (1, 1)
    assert found.kills[FOLLOWER] >= 1
    assert len(found.cuts) == 2
    assert len(found.failovers) == 1
    assert found.acknowledged > 0
    assert {"get", "put", "delete", "compare and swap"} <= found.counts.keys()
    assert found.violation == ""
    assert (found.lost, found.invented) == (0, 0)
    assert found.are_roots_equal
    assert found.terms_with_two_leaders == 0
    assert found.ended_alone == 0


# ---- the judge ------------------------------------------------------------------------------------------------------


def _found(*, failovers: list[float], **wrong: int | str | bool) -> Campaign:
    plain: dict[str, object] = {
        "kills": {},
        "cuts": {},
        "counts": {"put": 3},
        "acknowledged": 3,
        "lost": 0,
        "invented": 0,
        "violation": "",
        "are_roots_equal": True,
        "terms_with_two_leaders": 0,
        "ended_alone": 0,
    }
    return Campaign(failovers=failovers, **{**plain, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lost": 1},
        {"invented": 1},
        {"violation": "key"},
        {"are_roots_equal": False},
        {"terms_with_two_leaders": 1},
        {"ended_alone": 1},
    ],
)
def test_whatever_is_wrong_misses_a_bar(wrong: dict[str, int | str | bool]) -> None:
    assert sum(ratio.missed for ratio in result_of(_found(failovers=[0.1], **wrong), Timeouts()).ratios) == 1
    assert not any(ratio.missed for ratio in result_of(_found(failovers=[0.1]), Timeouts()).ratios)


def test_the_time_without_a_leader_is_counted_in_the_least_timeout() -> None:
    (ratio,) = [one for one in result_of(_found(failovers=[0.3, 9, 0.75]), Timeouts()).ratios if one.value]
    assert (ratio.value, ratio.missed) == (5.0, False)
    assert result_of(_found(failovers=[0.76]), Timeouts()).ratios[-1].missed


def test_every_shape_cuts_something_else_and_nothing_beyond_three_nodes() -> None:
    found = {shape: ways_of(shape, "a", ["b", "c"]) for shape in SHAPES}
    assert len(set(found.values())) == len(SHAPES)
    assert all(ways and ways <= set(permutations("abc", 2)) for ways in found.values())
    assert found["leader deaf"] == {("b", "a"), ("c", "a")}
    assert found["leader unheard"] == {("a", "b"), ("a", "c")}


def test_a_refused_write_that_is_read_all_the_same_is_found() -> None:
    """CL-057: what was said to have failed and was done after all is explained by nothing."""
    load = Load([], seed=1)
    load.note(Operation(client="a", key=b"k", kind=Kind.PUT, called=1, returned=2, value=b"1"))
    assert load.violation() is None
    seen = Operation(client="b", key=b"k", kind=Kind.GET, called=5, returned=6, value=b"2")
    load.note(seen)
    assert load.violation() is not None
    # If nobody knows the outcome, it may be so.
    load.note(Operation(client="a", key=b"k", kind=Kind.PUT, called=3, value=b"2"))
    assert load.violation() is None
    assert load.counts == {"put": 1, "get": 1, "unknown": 1}
