"""Every figure is there from the beginning, and none of them falls (CL-140, 291, 326)."""

import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.effects import Mistake
from bobbin.cluster.transactions.messages import Conflict, No
from bobbin.cluster.transactions.names import tx_id
from bobbin.cluster.transactions.phases import TxPhase
from bobbin.cluster.transactions.recovery import TxRecoveryState
from bobbin.cluster.transactions.stats import TxStats
from bobbin.cluster.transactions.tx_log import AbortIntent, TxBegin
from tests.unit.cluster.transactions.driven import LEFT, ONE, TWO, UP, Driven, X, Y, parts, yes


def test_figures_begin_at_zero() -> None:
    stats = TxStats()
    counters = [name for name in TxStats.__slots__ if isinstance(getattr(stats, name), int)]
    assert {
        "started",
        "committed",
        "aborted",
        "timed_out",
        "conflicts",
        "orthogonal_merges",
        "abort_retries",
        "abort_failures",
        "non_orthogonal_shards",
    } <= set(counters)
    assert [getattr(stats, name) for name in counters] == [0] * len(counters)
    assert stats.mistakes == dict.fromkeys(Mistake, 0)


def test_started_is_the_sum_of_committed_aborted_and_undecided_after_every_step() -> None:
    driven = Driven()
    ids = [tx_id(number, b"8 bytes!") for number in range(5)]
    for number, tx in enumerate(ids):
        driven.begin(tx)
        assert driven.is_balanced()
        assert driven.coordinator.undecided == number + 1
    driven.settle()
    for tx, delta in ((ids[0], LEFT), (ids[1], UP)):
        for shard, own in ((ONE, LEFT), (TWO, delta)):
            driven.vote(shard, yes(shard, own), tx=tx)
            assert driven.is_balanced()
        driven.settle()
        assert driven.is_balanced()
    driven.vote(ONE, Conflict(0.9, None, "moved"), tx=ids[2])
    driven.vote(TWO, No("held"), tx=ids[3])
    for _ in range(40):
        driven.tick(1_000)
        driven.settle()
        assert driven.is_balanced()
    stats = driven.stats
    assert (stats.started, stats.committed, stats.aborted, stats.timed_out, stats.conflicts) == (5, 2, 3, 1, 1)
    assert (stats.orthogonal_merges, stats.non_orthogonal_shards) == (1, 1)
    # Two of the aborts have one shard to tell, the one that timed out has two.
    assert (stats.abort_retries, stats.abort_failures) == (5 * (1 + 1 + 2), 3)
    assert stats.commits_overdue == 2


def test_shards_that_are_changed_alike_are_counted_and_commit() -> None:
    driven = Driven().begun()
    driven.vote(ONE, yes(ONE, LEFT))
    driven.vote(TWO, yes(TWO, LEFT))
    driven.settle()
    assert driven.phase() is TxPhase.COMMITTING
    assert (driven.stats.non_orthogonal_shards, driven.stats.orthogonal_merges) == (1, 0)


@pytest.mark.parametrize(("threshold", "is_alike"), [(0.1, True), (0.6, True), (0.61, False)])
def test_the_threshold_of_likeness_decides_about_a_counter_alone(threshold: float, *, is_alike: bool) -> None:
    driven = Driven(config=DistributedTxConfig(orthogonal_threshold=threshold)).begun()
    driven.vote(ONE, yes(ONE, LEFT))
    driven.vote(TWO, yes(TWO, Embedding.dense((0.6, 0.8, 0.0, 0.0))))
    driven.settle()
    assert driven.phase() is TxPhase.COMMITTING
    assert driven.stats.non_orthogonal_shards == is_alike
    assert driven.stats.orthogonal_merges == (not is_alike)
    assert DistributedTxConfig().orthogonal_threshold == 0.1


def test_each_transaction_is_counted_once_whatever_has_to_be_said_again() -> None:
    state = TxRecoveryState()
    assert state.apply((TxBegin(X, parts(X), 5_000, 77), AbortIntent(X, "held", (ONE, TWO)))) is None
    driven = Driven(state)
    assert (driven.stats.started, driven.stats.recovered, driven.stats.aborted) == (1, 1, 1)
    driven.begun(Y)
    assert driven.coordinator.undecided == 1
    for _ in range(6):
        driven.tick(4_000)
        driven.settle()
        assert driven.is_balanced()
    driven.query(tx=X)
    assert (driven.stats.started, driven.stats.aborted, driven.stats.timed_out) == (2, 2, 1)
    driven.tick(30_000)
    driven.settle()
    assert driven.coordinator.pending() == ()
    assert (driven.stats.started, driven.stats.aborted) == (2, 2)


def test_times_are_those_from_the_beginning_to_the_decision_and_from_there_to_the_end() -> None:
    driven = Driven().begun()
    driven.now_ms += 40
    driven.vote(ONE)
    driven.vote(TWO)
    driven.settle()
    driven.now_ms += 7
    driven.ack(ONE)
    driven.ack(TWO)
    driven.settle()
    assert driven.stats.prepare_times.total_ns == 40_000_000
    assert driven.stats.to_end_times.total_ns == 7_000_000
