"""Seeded worlds of exchanges. A failure names its seed; ``make simulate WORLD=interlace SEED=n`` replays it."""

import os
import subprocess
import sys

import pytest

from bobbin.simulator.batch import run_block
from bobbin.simulator.interlace_world import InterlaceWorld
from tests.simulation.interlace_mutants import MUTANTS, planted

BLOCK = 20
WORLDS = 500
QUICK = 100
"""Worlds that every check runs; all the others are for `make test`."""


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.slow] * (first >= QUICK)) for first in range(0, WORLDS, BLOCK)],
)
def test_every_promise_is_kept(first: int) -> None:
    summary = run_block(range(first, first + BLOCK))
    assert summary.failures == {}
    assert summary.counts["checked steps"] > 20 * BLOCK, "a world in which nobody speaks shows nothing"
    assert summary.counts["records received"] > BLOCK, "a world in which nothing moves shows nothing"
    assert summary.counts["fixed points by brute force"] > BLOCK // 4


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    counts = run_block(range(80)).counts
    for what in ("hostile worlds", "byte worlds", "disk worlds", "crash", "break", "cancel", "jump", "operand", "lift"):
        assert counts[what] > 0, what
    for end in ("fixed point", "link-lost", "cancelled", "out-of-phase-message", "advertisement-listing-limit"):
        assert counts[f"end: {end}"] > 0, end
    for way in ("known", "equal", "changes", "comparison", "sketch", "ranges", "partitions", "listing"):
        assert counts[f"reconciled: {way}"] > 0, way
    assert counts["fallbacks"] > 0
    assert counts["closures by brute force"] > 10
    assert sum(name.startswith("vice: ") for name in counts) >= 15


TRACE = (
    "import sys; from bobbin.simulator.interlace_world import InterlaceWorld\n"
    "for seed in map(int, sys.argv[1:]):\n"
    "    world = InterlaceWorld(seed, is_traced=True); world.run(); print(world.digest)\n"
)


def test_a_world_is_its_seed_in_every_process() -> None:
    seeds = [3, 8, 21, 34, 55]
    here = []
    for seed in seeds:
        world = InterlaceWorld(seed, is_traced=True)
        world.run()
        here.append(world.digest)
    command = [sys.executable, "-c", TRACE, *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert there.stdout.split() == here
    assert len(set(here)) == len(here)


@pytest.mark.parametrize(
    ("fault", "seeds"),
    [
        ("sends whatever is stored", range(80, 90)),
        ("serves from an old evaluation", range(80, 90)),
        ("verifies no root", range(3, 4)),
        ("ends at empty requests", range(5)),
        ("asks for what nobody advertises", range(5)),
        ("takes anything", range(133, 134)),
        ("has no transfer limit", range(60)),
        ("keeps withdrawn advertisements", range(40)),
        ("loses records on the way to the store", range(10)),
        ("believes any root of claims", range(34, 35)),
        ("makes symbols of something else", range(43, 50)),
        ("goes on after a fallback", range(110, 111)),
        ("keeps quiet about what is gone", range(49, 50)),
        ("takes a module under any name", range(315, 316)),
        ("runs its own module for one that never came", range(34, 35)),
    ],
)
def test_the_worlds_find_a_machine_with_a_fault(fault: str, seeds: range) -> None:
    assert fault in MUTANTS
    with planted(fault):
        assert any(run_block(range(seed, seed + 1)).broken for seed in seeds)
