"""What a request finds in the state of a shard, without changing it."""

from typing import Final, TypeAlias, assert_never

import msgspec

from bobbin.cluster.chain.history import touches
from bobbin.cluster.shard.machine import Shard
from bobbin.errors import UsageError
from bobbin.runtime.cluster_reads import ANSWER_BYTES_MAX
from bobbin.wire.cluster.chain import (
    CHANGES_MAX,
    PENDING_MAX,
    ChainAnswer,
    ChainBlocks,
    ChainBook,
    ChainChange,
    ChainChanges,
    ChainCodebook,
    ChainHistory,
    ChainItem,
    ChainItems,
    ChainNear,
    ChainNearest,
    ChainOpen,
    ChainPage,
    ChainPending,
    ChainRead,
    Near,
    PendingTransaction,
)
from bobbin.wire.cluster.client import Rejected

INVALID: Final = "invalid"
TOO_OLD: Final = "too-old"
"""The height that was asked for can be read no more."""
_CHANGE_COST: Final = 200

ShardReading: TypeAlias = ChainRead | ChainBlocks | ChainHistory | ChainPending | ChainCodebook | ChainNearest
"""Requests whose answer is made of what the node holds."""


def look(shard: Shard, request: ShardReading) -> ChainAnswer | Rejected:
    """The answer to a read, from what is applied now; what makes no sense is refused."""
    try:
        match request:
            case ChainRead():
                return _read(shard, request)
            case ChainBlocks():
                return _blocks(shard, request)
            case ChainHistory():
                return _history(shard, request)
            case ChainPending():
                return _pending(shard, request.number)
            case ChainCodebook():
                book = shard.ledger.codebook
                return ChainBook(request.number, book.version, book.encode())
            case ChainNearest():
                found = shard.ledger.similar(request.embedding, request.limit)
                return ChainNear(request.number, tuple(Near(one.height, one.similarity) for one in found))
            case _:
                assert_never(request)
    except UsageError as error:
        return Rejected(request.number, INVALID, str(error))


def is_locked(shard: Shard, request: ChainRead) -> bool:
    """Whether a promised part, which may have been decided elsewhere, holds what is to be read as it is now."""
    locks = shard.participant.locks
    return request.at is None and len(locks) > 0 and any(locks.owner(key) is not None for key in request.keys)


def _read(shard: Shard, request: ChainRead) -> ChainItems | Rejected:
    ledger = shard.ledger
    height = ledger.height if request.at is None else request.at
    if height < ledger.floor:
        text = f"height {height} can be read no more; the lowest one is {ledger.floor}"
        return Rejected(request.number, TOO_OLD, text)
    items: list[ChainItem] = []
    size = 0
    for key in request.keys:
        item = ledger.get(key, height)
        if item is None:
            items.append(ChainItem(None, 0))
            continue
        items.append(ChainItem(item.value, item.version, item.holds))
        size += len(item.value)
        if size > ANSWER_BYTES_MAX and len(items) < len(request.keys):
            return Rejected(request.number, INVALID, "these keys hold too much for one answer; ask for fewer at a time")
    return ChainItems(request.number, height, max(ledger.height, shard.recovery.horizon), tuple(items))


def _blocks(shard: Shard, request: ChainBlocks) -> ChainPage:
    ledger = shard.ledger
    page = []
    size = 0
    for block in ledger.blocks(request.first, request.first + request.limit - 1):
        page.append(block)
        size += len(msgspec.msgpack.encode(block))
        if size >= ANSWER_BYTES_MAX:
            break
    return ChainPage(request.number, tuple(page), ledger.height)


def _history(shard: Shard, request: ChainHistory) -> ChainChanges:
    """Whole blocks only, so that a page ends between two heights."""
    changes: list[ChainChange] = []
    size = 0
    heights = shard.ledger.heights_of(request.key)
    for height in heights:
        if height <= request.after:
            continue
        if changes and (len(changes) >= CHANGES_MAX or size >= ANSWER_BYTES_MAX):
            return ChainChanges(request.number, tuple(changes), is_whole=False)
        block = shard.ledger.block(height)
        assert block is not None, "what is in the history is on the chain"
        for touch in touches(block, shard.ledger.refusals(height), request.key):
            changes.append(
                ChainChange(touch.height, touch.timestamp_ms, touch.transaction, touch.operation, touch.refusal)
            )
            size += _CHANGE_COST + len(msgspec.msgpack.encode(touch.operation))
    return ChainChanges(request.number, tuple(changes), is_whole=True)


def _pending(shard: Shard, number: int) -> ChainOpen:
    found = [
        PendingTransaction(tx, "coordinates", record.phase.value, shard.shard, record.shards, 0)
        for tx, record in shard.recovery.open.items()
    ]
    for tx, promise in shard.participant.promises.items():
        message = promise.message
        standing = "promised" if promise.resolution is None else "resolved by hand"
        found.append(
            PendingTransaction(
                tx, "participates", standing, message.coordinator, message.participants, len(promise.vote.keys)
            )
        )
    return ChainOpen(number, tuple(found[:PENDING_MAX]), len(found))
