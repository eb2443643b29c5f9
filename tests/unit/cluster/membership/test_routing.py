"""Where a vector belongs: near, else by hash, else here, and the same everywhere."""

import pytest

from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.membership.messages import Health
from bobbin.cluster.membership.routing import route, score
from bobbin.cluster.names import NodeId

A, B, C = (NodeId(name) for name in "abc")

EAST, NORTH = Embedding.dense((1.0, 0.0)), Embedding.dense((0.0, 1.0))
HALF = Embedding.dense((1.0, 1.5))
"""Near to the east: a cosine of 0.55."""


@pytest.mark.parametrize(
    ("health", "similarity", "expected"),
    [
        (Health.HEALTHY, 1.0, 1.0),
        (Health.HEALTHY, 0.0, 0.7),
        (Health.HEALTHY, -1.0, 0.4),
        (Health.DEGRADED, 1.0, 0.65),
        (Health.FAILED, 1.0, 0.3),
        (Health.UNKNOWN, 0.5, 0.15),
    ],
)
def test_health_counts_for_seven_tenths(health: Health, similarity: float, expected: float) -> None:
    assert score(health, similarity) == pytest.approx(expected)


def test_the_nearest_takes_it_if_it_is_near() -> None:
    assert route(EAST, {A: NORTH, B: EAST, C: HALF}, otherwise=A) == B
    assert route(EAST, {B: EAST, A: EAST}, otherwise=C) == A, "of equals the first by name"


def test_a_cosine_of_exactly_one_half_is_near() -> None:
    ahead, aside = Embedding.dense((1.0, 0.0, 0.0, 0.0)), Embedding.dense((1.0, 1.0, 1.0, 1.0))
    assert cosine(ahead, aside) == 0.5
    away = Embedding.dense((-1.0, 0.0, 0.0, 0.0))
    for name in "abcdefgh":
        # By the hash it would not always be the same one.
        assert route(ahead, {NodeId(name): aside, NodeId(f"{name}0"): away, NodeId("0"): away}, otherwise=B) == name


def test_what_is_near_to_nobody_goes_by_its_hash_the_same_on_every_node() -> None:
    healthy: dict[NodeId, Embedding | None] = dict.fromkeys((C, A, B), NORTH)
    wanted = [Embedding.dense((1.0, -0.1 * number)) for number in range(30)]
    there = [route(one, healthy, otherwise=A) for one in wanted]
    assert there == [route(one, dict(reversed(healthy.items())), otherwise=B) for one in wanted]
    # Fixed for ever: another hash would send everything elsewhere.
    assert there[:8] == [B, C, B, A, B, A, C, A]


def test_similarity_may_be_left_out() -> None:
    healthy: dict[NodeId, Embedding | None] = {A: EAST, B: NORTH, C: None}
    wanted = [Embedding.dense((1.0, 0.01 * number)) for number in range(30)]
    assert {route(one, healthy, otherwise=A) for one in wanted} == {A}
    assert {route(one, healthy, otherwise=A, by_similarity=False) for one in wanted} == {A, B, C}


def test_without_anybody_it_stays_here() -> None:
    assert route(EAST, {}, otherwise=B) == B
