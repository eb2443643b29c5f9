"""Ids of transactions and shards."""

from typing import Final, NewType

from bobbin.errors import UsageError

ShardId = NewType("ShardId", int)
"""From 0, below the number of shards."""
TxId = NewType("TxId", bytes)
"""16 bytes: eight for the height of the home shard at which it was made up, most significant first, eight by chance."""
TX_ID_BYTES: Final = 16
CHANCE_BYTES: Final = TX_ID_BYTES - 8
SHARD_MAX: Final = 65_535


def tx_id(since: int, chance: bytes) -> TxId:
    """A new id; ``chance`` is eight bytes that nobody else draws."""
    if len(chance) != CHANCE_BYTES:
        raise UsageError(f"the id of a transaction takes {CHANCE_BYTES} bytes of chance, not {len(chance)}")
    return TxId(since.to_bytes(8, "big") + chance)


def first_id(since: int) -> bytes:
    """What no id of a height is below, and every id of a lower one is."""
    return since.to_bytes(8, "big")


def since_of(id: bytes) -> int:
    """The height at which an id was made up."""
    return int.from_bytes(id[:8], "big")
