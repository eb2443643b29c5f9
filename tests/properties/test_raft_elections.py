"""Elections come to an end, from every beginning and with every extension on, and each term has one leader."""

import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import NodeId, Term
from bobbin.cluster.raft.effects import Role
from bobbin.cluster.settings import RaftConfig
from tests.support.raft_cluster import RaftCluster, entries


def begin_with(cluster: RaftCluster, node: str, *terms: int, term: int) -> None:
    """A node begins again with this log."""
    cluster.crash(node)
    disk = cluster.members[NodeId(node)].disk
    disk.entries, disk.term = list(entries(*terms)), Term(term)
    cluster.start(node)


@pytest.mark.parametrize("seed", range(10))
def test_a_higher_term_with_a_shorter_log_and_a_lower_one_with_a_longer_still_elect(seed: int) -> None:
    cluster = RaftCluster(seed=seed)
    begin_with(cluster, "a", 1, term=9)
    begin_with(cluster, "b", 1, 1, 1, term=3)
    cluster.crash("c")
    assert cluster.run(10 * 300, lambda: bool(cluster.leaders()))
    assert cluster.leader() == "b", "the longer log wins"


def test_every_pair_far_apart_still_elects() -> None:
    places = {"a": Embedding.dense((1.0, 0.0)), "b": Embedding.dense((-1.0, 0.0))}
    for seed in range(20):
        cluster = RaftCluster("ab", config=RaftConfig(), embeddings=places, seed=seed)
        assert cluster.run(10 * 300, lambda cluster=cluster: bool(cluster.leaders()))  # type: ignore[misc]


def elects(letters: str, seed: int) -> bool:
    places = {
        letter: Embedding.dense((1.0 - 0.5 * place, 0.3 * place, (seed % 7) / 7.0))
        for place, letter in enumerate(letters)
    }
    cluster = RaftCluster(letters, config=RaftConfig(), embeddings=places, seed=seed, checking=False)
    return cluster.run(10 * 300, lambda: bool(cluster.leaders()))


@pytest.mark.parametrize("letters", ["abc", "abcde"])
def test_l4_a_cold_start_elects_with_every_extension_on(letters: str) -> None:
    assert [seed for seed in range(200) if not elects(letters, seed)] == []


@pytest.mark.slow
@pytest.mark.parametrize("letters", ["abc", "abcde"])
def test_l4_thousands_of_cold_starts_elect(letters: str) -> None:
    assert [seed for seed in range(200, 2_500) if not elects(letters, seed)] == []


def test_each_term_has_one_leader_over_restarts() -> None:
    leaders: dict[int, NodeId] = {}
    for seed in range(15):
        cluster = RaftCluster("abc", seed=seed)
        leaders.clear()
        for turn in range(8):
            cluster.run(700)
            for member in cluster.members.values():
                if member.machine is not None and member.machine.role is Role.LEADER:
                    assert leaders.setdefault(member.machine.term, member.node) == member.node
            victim = "abc"[(seed + turn) % 3]
            cluster.crash(victim)
            cluster.run(150 * (turn % 3))
            cluster.start(victim)
        assert len(leaders) > 1
