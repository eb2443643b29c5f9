"""A sample of kills and cuts against two shards under transactions; ``evidence/chain_kill.py`` makes them all."""

import asyncio

import pytest

from bobbin.cluster.transactions.names import ShardId
from bobbin.runtime.tensor_chain import TensorChain
from evidence.chain_kill import Campaign, campaign, result_of
from evidence.chain_load import ON, Load, names, own_counter
from evidence.cluster_kill import EVERYBODY, FOLLOWER, LEADER
from evidence.cluster_nodes import Timeouts
from tests.oracle.serializability import Append, Kind, Outcome, Read, Transaction

PATIENT = Timeouts(election=(500, 1_000), heartbeat=150, rpc=300)
"""For a machine that has much else to do."""


@pytest.mark.slow
def test_kills_and_cuts_under_transactions_leave_totals_exact_and_one_order() -> None:
    """CL-165, CL-302: one kill of a leader, one of all at once, and one cut."""
    found = asyncio.run(campaign(kills=2, cuts=1, seed=1, timeouts=PATIENT, clients=4, victims=[LEADER, EVERYBODY]))
    assert found.kills == {LEADER: 1, FOLLOWER: 0, EVERYBODY: 1}
    assert len(found.cuts) == 1
    assert len(found.recoveries) == 1
    # Each of these is looked at once more at the end, so there is one of each at least.
    assert {"audit: committed", "sum: committed", "look: committed"} <= found.counts.keys()
    assert found.listed > 0
    assert not [ratio.name for ratio in result_of(found).ratios if ratio.missed]


# ---- the judge ------------------------------------------------------------------------------------------------------


def _found(**wrong: int | str | bool) -> Campaign:
    plain: dict[str, object] = {
        "kills": {},
        "cuts": {},
        "recoveries": [],
        "counts": {"audit: committed": 3},
        "listed": 3,
        "acknowledged": 3,
        "wrong_totals": 0,
        "abandoned_pairs": 0,
        "anomaly": "",
        "lost": 0,
        "invented": 0,
        "are_roots_equal": True,
        "parted_chains": 0,
        "bad_chains": 0,
        "terms_with_two_leaders": 0,
        "ended_alone": 0,
    }
    return Campaign(**{**plain, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"wrong_totals": 1},
        {"abandoned_pairs": 1},
        {"anomaly": "G2"},
        {"lost": 1},
        {"invented": 1},
        {"are_roots_equal": False},
        {"parted_chains": 1},
        {"bad_chains": 1},
        {"terms_with_two_leaders": 1},
        {"ended_alone": 1},
    ],
)
def test_whatever_is_wrong_misses_a_bar(wrong: dict[str, int | str | bool]) -> None:
    assert sum(ratio.missed for ratio in result_of(_found(**wrong)).ratios) == 1
    assert not any(ratio.missed for ratio in result_of(_found()).ratios)


class _TwoShards(TensorChain):
    """Knows where keys are, and nobody to ask."""

    def __init__(self) -> None:
        pass

    @property
    def shards(self) -> int:
        return 2

    def shard_of(self, key: bytes) -> ShardId:
        return ShardId(key[-1] % 2)


def test_the_work_is_spread_over_both_shards() -> None:
    chain = _TwoShards()
    assert names(chain, b"a", 2) == (b"a/0", b"a/2", b"a/1", b"a/3")
    pairs = Load([chain], seed=1).pairs
    assert [{chain.shard_of(doctor) for doctor in pair} for pair in pairs] == [{0, 1}, {0, 1}, {0}]


def test_a_total_a_pair_and_an_addition_that_are_wrong_are_counted() -> None:
    load = Load([_TwoShards()], seed=1)
    load.note_total(400, 400)
    load.note_pair([ON, None])
    assert (load.wrong_totals, load.abandoned_pairs) == (0, 0)
    load.note_total(399, 400)
    load.note_pair([None, b"gone"])
    assert (load.wrong_totals, load.abandoned_pairs) == (1, 1)
    own = own_counter("c0")
    load.counted[own] = 3
    load.uncertain[own] = 2
    assert [load.lost({own: count}) for count in (1, 3, 5, 6)] == [2, 0, 0, 0]
    assert [load.invented({own: count}) for count in (1, 3, 5, 6)] == [0, 0, 0, 1]


def test_a_refused_append_that_is_read_all_the_same_is_found() -> None:
    load = Load([_TwoShards()], seed=1)
    refused = Transaction(
        client="c0", steps=(Read(b"l", ()), Append(b"l", 1)), outcome=Outcome.ABORTED, called=1, returned=2
    )
    load.history.append(refused)
    assert load.anomaly() is None
    load.history.append(
        Transaction(client="c1", steps=(Read(b"l", (1,)),), outcome=Outcome.COMMITTED, called=3, returned=4)
    )
    found = load.anomaly()
    assert found is not None
    assert found.kind is Kind.G1A
