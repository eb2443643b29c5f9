"""What no coordinator begins."""

import pytest

from bobbin.cluster.transactions.admission import why_malformed
from bobbin.cluster.transactions.names import SHARD_MAX, ShardId, TxId
from tests.unit.cluster.transactions.driven import ONE, TWO, X, Y, part, parts


def test_what_makes_sense_is_admitted() -> None:
    assert why_malformed(X, parts(X), 1) is None
    assert why_malformed(X, parts(X, ShardId(0), ShardId(SHARD_MAX)), 10**6) is None


@pytest.mark.parametrize(
    ("tx", "shards", "timeout_ms", "reason"),
    [
        (TxId(b""), (ONE,), 1, "16 bytes, not 0"),
        (TxId(bytes(17)), (ONE,), 1, "16 bytes, not 17"),
        (X, (TWO, ONE), 1, "ascending"),
        (X, (ONE, ONE), 1, "each once"),
        (X, (ShardId(-1),), 1, "numbered"),
        (X, (ShardId(SHARD_MAX + 1),), 1, "numbered"),
        (X, (ONE,), 0, "above 0"),
    ],
)
def test_what_makes_none_is_refused_with_a_reason(
    tx: TxId, shards: tuple[ShardId, ...], timeout_ms: int, reason: str
) -> None:
    assert reason in (why_malformed(tx, parts(tx, *shards), timeout_ms) or "")


def test_no_parts_and_parts_of_others_are_refused() -> None:
    assert "participants" in (why_malformed(X, (), 1) or "")
    assert "another id" in (why_malformed(X, ((ONE, part(X, ONE)), (TWO, part(Y, TWO))), 1) or "")
