"""The chain benchmark: every operation of the protocol's table is in it, and what must be cheaper makes fewer calls."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from benchmarks import tensor_chain
from benchmarks.tensor_chain import RECENT, ROWS, SIGNER, is_alike, put_on, validate_fully
from bobbin.cluster.chain.checks import ChainChecks
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.operations import Put, Transaction
from bobbin.cluster.settings import ChainConfig

TABLE = {
    "transaction commit",
    "conflict detection",
    "deadlock detection",
    "gossip round",
    "heartbeat",
    "fast-path validation: similarity check",
    "full validation",
    "lock acquisition, uncontended",
    "lock acquisition, contended",
    "signature verification",
    "message validation",
}


def _calls(work: Callable[[], object]) -> int:
    count = 0

    def event(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal count
        count += kind in {"call", "c_call"}

    sys.setprofile(event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_every_operation_of_the_table_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"ROUNDS": 1, "ITEMS": 2, "LARGE_KEYS": 50, "SMALL_KEYS": 10}
    for name, value in sizes.items():
        monkeypatch.setenv(f"BOBBIN_BENCH_CHAIN_{name}", str(value))
    result = tensor_chain.run()
    assert {row.name for row in result.rows} >= TABLE
    assert len(result.rows) == len(ROWS)
    assert all(isinstance(row.value, int) and row.value > 0 for row in result.rows)
    bars = {ratio.name: (ratio.bar, ratio.comparison) for ratio in result.ratios}
    assert bars == {
        "commits: 1e5 keys / 1e3 keys": (0.77, ">="),
        "similarity check / full validation": (1.0, ">="),
        "uncontended / contended lock": (1.0, ">="),
    }


def test_the_similarity_check_makes_fewer_calls_than_full_validation() -> None:
    ledger = Ledger(config=ChainConfig())
    put_on(ledger, (Put(b"before", b""),))
    recent = [ledger.tip_block.header.delta_embedding] * RECENT
    given = Transaction(bytes(16), (Put(b"key", b"value"),), since=1)
    block = ledger.seal(ledger.draft([given], proposer=SIGNER.node, timestamp_ms=0), SIGNER)
    checks = ChainChecks(ledger, below=lambda _: None, keep=lambda _: None)
    alike, full = _calls(lambda: is_alike(recent[0], recent)), _calls(lambda: validate_fully(checks, block))
    assert 0 < alike < full


def test_a_lock_that_nobody_holds_makes_fewer_calls_than_one_that_somebody_holds() -> None:
    work = tensor_chain.locks(10)
    assert _calls(work["lock"]) < _calls(work["contended lock"])
