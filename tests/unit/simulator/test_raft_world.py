"""A world of one cluster: what it draws, that it is its seed, and that it says what was broken."""

from random import Random
from unittest.mock import patch

import pytest
from msgspec import structs

from bobbin.cluster.raft.effects import Alarm
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.simulator.raft_shape import draw_shape
from bobbin.simulator.raft_world import RaftWorld
from bobbin.simulator.world import Broken
from bobbin.wire.cluster.commands import key_value
from tests.simulation.raft_scenarios import cluster, leader_of, others, stop


def test_one_seed_is_one_world() -> None:
    digests = set()
    for _ in range(2):
        world = RaftWorld(1, is_traced=True)
        assert world.run()["worlds"] == 1
        assert world.trace
        digests.add(world.digest)
    assert len(digests) == 1


def test_a_broken_promise_names_its_seed() -> None:
    def fail(self: RaftMachine) -> None:
        del self
        raise AssertionError("on purpose")

    checked = next(seed for seed in range(50) if RaftWorld(seed).shape.is_checking)
    with (
        patch.object(RaftMachine, "check", fail),
        pytest.raises(Broken, match=f"seed {checked}: an invariant does not"),
    ):
        RaftWorld(checked).run()


def test_whether_there_are_judges_changes_no_other_draw() -> None:
    for seed in range(20):
        drawn = draw_shape(Random(f"raft {seed}"))
        assert structs.replace(RaftWorld(seed).shape, judge=None) == drawn
    assert {RaftWorld(seed).shape.judge is None for seed in range(20)} == {True, False}


def test_judges_are_asked_and_what_they_did_is_counted() -> None:
    seed = next(seed for seed in range(50) if RaftWorld(seed).shape.judge is not None)
    tally = RaftWorld(seed).run()
    assert tally["worlds: judging"] == 1
    assert tally["judges: shown of a leader"] > 0


def test_an_entry_that_is_called_wrong_where_nobody_lies_is_a_broken_promise() -> None:
    world = cluster(3)
    with pytest.raises(Broken, match="seed 1: an entry is called wrong, and nobody lies: entry 7"):
        world.heard(Alarm("entry-refused", "entry 7"))


def test_a_cluster_that_does_not_recover_is_a_broken_promise() -> None:
    world = cluster(3)
    leader = leader_of(world)
    stop(world, others(world, leader.node)[0])
    stop(world, others(world, leader.node)[1])
    with pytest.raises(Broken, match="seed 1: too late within 2000 ms"):
        world.run_until(lambda: world.leader() is None and world._is_well(), 2_000_000_000, "too late")


def test_after_the_troubles_everything_is_alike() -> None:
    world = cluster(3)
    world.network.cut([leader_of(world).node], others(world, leader_of(world).node))
    world.nodes[others(world, leader_of(world).node)[0]].disk.is_full = True
    world.calm_down()
    roots = {node.table.root for node in world.nodes.values()}
    assert len(roots) == 1
    assert len(world.book.final()) == 1, "the fresh write"


def test_states_that_differ_in_the_end_are_found() -> None:
    world = cluster(3)
    world.calm_down()
    node = world.nodes[others(world, leader_of(world).node)[0]]
    node.table = key_value()
    with pytest.raises(Broken, match=r"the states of .* differ in the end"):
        world._expect_alike()
