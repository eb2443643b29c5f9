"""Seeded worlds of a cluster. ``make simulate WORLD=raft SEED=n`` replays one that failed."""

import pytest

from bobbin.simulator.raft_world import RaftWorld
from tests.oracle.linearizability import Kind, Operation, find_violation
from tests.simulation.raft_histories import history_of
from tests.simulation.raft_mutants import MUTANTS, seeds_to_find
from tests.simulation.raft_planting import planted
from tests.simulation.seeded import BLOCK, block, counts_of, expect_same_everywhere, first_of_blocks

WORLDS = 80


@first_of_blocks(WORLDS)
def test_every_promise_is_kept(first: int) -> None:
    summary = block("raft", first)
    assert summary.failures == {}
    assert summary.counts["entries committed"] > 10 * BLOCK, "a world in which nothing is agreed shows nothing"
    assert summary.counts["requests answered"] > 10 * BLOCK
    assert summary.counts["leaders"] >= BLOCK


@pytest.mark.slow
def test_the_sample_has_everything_that_worlds_are_about() -> None:
    counts = counts_of("raft", WORLDS)
    for what in (
        "3 nodes",
        "5 nodes",
        "bytes",
        "slow",
        "bad_disks",
        "compacting",
        "changing",
        "hostile",
        "rough",
        "judging",
    ):
        assert counts[f"worlds: {what}"] > 0, what
    for what in ("crashes", "disk errors", "messages lost", "messages doubled", "messages late", "messages spoilt"):
        assert counts[what] > 0, what
    for what in ("snapshots taken", "snapshots installed", "configurations", "transfers done", "requests unknown"):
        assert counts[what] > 0, what
    for what in ("shown of a leader", "shown of the log", "lagged", "began anew"):
        assert counts[f"judges: {what}"] > 0, what
    for trouble in ("split", "isolate", "one way", "crash all", "cut at a write", "full disk", "jump", "pause"):
        assert counts[f"trouble: {trouble}"] > 0, trouble


@pytest.mark.slow
def test_client_histories_are_linearizable_for_one_who_knows_nothing_of_logs() -> None:
    operations = unknown = 0
    for seed in range(100, 125):
        history = history_of(seed)
        assert find_violation(history) is None, seed
        operations += len(history)
        unknown += sum(one.returned is None for one in history)
    assert operations > 500
    assert unknown > 20


def is_read(operation: Operation) -> bool:
    """Somebody has read a value."""
    return operation.kind is Kind.GET and operation.returned is not None and operation.value is not None


def test_the_black_box_sees_a_read_that_is_wrong() -> None:
    history = next(history for history in map(history_of, range(20)) if any(map(is_read, history)))
    at = next(at for at, one in enumerate(history) if is_read(one))
    wrong = history[at]
    history[at] = Operation(
        client=wrong.client, key=wrong.key, kind=Kind.GET, called=wrong.called, returned=wrong.returned, value=b"nobody"
    )
    assert find_violation(history) is not None


@pytest.mark.slow
def test_a_world_is_its_seed_in_every_process() -> None:
    expect_same_everywhere(RaftWorld, [3, 8, 21, 34])


QUICKLY_FOUND = (
    "forgets its vote with a restart (CL-042, CL-293)",
    "keeps term and vote in memory only (CL-305)",
    "votes without comparing logs (CL-045)",
    "answers before the vote is durable (CL-004, CL-046)",
    "acknowledges before it is durable (CL-048)",
    "commits what is of an earlier term (CL-053)",
    "B2: lets a match fall (CL-059)",
    "L4: builds vote requests and discards them (CL-067)",
    "takes one vote too few (CL-005, CL-011)",
    "L9: an empty log ends in term 0 (CL-086)",
    "calls a request refused that is in the log (CL-057)",
    "never goes back after a refusal (CL-056)",
)
"""A sample; `make evidence ONLY=raft` plants them all."""


FOUND_BY_JUDGES = (
    "entries of earlier terms wait for what is applied",
    "takes what was not judged (CL-243)",
    "never tells a judge to begin anew",
    "leaves a judge with what it could not see into",
    "shows a judge nothing of the log after a start",
)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FOUND_BY_JUDGES)
def test_the_worlds_that_have_judges_find_how_one_is_led_wrongly(fault: str) -> None:
    assert seeds_to_find(fault, range(100)) is not None


@pytest.mark.slow
@pytest.mark.parametrize("fault", QUICKLY_FOUND)
def test_the_worlds_find_a_cluster_with_a_fault(fault: str) -> None:
    assert seeds_to_find(fault, range(40)) is not None


@pytest.mark.parametrize("fault", MUTANTS)
def test_every_fault_can_still_be_planted(fault: str) -> None:
    with planted(MUTANTS[fault]):
        pass
