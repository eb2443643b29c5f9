"""Seeded worlds of members. ``make simulate WORLD=membership SEED=n`` replays one that failed."""

import pytest

from bobbin.cluster.membership.bounds import detection_ms_max
from bobbin.cluster.membership.messages import Health
from bobbin.simulator.membership_world import MembershipWorld
from tests.simulation.membership_mutants import MUTANTS, SEEDS_MAX, seeds_to_find
from tests.simulation.membership_scale import LargeCluster
from tests.simulation.seeded import BLOCK, block, counts_of, expect_same_everywhere, first_of_blocks

WORLDS = 160


@first_of_blocks(WORLDS)
def test_every_promise_is_kept(first: int) -> None:
    summary = block("membership", first)
    assert summary.failures == {}
    assert summary.counts["agreements"] >= BLOCK
    assert summary.counts["became DEGRADED"] > 5 * BLOCK, "a world in which nobody is suspected shows nothing"
    assert summary.counts["became FAILED"] > BLOCK


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    counts = counts_of("membership", WORLDS)
    for trouble in ("crash", "restart", "stall", "cut", "cut off", "heal", "clock", "flap"):
        assert counts[f"trouble: {trouble}"] > 0, trouble
    for fault in ("lost", "doubled", "late"):
        assert counts[f"messages {fault}"] > 0, fault
    for what in (
        "worlds: with a liar",
        "deaths in the calm",
        "spoilt messages refused",
        "told: Flapping",
        "told: Healed",
    ):
        assert counts[what] > 0, what
    assert sum(name.startswith("lie: ") for name in counts) == 7
    assert sum(name.startswith("sent: ") for name in counts) == 9, "messages of every kind"
    assert counts["live nodes called failed in the troubles"] < counts["node-rounds"] / 100


@pytest.mark.slow
def test_a_world_is_its_seed_in_every_process() -> None:
    expect_same_everywhere(MembershipWorld, [3, 8, 21, 34])


@pytest.mark.slow
@pytest.mark.parametrize("fault", MUTANTS)
def test_the_worlds_find_a_machine_with_a_fault(fault: str) -> None:
    assert seeds_to_find(fault) is not None, f"not within {SEEDS_MAX} worlds"


def test_twenty_nodes_with_loss_and_a_slow_one_call_nobody_failed_but_the_dead() -> None:
    """Nobody tells the machines to probe: they are woken when they want to be, and that is all."""
    cluster = LargeCluster(members=20, loss=0.1, seed=3)
    cluster.run(20)
    cluster.slow_down()
    cluster.run(60)
    assert cluster.tally["node-rounds"] == 20 * 80
    assert cluster.tally["became DEGRADED"] > 0, "a cluster in which nobody is suspected shows nothing"
    assert cluster.tally["stalls"] > 3
    dead = list(cluster.members)[7]
    detection = cluster.kill(dead)
    assert 2_500 < detection.first_ms <= detection.all_ms <= detection_ms_max(cluster.config, 20)
    for member in cluster.members.values():
        assert member.machine is None or member.machine.health(dead) is Health.FAILED
    assert cluster.false_failures == set()


@pytest.mark.slow
def test_a_hundred_nodes_with_loss_and_a_slow_one_call_nobody_failed_who_is_not() -> None:
    """A sample of what the evidence counts over 1e5 node-rounds."""
    cluster = LargeCluster(members=100, loss=0.1, seed=0)
    cluster.run(25)
    cluster.slow_down()
    cluster.run(75)
    assert cluster.tally["became DEGRADED"] > 100
    detection = cluster.kill(list(cluster.members)[50])
    assert detection.all_ms <= detection_ms_max(cluster.config, 100)
    assert cluster.false_failures == set()
