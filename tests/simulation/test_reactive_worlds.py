"""Seeded worlds of a graph and its observers. ``make simulate WORLD=reactive SEED=n`` replays one that failed."""

import os
import subprocess
import sys
from functools import cache

import pytest

from bobbin.simulator.batch import Summary, run_block
from bobbin.simulator.reactive_world import ReactiveWorld
from tests.simulation.reactive_mutants import MUTANTS, planted

BLOCK = 20
WORLDS = 400
QUICK = 20
"""Worlds that every check runs; all the others are for `make test`."""
SAMPLE = 60


@cache
def block(first: int) -> Summary:
    """What became of some worlds, lived through once for all that is asked about them."""
    return run_block(range(first, first + BLOCK), world="reactive")


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.slow] * (first >= QUICK)) for first in range(0, WORLDS, BLOCK)],
)
def test_every_promise_is_kept(first: int) -> None:
    summary = block(first)
    assert summary.failures == {}
    assert summary.counts["mirror updates"] > 5 * BLOCK, "a world in which nothing moves shows nothing"
    assert summary.counts["sent: Delta"] > 5 * BLOCK
    assert summary.counts["mirrors alike"] >= BLOCK


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    total = Summary()
    for first in range(0, SAMPLE, BLOCK):
        total.add(block(first))
    counts = total.counts
    for what in ("worlds: hostile", "worlds: lazy", "worlds: live", "worlds: reuses", "permissions changed"):
        assert counts[what] > 0, what
    for trouble in ("source restarts", "mirror restarts", "said: ResyncRequest", "source: Behind", "source: Denied"):
        assert counts[trouble] > 0, trouble
    for done in ("writes done", "acknowledgements lost", "effects triggered", "sent: OutboxAck", "sent: Snapshot"):
        assert counts[done] > 0, done
    assert sum(name.startswith("vice: ") for name in counts) == 12


TRACE = (
    "import sys; from bobbin.simulator.reactive_world import ReactiveWorld\n"
    "for seed in map(int, sys.argv[1:]):\n"
    "    world = ReactiveWorld(seed, is_traced=True); world.run(); print(world.digest)\n"
)


@pytest.mark.slow
def test_a_world_is_its_seed_in_every_process() -> None:
    seeds = [3, 8, 21, 34]
    here = []
    for seed in seeds:
        world = ReactiveWorld(seed, is_traced=True)
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
    with planted(fault):
        assert any(run_block(range(seed, seed + 1), world="reactive").broken for seed in range(300))
