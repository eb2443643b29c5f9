"""Seeded worlds of a graph and its observers. ``make simulate WORLD=reactive SEED=n`` replays one that failed."""

import pytest

from bobbin.simulator.reactive_world import ReactiveWorld
from tests.simulation.reactive_mutants import MUTANTS, planted
from tests.simulation.seeded import BLOCK, block, counts_of, expect_same_everywhere, finds, first_of_blocks


@first_of_blocks(400)
def test_every_promise_is_kept(first: int) -> None:
    summary = block("reactive", first)
    assert summary.failures == {}
    assert summary.counts["mirror updates"] > 5 * BLOCK, "a world in which nothing moves shows nothing"
    assert summary.counts["sent: Delta"] > 5 * BLOCK
    assert summary.counts["mirrors alike"] >= BLOCK


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    counts = counts_of("reactive", 60)
    for what in ("worlds: hostile", "worlds: lazy", "worlds: live", "worlds: reuses", "permissions changed"):
        assert counts[what] > 0, what
    for trouble in ("source restarts", "restarts with other ids", "mirror restarts", "answers lost", "source: Behind"):
        assert counts[trouble] > 0, trouble
    for done in ("writes done", "acknowledgements lost", "effects triggered", "sent: OutboxAck", "sent: Snapshot"):
        assert counts[done] > 0, done
    assert counts["said: ResyncRequest"] > 0
    assert counts["source: Denied"] > 0
    assert sum(name.startswith("vice: ") for name in counts) == 12


@pytest.mark.slow
def test_a_world_is_its_seed_in_every_process() -> None:
    expect_same_everywhere(ReactiveWorld, [3, 8, 21, 34])


@pytest.mark.slow
@pytest.mark.parametrize("fault", MUTANTS)
def test_the_worlds_find_a_machine_with_a_fault(fault: str) -> None:
    with planted(fault):
        assert finds("reactive", range(300))
