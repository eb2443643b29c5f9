"""What a request finds in the state of a shard."""

import pytest

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import Index
from bobbin.cluster.operations import CompareAndSwap, Delete, Embed, Put, Transaction
from bobbin.cluster.shard.commands import Prepare
from bobbin.cluster.transactions.messages import TxPrepareMsg
from bobbin.cluster.transactions.names import ShardId, tx_id
from bobbin.runtime import shard_reads
from bobbin.runtime.shard_reads import INVALID, TOO_OLD, look
from bobbin.wire.cluster.chain import (
    ChainBlocks,
    ChainBook,
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
)
from bobbin.wire.cluster.client import Rejected
from tests.support.shards import DIMENSION, new_shard, put_block


def test_keys_are_read_now_and_at_a_height() -> None:
    shard = new_shard()
    put_block(shard, Put(b"a", b"1"), number=1)
    put_block(shard, Put(b"a", b"2"), Put(b"b", b"3"), number=2)
    put_block(shard, Delete(b"b"), number=3)
    now = look(shard, ChainRead(1, (b"a", b"b", b"c")))
    assert now == ChainItems(1, 3, 3, (ChainItem(b"2", 2, 1), ChainItem(None, 0), ChainItem(None, 0)))
    then = look(shard, ChainRead(2, (b"a", b"b"), 2))
    assert then == ChainItems(2, 2, 3, (ChainItem(b"2", 2, 1), ChainItem(b"3", 2, 1)))
    assert look(shard, ChainRead(3, (), 0)) == ChainItems(3, 0, 3, ())


def test_a_height_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = new_shard()
    put_block(shard, Put(b"a", b"1"), number=1)
    ahead = look(shard, ChainRead(1, (b"a",), 2))
    assert isinstance(ahead, Rejected)
    assert ahead.why == INVALID
    monkeypatch.setattr(type(shard.ledger), "floor", property(lambda _: 1))
    gone = look(shard, ChainRead(2, (b"a",), 0))
    assert isinstance(gone, Rejected)
    assert gone.why == TOO_OLD


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = new_shard()
    for number in (1, 2, 3):
        put_block(shard, Put(b"%d" % number, bytes(600)), Put(b"same", bytes(600)), number=number)
    monkeypatch.setattr(shard_reads, "ANSWER_BYTES_MAX", 1_000)
    refused = look(shard, ChainRead(1, (b"1", b"2", b"3")))
    assert isinstance(refused, Rejected)
    assert isinstance(look(shard, ChainRead(1, (b"1", b"2"))), ChainItems)
    page = look(shard, ChainBlocks(2, 0))
    assert isinstance(page, ChainPage)
    assert [block.header.height for block in page.blocks] == [0, 1]
    first = look(shard, ChainHistory(3, b"same"))
    assert isinstance(first, ChainChanges)
    assert ([one.height for one in first.changes], first.is_whole) == ([1, 2], False)
    second = look(shard, ChainHistory(4, b"same", 2))
    assert isinstance(second, ChainChanges)
    assert ([one.height for one in second.changes], second.is_whole) == ([3], True)


def test_blocks_history_likeness_and_the_codebook() -> None:
    shard = new_shard()
    vector = Embedding.of(DIMENSION, {1: 1.0})
    blocks = [
        put_block(shard, Put(b"a", b"1"), number=1),
        put_block(shard, CompareAndSwap(b"a", b"other", b"2"), number=2),
        put_block(shard, Embed(b"e", vector), number=3),
    ]
    assert look(shard, ChainBlocks(1, 2, 1)) == ChainPage(1, (blocks[1],), 3)
    assert look(shard, ChainBlocks(1, 9)) == ChainPage(1, (), 3)
    history = look(shard, ChainHistory(2, b"a"))
    assert isinstance(history, ChainChanges)
    assert [(one.height, bool(one.refusal)) for one in history.changes] == [(1, False), (2, True)]
    near = look(shard, ChainNearest(3, vector, 1))
    assert isinstance(near, ChainNear)
    assert (near.blocks[0].height, round(near.blocks[0].similarity, 6)) == (3, 1.0)
    assert isinstance(look(shard, ChainNearest(4, Embedding.of(3, {0: 1.0}))), Rejected)
    book = look(shard, ChainCodebook(5))
    assert book == ChainBook(5, 0, GlobalCodebook().encode())


def test_what_is_promised_is_pending() -> None:
    shard = new_shard()
    tx = tx_id(0, b"promised")
    part = Transaction(tx, (Put(b"a", b"1"),))
    zero = Embedding.of(DIMENSION, {})
    message = TxPrepareMsg(tx, ShardId(1), ShardId(0), part, zero, 1_000, (ShardId(0), ShardId(1)))
    shard.do(Index(1), Prepare(message))
    found = look(shard, ChainPending(1))
    assert isinstance(found, ChainOpen)
    (one,) = found.transactions
    assert (one.tx, one.role, one.standing, one.coordinator, one.shards, found.total) == (
        tx,
        "participates",
        "promised",
        1,
        (0, 1),
        1,
    )
    assert one.keys >= 1
