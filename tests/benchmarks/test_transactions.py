"""The benchmark of transactions: both sides really commit, what is not committed is no figure, bars are as promised."""

import asyncio
from pathlib import Path

import pytest

from benchmarks import transactions, transactions_bobbin
from benchmarks.network_processes import PeerFailedError
from benchmarks.transactions import LARGE, RAFT, SMALL
from benchmarks.transactions_bobbin import shard
from bobbin.cluster.operations import Operation, Put
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.tensor_chain import Result, TensorChain


def test_both_sides_commit_what_they_are_asked_to(tmp_path: Path) -> None:
    with shard(tmp_path, 50) as asked:
        assert asked.raft(100, 10) > 0
        assert asked.chain(100, 10) > 0


class _Chain(TensorChain):
    """Answers always the same."""

    def __init__(self, ended: Ended, refusals: tuple[tuple[Operation, str], ...] = ()) -> None:
        self._answer = Result(ended=ended, tx=TxId(bytes(16)), reason="because", refusals=refusals)

    async def write(self, *operations: Operation) -> Result:
        assert operations
        return self._answer


class _Client(ClusterClient):
    def __init__(self) -> None:
        pass

    async def put(self, key: bytes, value: bytes) -> int:
        del key, value
        return 7


def test_what_is_not_committed_or_done_twice_is_no_figure() -> None:
    for chain in (_Chain(Ended.CONFLICT), _Chain(Ended.COMMITTED, ((Put(b"k", b""), "not so"),))):
        with pytest.raises(PeerFailedError, match="not committed: because"):
            asyncio.run(transactions_bobbin.chain_rate(chain, 10, 1, 1))
        with pytest.raises(PeerFailedError, match="not filled: because"):
            asyncio.run(transactions_bobbin.fill(chain, 10))
    with pytest.raises(PeerFailedError, match="2 transactions have 1 ids"):
        asyncio.run(transactions_bobbin.chain_rate(_Chain(Ended.COMMITTED), 10, 2, 1))
    with pytest.raises(PeerFailedError, match="2 writes have 1 places"):
        asyncio.run(transactions_bobbin.raft(_Client(), 10, 2, 1))


class _Fake:
    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def raft(self, count: int, clients: int) -> float:
        self.asked.append(("raft", count, clients))
        return 10.0

    def chain(self, count: int, clients: int) -> float:
        self.asked.append(("chain", count, clients))
        return 7.0


def test_the_sides_take_turns_under_the_same_clients_and_are_warm() -> None:
    small, large = _Fake(), _Fake()
    rates = transactions.measure({SMALL: small, LARGE: large}, 30, 2, clients=5)
    assert rates == {RAFT: [10.0, 10.0], SMALL: [7.0, 7.0], LARGE: [7.0, 7.0]}
    raft, chain = ("raft", 30, 5), ("chain", 30, 5)
    assert small.asked == [raft, chain, raft, chain, chain, raft]
    assert large.asked == [chain] * 3


def test_the_bars_are_those_that_were_promised() -> None:
    rates = {RAFT: [10.0], SMALL: [7.0], LARGE: [7 / 1.3]}
    found = transactions.ratios(rates)
    assert [(ratio.value, ratio.bar, ratio.comparison) for ratio in found] == [(0.7, 0.7, ">="), (1.3, 1.3, "<=")]
    assert not any(ratio.missed for ratio in found)
    assert all(ratio.missed for ratio in transactions.ratios({RAFT: [10.0], SMALL: [6.9], LARGE: [5.0]}))
    assert [row.note for row in transactions.rows(rates, 1_000, 100_000)] == ["", "1,000 keys", "100,000 keys"]
