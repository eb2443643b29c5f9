"""Seeded worlds of tangles. A failure names its seed; ``make simulate WORLD=tangles SEED=n`` replays it."""

import os
import subprocess
import sys
from functools import cache

import pytest

from bobbin.simulator.batch import Summary, run_block
from bobbin.simulator.tangle_world import TangleWorld
from tests.simulation.tangle_mutants import MUTANTS, planted

BLOCK = 20
WORLDS = 300
QUICK = 20
"""Worlds that every check runs; all the others are for `make test`."""
SAMPLE = 60


@cache
def block(first: int) -> Summary:
    """What became of some worlds, lived through once for all that is asked about them."""
    return run_block(range(first, first + BLOCK), world="tangles")


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.slow] * (first >= QUICK)) for first in range(0, WORLDS, BLOCK)],
)
def test_every_promise_is_kept(first: int) -> None:
    summary = block(first)
    assert summary.failures == {}
    assert summary.counts["messages received"] > 5 * BLOCK, "a world in which nothing moves shows nothing"
    assert summary.counts["messages audited"] > 20 * BLOCK
    assert summary.counts["goals by brute force"] > 20 * BLOCK


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    total = Summary()
    for first in range(0, SAMPLE, BLOCK):
        total.add(block(first))
    counts = total.counts
    for what in ("hostile worlds", "disk worlds", "modern worlds", "nine-phase worlds", "news", "tangles alike"):
        assert counts[what] > 0, what
    for trouble in ("crash", "break", "goal", "collect", "open", "write", "messages refused"):
        assert counts[trouble] > 0, trouble
    assert sum(name.startswith("vice: ") for name in counts) >= 12
    assert sum(name.startswith("writes: ") for name in counts) >= 7


TRACE = (
    "import sys; from bobbin.simulator.tangle_world import TangleWorld\n"
    "for seed in map(int, sys.argv[1:]):\n"
    "    world = TangleWorld(seed, is_traced=True); world.run(); print(world.digest)\n"
)


@pytest.mark.slow
def test_a_world_is_its_seed_in_every_process() -> None:
    seeds = [3, 8, 21, 34]
    here = []
    for seed in seeds:
        world = TangleWorld(seed, is_traced=True)
        world.run()
        here.append(world.digest)
    command = [sys.executable, "-c", TRACE, *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert there.stdout.split() == here
    assert len(set(here)) == len(here)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "seeds"),
    [
        ("validates nothing in the modern mode", range(12)),
        ("takes what breaks a rule", range(12)),
        ("sends messages that hang in the air", range(12)),
        ("lets everybody change keys", range(12)),
        ("sends no account messages", range(6)),
        ("tells no news", range(6)),
        ("sends the last round only", range(6)),
        ("drops what is deepest", range(6)),
        ("keeps a finished run", range(6)),
        ("says that it has stored what it has not", range(6)),
        ("lets go the keys of what it keeps", range(6)),
    ],
)
def test_the_worlds_find_a_machine_with_a_fault(fault: str, seeds: range) -> None:
    assert fault in MUTANTS
    with planted(fault):
        assert any(run_block(range(seed, seed + 1), world="tangles").broken for seed in seeds)
