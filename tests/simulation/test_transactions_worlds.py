"""Seeded worlds of transactions. ``make simulate WORLD=transactions SEED=n`` replays one that failed."""

from random import Random

import pytest
from msgspec import structs

from bobbin.simulator.transaction_shape import draw_day
from bobbin.simulator.transaction_world import TransactionWorld
from tests.oracle.serializability import Outcome, Read, find_anomaly
from tests.simulation.raft_planting import planted
from tests.simulation.seeded import BLOCK, block, counts_of, expect_same_everywhere, first_of_blocks
from tests.simulation.transaction_histories import history_of
from tests.simulation.transaction_mutants import MUTANTS, seeds_to_find

WORLDS = 100


@first_of_blocks(WORLDS)
def test_every_promise_is_kept(first: int) -> None:
    summary = block("transactions", first)
    assert summary.failures == {}
    assert summary.counts["transactions committed"] > 8 * BLOCK, "a world in which nothing is done shows nothing"
    assert summary.counts["committed over several shards"] > BLOCK
    assert summary.counts["leaders"] > 2 * BLOCK


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    counts = counts_of("transactions", WORLDS)
    for what in (
        "1 shards",
        "4 shards",
        "bytes",
        "rough",
        "judging",
        "waiting",
        "wounding",
        "optimistic",
        "crowded",
        "gathering",
    ):
        assert counts[f"worlds: {what}"] > 0, what
    for what in ("messages lost", "messages doubled", "messages late", "forged blocks", "nodes restarted"):
        assert counts[what] > 0, what
    for what in ("turns with several commits", "blocks of several transactions", "blocks behind something under way"):
        assert counts[what] > WORLDS, what
    assert counts["blocks of several transactions behind something under way"] > WORLDS // 4
    for what in ("leaders dead", "leaders deposed", "proposals that survived their leader", "proposals refused"):
        assert counts[what] > 0, what
    for moment in ("before", "after", "heard", "half said"):
        assert counts[f"struck at a write: {moment}"] > 0, moment
    for what in ("refused", "unknown", "taken back"):
        assert counts[f"transactions {what}"] > 0, what
    for kind in ("APPENDED", "VOTED", "DROPPED", "LOGGED", "STALE_BLOCK", "BAD_BLOCK"):
        assert counts[f"applied: {kind}"] > 0, kind


@pytest.mark.slow
def test_histories_of_lists_are_serialisable_for_one_who_knows_nothing_of_chains() -> None:
    transactions = unknown = reads = 0
    for seed in range(25):
        history = history_of(seed)
        assert find_anomaly(history) is None, seed
        transactions += len(history)
        unknown += sum(one.outcome is Outcome.UNKNOWN for one in history)
        reads += sum(isinstance(step, Read) and len(step.seen) > 1 for one in history for step in one.steps)
    assert transactions > 400
    assert unknown > 0
    assert reads > 200


def test_the_black_box_sees_a_read_that_is_wrong() -> None:
    for history in map(history_of, range(40)):
        for at, one in enumerate(history):
            read = one.steps[0]
            if one.outcome is Outcome.COMMITTED and isinstance(read, Read) and len(read.seen) > 1:
                early = structs.replace(one, steps=(Read(read.key, read.seen[:-1]), *one.steps[1:]))
                assert find_anomaly([*history[:at], early, *history[at + 1 :]]) is not None
                return
    pytest.fail("no world in which anybody reads a list")


@pytest.mark.slow
def test_a_world_is_its_seed_in_every_process() -> None:
    expect_same_everywhere(TransactionWorld, [3, 8, 21, 34])


@pytest.mark.slow
def test_the_chains_of_two_nodes_are_the_same_to_the_bit_after_hours_of_faults() -> None:
    """Two hours here; a whole day is in the evidence."""
    world = TransactionWorld(4, shape=draw_day(Random("day 4"), hours=2))
    counts = world.run()
    assert counts["transactions committed"] > 200
    assert counts["leaders dead"] + counts["leaders deposed"] > 30
    assert counts["nodes restarted"] > 0
    for shard in world.shards:
        first, second = (copy.state.ledger for copy in shard.copies)
        assert first.height > 50
        assert first.verify() is None
        assert second.verify() is None
        assert first.blocks(0, first.height) == second.blocks(0, second.height)
        assert shard.copies[0].state.root == shard.copies[1].state.root


QUICKLY_FOUND = (
    "L15: calls it complete before anybody was told (CL-173)",
    "L16: knows only one participant again (CL-301)",
    "L17: says yes, then writes (CL-153)",
    "L17: keeps promises in memory only (CL-174, CL-169)",
    "L18: the sweep aborts what is committing (CL-175, CL-170, CL-300)",
    "L20: does at the prepare, and undoes under another key (CL-177)",
    "L27: looks at no versions of what it writes (CL-220, CL-207)",
    "U4: gives up a promise when time is up (CL-156, CL-166, CL-169, CL-302)",
    "U25: promises lock nothing (CL-171)",
    "U28: commits on the votes that it knows (CL-373, CL-137)",
    "answers a question by abort while it is prepared (CL-159)",
    "leaves the locks of what it drops (CL-167)",
    "says commit before it is written (CL-141, CL-168)",
    "takes those who come together for strangers (CL-207)",
    "validates write sets only (CL-172)",
)
"""A sample; `make evidence ONLY=transactions` plants them all."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", QUICKLY_FOUND)
def test_the_worlds_find_shards_with_a_fault(fault: str) -> None:
    assert seeds_to_find(fault, range(100)) is not None


@pytest.mark.parametrize("fault", MUTANTS)
def test_every_fault_can_still_be_planted(fault: str) -> None:
    with planted(MUTANTS[fault]):
        pass
