"""Many worlds: sums that do not depend on how they are shared out, and seeds of what broke."""

from unittest.mock import patch

from bobbin.simulator import batch
from bobbin.simulator.batch import Summary, run_batch, run_block
from bobbin.simulator.interlace_world import InterlaceWorld
from bobbin.simulator.world import Broken


def test_sums_do_not_depend_on_blocks() -> None:
    seen: list[int] = []
    with patch.object(batch, "BLOCK", 2):
        parts = run_batch(range(4), report=lambda total: seen.append(total.worlds))
    assert parts.counts == dict(sorted(run_block(range(4)).counts.items()))
    assert seen == [2, 4]
    assert parts.failures == {}


def test_a_broken_world_stops_no_other() -> None:
    run = InterlaceWorld.run

    def sometimes(self: InterlaceWorld) -> object:
        if self.seed == 1:
            raise Broken("seed 1: on purpose")
        if self.seed == 2:
            raise KeyError("something else")
        return run(self)

    with patch.object(InterlaceWorld, "run", sometimes):
        summary = run_block(range(4))
    assert summary.worlds == 4
    assert summary.broken == 2
    assert summary.failures[1] == "seed 1: on purpose"
    assert summary.failures[2].startswith("seed 2: KeyError")
    assert summary.counts["worlds"] == 2


def test_only_so_many_failures_are_kept() -> None:
    total = Summary()
    for start in (0, 80):
        failures = dict.fromkeys(range(start, start + 80), "x")
        total.add(Summary(worlds=80, broken=80, failures=failures, counts={"a": 1}))
    assert (total.broken, len(total.failures), total.counts) == (160, batch.FAILURES_MAX, {"a": 2})
