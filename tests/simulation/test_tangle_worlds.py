"""Seeded worlds of tangles. A failure names its seed; ``make simulate WORLD=tangles SEED=n`` replays it."""

import pytest

from bobbin.simulator.tangle_world import TangleWorld
from tests.simulation.seeded import BLOCK, block, counts_of, expect_same_everywhere, finds, first_of_blocks
from tests.simulation.tangle_mutants import MUTANTS, planted


@first_of_blocks(300)
def test_every_promise_is_kept(first: int) -> None:
    summary = block("tangles", first)
    assert summary.failures == {}
    assert summary.counts["messages received"] > 5 * BLOCK, "a world in which nothing moves shows nothing"
    assert summary.counts["messages audited"] > 20 * BLOCK
    assert summary.counts["goals by brute force"] > 20 * BLOCK


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    counts = counts_of("tangles", 60)
    for what in ("hostile worlds", "disk worlds", "modern worlds", "nine-phase worlds", "news", "tangles alike"):
        assert counts[what] > 0, what
    for trouble in ("crash", "break", "goal", "collect", "open", "write", "messages refused"):
        assert counts[trouble] > 0, trouble
    assert sum(name.startswith("vice: ") for name in counts) >= 12
    assert sum(name.startswith("writes: ") for name in counts) >= 7


@pytest.mark.slow
def test_a_world_is_its_seed_in_every_process() -> None:
    expect_same_everywhere(TangleWorld, [3, 8, 21, 34])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "seeds"),
    [
        ("validates nothing in the modern mode", range(12)),
        ("takes what breaks a rule", range(12)),
        ("sends messages that hang in the air", range(12)),
        ("offers what others must refuse", range(28, 29)),
        ("lets everybody change keys", range(12)),
        ("lets every key add others in nine phases", range(36, 40)),
        ("sends no account messages", range(6)),
        ("tells no news", range(6)),
        ("tells an account again with every message", range(6)),
        ("sends news of any length", range(93, 94)),
        ("sends the last round only", range(6)),
        ("drops what is deepest", range(6)),
        ("keeps a finished run", range(6)),
        ("stores accounts for what it refuses", range(58, 59)),
        ("says that it has stored what it has not", range(6)),
        ("lets go the keys of what it keeps", range(6)),
    ],
)
def test_the_worlds_find_a_machine_with_a_fault(fault: str, seeds: range) -> None:
    assert fault in MUTANTS
    with planted(fault):
        assert finds("tangles", seeds)
