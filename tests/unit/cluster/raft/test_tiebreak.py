from random import Random

import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.raft.tiebreak import TieBreak, centroid
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import RaftCluster

NORTH = Embedding.dense((0.0, 1.0))
EAST = Embedding.dense((1.0, 0.0))
SOUTH = Embedding.dense((0.0, -1.0))
CONFIG = RaftConfig()
OFF = RaftConfig(enable_geometric_tiebreak=False)
LEAST, MOST = 150 * MILLISECOND_NS, 300 * MILLISECOND_NS


def drawn(tiebreak: TieBreak, count: int = 4_000) -> list[int]:
    chance = Random(7)
    return [tiebreak.draw_ns(chance) for _ in range(count)]


def test_timeouts_fill_the_range_evenly() -> None:
    times = drawn(TieBreak(OFF, NORTH, {}))
    assert LEAST <= min(times) < LEAST + MILLISECOND_NS
    assert MOST - MILLISECOND_NS < max(times) <= MOST
    quarters = [sum(1 for time in times if (time - LEAST) * 4 // (MOST - LEAST + 1) == part) for part in range(4)]
    assert all(900 < count < 1_100 for count in quarters)


def test_a_range_of_one_value_is_drawn() -> None:
    config = RaftConfig(election_timeout=(200, 200), enable_geometric_tiebreak=False)
    assert set(drawn(TieBreak(config, None, {}), 10)) == {200 * MILLISECOND_NS}


def test_an_absent_embedding_counts_as_a_half() -> None:
    others = {NodeId("b"): NORTH}
    assert TieBreak(CONFIG, None, others).bias == 0.5
    assert TieBreak(CONFIG, NORTH, {}).bias == 0.5


def test_the_bias_is_the_cosine_to_the_middle_made_positive() -> None:
    alike = TieBreak(CONFIG, NORTH, {NodeId("b"): NORTH})
    assert alike.bias == pytest.approx(1.0)
    # The middle of north, north and south points north.
    outlier = TieBreak(CONFIG, SOUTH, {NodeId("b"): NORTH, NodeId("c"): NORTH})
    assert outlier.bias == pytest.approx(0.0)


def test_a_nearer_node_waits_less_and_nobody_leaves_the_range() -> None:
    near = drawn(TieBreak(CONFIG, NORTH, {NodeId("b"): NORTH}))
    unknown = drawn(TieBreak(CONFIG, None, {}))
    far = drawn(TieBreak(CONFIG, SOUTH, {NodeId("b"): NORTH, NodeId("c"): NORTH}))
    assert max(near) == pytest.approx(LEAST + 0.7 * (MOST - LEAST), rel=0.01)
    assert max(unknown) == pytest.approx(LEAST + 0.85 * (MOST - LEAST), rel=0.01)
    assert max(far) == pytest.approx(MOST, rel=0.01)
    assert all(LEAST <= time <= MOST for time in near + unknown + far)


def test_below_the_threshold_the_bias_has_no_effect() -> None:
    config = RaftConfig(geometric_tiebreak_threshold=0.6)
    assert max(drawn(TieBreak(config, None, {}))) > LEAST + 0.99 * (MOST - LEAST)


def test_a_node_learns_where_others_are() -> None:
    tiebreak = TieBreak(CONFIG, SOUTH, {})
    assert tiebreak.bias == 0.5
    tiebreak.learn(NodeId("b"), NORTH)
    tiebreak.learn(NodeId("c"), NORTH)
    tiebreak.learn(NodeId("d"), None)
    assert tiebreak.bias == pytest.approx(0.0)


def test_the_centroid_is_a_direction_whatever_the_sizes() -> None:
    middle = centroid([Embedding.dense((0.0, 9.0)), EAST])
    assert middle.values == pytest.approx((1.0, 1.0))
    assert centroid([NORTH, SOUTH, Embedding.dense((0.0, 0.0))]).values == ()


def test_the_node_nearest_the_centre_wins_more_often() -> None:
    places = {"a": Embedding.dense((1.0, 0.2)), "b": NORTH, "c": Embedding.dense((1.0, -1.0))}
    wins = dict.fromkeys("abc", 0)
    for seed in range(150):
        cluster = RaftCluster(config=CONFIG, embeddings=places, seed=seed)
        assert cluster.run(3_000, lambda cluster=cluster: bool(cluster.leaders()))  # type: ignore[misc]
        wins[str(cluster.leader())] += 1
    assert wins["a"] > max(wins["b"], wins["c"]) + 10
