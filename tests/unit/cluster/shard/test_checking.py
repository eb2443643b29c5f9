import pytest

from bobbin.cluster.chain.draft import Clash, ClashKind
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Embed, Operation, Put, ReadVersion, Transaction
from bobbin.cluster.shard.checking import (
    ended_by,
    why_parts_refused,
    why_prepare_refused,
    why_timeout_refused,
    why_transaction_refused,
)
from bobbin.cluster.transactions.messages import TxPrepareMsg
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended
from tests.unit.cluster.shard.driven import DrivenShards

WORLD = DrivenShards(2)
ID = TxId(bytes(16))
HERE, THERE = WORLD.key(0), WORLD.key(1)


def why(*operations: Operation, reads: tuple[ReadVersion, ...] = (), tx: bytes = ID) -> str | None:
    return why_transaction_refused(Transaction(tx, operations, reads), shard=ShardId(0), shards=2, dimension=16)


def test_what_makes_sense_is_not_refused() -> None:
    assert why(Put(HERE, b"")) is None
    assert why(reads=(ReadVersion(b"anything", 3),)) is None


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        ((), "neither reads nor writes"),
        ((Put(THERE, b""),), "belongs to shard 1"),
        ((Put(b"k" * 4_097, b""),), "4096 bytes"),
        ((Put(HERE, b""),) * 1_001, "1000 operations"),
        ((Embed(HERE, Embedding(16, (1,), (float("nan"),))),), "finite"),
        ((Embed(HERE, Embedding(17, (1,), (1.0,))),), "16 are due"),
    ],
)
def test_what_makes_none_is_refused_with_its_reason(operations: tuple[Operation, ...], reason: str) -> None:
    found = why(*operations)
    assert found is not None
    assert reason in found


def test_a_wrong_id_is_refused() -> None:
    assert why(Put(HERE, b""), tx=b"short") is not None


@pytest.mark.parametrize(
    ("parts", "timeout_ms", "reason"),
    [
        ((), 1_000, "no parts"),
        (((0, HERE),), 0, "timeout"),
        (((0, HERE),), 300_001, "timeout"),
        (((1, THERE), (0, HERE)), 1_000, "ascend"),
        (((0, HERE), (0, HERE)), 1_000, "ascend"),
        (((0, HERE), (2, THERE)), 1_000, "ascend"),
        (((0, THERE),), 1_000, "shard 0"),
        (((0, HERE), (1, THERE)), 1_000, None),
    ],
)
def test_parts_are_of_different_shards_of_this_cluster(
    parts: tuple[tuple[int, bytes], ...], timeout_ms: int, reason: str | None
) -> None:
    made = tuple((ShardId(shard), Transaction(ID, (Put(key, b""),))) for shard, key in parts)
    found = why_parts_refused(ID, made, timeout_ms, shards=2, dimension=16)
    assert (found is None) == (reason is None)
    assert reason is None or reason in (found or "")


def test_parts_have_one_id_and_not_too_many_operations() -> None:
    mine = Transaction(ID, (Put(HERE, b""),))
    other = Transaction(bytes([1] * 16), (Put(THERE, b""),))
    assert "another transaction" in (
        why_parts_refused(ID, ((ShardId(0), mine), (ShardId(1), other)), 1_000, shards=2, dimension=16) or ""
    )
    many = [Transaction(ID, (Put(key, b""),) * 501) for key in (HERE, THERE)]
    both = ((ShardId(0), many[0]), (ShardId(1), many[1]))
    assert "1000 operations" in (why_parts_refused(ID, both, 1_000, shards=2, dimension=16) or "")
    assert why_parts_refused(TxId(b"x"), both, 1_000, shards=2, dimension=16) is not None


def test_a_prepare_is_looked_at_by_shards_then_timeout_then_vectors() -> None:
    def looked_at(shard: int, timeout_ms: int, vector: Embedding) -> str:
        part = Transaction(ID, (Embed(HERE, vector),))
        both = (ShardId(0), ShardId(1))
        message = TxPrepareMsg(ID, ShardId(1), ShardId(shard), part, vector, timeout_ms, both)
        return why_prepare_refused(message, shard=ShardId(0), shards=2, dimension=16) or ""

    bad = Embedding(16, (1,), (float("inf"),))
    assert "for shard 1" in looked_at(1, 0, bad)
    assert "timeout" in looked_at(0, 0, bad)
    assert "finite" in looked_at(0, 1, bad)
    assert looked_at(0, 1, Embedding(16, (1,), (1.0,))) == ""


def test_a_timeout_has_bounds() -> None:
    assert [why_timeout_refused(ms) is None for ms in (0, 1, 300_000, 300_001)] == [False, True, True, False]


@pytest.mark.parametrize("kind", list(ClashKind))
def test_only_what_no_later_state_allows_is_refused_for_ever(kind: ClashKind) -> None:
    expected = {
        ClashKind.STALE_READ: Ended.CONFLICT,
        ClashKind.OVERTAKEN: Ended.CONFLICT,
        ClashKind.MALFORMED: Ended.REFUSED,
        ClashKind.TOO_OLD: Ended.REFUSED,
    }
    assert ended_by(Clash(kind, "")) is expected.get(kind, Ended.BUSY)
