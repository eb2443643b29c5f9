"""Seeded worlds of members. ``make simulate WORLD=membership SEED=n`` replays one that failed."""

import os
import subprocess
import sys
from functools import cache

import pytest

from bobbin.cluster.membership.bounds import detection_ms_max
from bobbin.cluster.membership.messages import Health
from bobbin.simulator.batch import Summary, run_block
from bobbin.simulator.membership_world import MembershipWorld
from tests.simulation.membership_mutants import MUTANTS, SEEDS_MAX, seeds_to_find
from tests.simulation.membership_scale import LargeCluster

BLOCK = 20
WORLDS = 160
QUICK = 20
"""Worlds that every check runs; all the others are for `make test`."""


@cache
def block(first: int) -> Summary:
    """What became of some worlds, lived through once for all that is asked about them."""
    return run_block(range(first, first + BLOCK), world="membership")


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.slow] * (first >= QUICK)) for first in range(0, WORLDS, BLOCK)],
)
def test_every_promise_is_kept(first: int) -> None:
    summary = block(first)
    assert summary.failures == {}
    assert summary.counts["agreements"] >= BLOCK
    assert summary.counts["became DEGRADED"] > 5 * BLOCK, "a world in which nobody is suspected shows nothing"
    assert summary.counts["became FAILED"] > BLOCK


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    total = Summary()
    for first in range(0, WORLDS, BLOCK):
        total.add(block(first))
    counts = total.counts
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


TRACE = (
    "import sys; from bobbin.simulator.membership_world import MembershipWorld\n"
    "for seed in map(int, sys.argv[1:]):\n"
    "    world = MembershipWorld(seed, is_traced=True); world.run(); print(world.digest)\n"
)


@pytest.mark.slow
def test_a_world_is_its_seed_in_every_process() -> None:
    seeds = [3, 8, 21, 34]
    here = []
    for seed in seeds:
        world = MembershipWorld(seed, is_traced=True)
        world.run()
        here.append(world.digest)
    command = [sys.executable, "-c", TRACE, *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert there.stdout.split() == here
    assert len(set(here)) == len(here)


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
