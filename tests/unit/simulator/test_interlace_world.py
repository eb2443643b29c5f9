"""A world of exchanges: what it counts, what it tells, and that it ends with a seed when something is wrong."""

from unittest.mock import patch

import pytest

from bobbin.interlace.epoch import Epoch
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.result import Result
from bobbin.simulator.interlace_world import InterlaceWorld
from bobbin.simulator.world import Broken


def test_a_world_keeps_every_promise_and_counts() -> None:
    world = InterlaceWorld(1, is_traced=True)
    tally = world.run()
    assert tally["worlds"] == 1
    assert tally["exchanges"] >= 1
    assert len(world.trace) > 10
    assert world.trace[0].endswith(f"seed 1: {world.circumstances}")


def test_a_world_is_its_seed_and_tracing_changes_nothing() -> None:
    plain, traced, again = InterlaceWorld(5), InterlaceWorld(5, is_traced=True), InterlaceWorld(5, is_traced=True)
    assert plain.run() == traced.run() == again.run()
    assert plain.trace == []
    assert traced.digest == again.digest != InterlaceWorld(6, is_traced=True).digest


def test_a_trace_does_not_say_where_the_files_were() -> None:
    # The disk of this world fails, and the error names the file.
    first = InterlaceWorld(64, is_traced=True)
    first.run()
    assert any("disk: reading or writing the store node" in line for line in first.trace)
    second = InterlaceWorld(64, is_traced=True)
    second.run()
    assert first.digest == second.digest


def test_a_record_that_is_lost_is_noticed_at_the_end() -> None:
    world = InterlaceWorld(2)
    world.nodes[0].expected.add("P.lost")
    with pytest.raises(Broken, match="seed 2: node0 has lost"):
        world.run()


def test_a_machine_that_never_ends_is_noticed() -> None:
    def stay(self: InterlaceMachine, result: Result) -> None:
        del self, result

    with patch.object(InterlaceMachine, "_finish", stay), pytest.raises(Broken, match=r"seed 1: "):
        InterlaceWorld(1).run()


def test_a_broken_invariant_has_the_seed() -> None:
    def check(self: Epoch) -> None:
        del self
        raise AssertionError("on purpose")

    with patch.object(Epoch, "check", check), pytest.raises(Broken, match=r"seed 0: .*on purpose"):
        InterlaceWorld(0).run()
