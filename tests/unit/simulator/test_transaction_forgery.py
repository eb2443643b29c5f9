"""Each forged block is refused by an honest ledger, and the block that it was made from is not."""

from random import Random

import pytest

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index
from bobbin.cluster.operations import Put, Transaction
from bobbin.cluster.settings import ChainConfig
from bobbin.cluster.shard.commands import Append, Kind, ReplaceCodebook
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.names import ShardId, tx_id
from bobbin.simulator.transaction_forgery import FORGERIES, forge
from bobbin.wire.cluster.shard_commands import shard_machine

IDENTITY = Identity(b"one who may sign................")


def shard_with_a_block() -> Shard:
    shard = shard_machine(shard=ShardId(0), config=ChainConfig(embedding_dimension=4))
    transaction = Transaction(id=tx_id(0, b"a" * 8), operations=(Put(b"key", b"value"),))
    draft = shard.ledger.draft([transaction], proposer=IDENTITY.node, timestamp_ms=5)
    outcome = shard.do(Index(1), Append(shard.ledger.seal(draft, IDENTITY)))
    assert outcome.kind is Kind.APPENDED
    return shard


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_block_is_refused_and_changes_nothing(kind: str) -> None:
    shard = shard_with_a_block()
    before = shard.root
    block = forge(kind, shard, IDENTITY, Random(kind))
    assert shard.do(Index(2), Append(block)).kind in {Kind.BAD_BLOCK, Kind.STALE_BLOCK}
    assert shard.root == before


def test_no_codebook_makes_a_forged_block_a_good_one() -> None:
    """A finding of a long world: the version that was made up came into force."""
    shard = shard_with_a_block()
    for version in range(1, 10):
        book = GlobalCodebook(version, [Embedding(4, (0,), (1.0,))]).encode()
        assert shard.do(Index(1 + version), ReplaceCodebook(version, book)).kind is Kind.REPLACED
        block = forge("of another codebook", shard, IDENTITY, Random(version))
        assert shard.do(Index(2), Append(block)).kind is Kind.BAD_BLOCK


def test_no_two_forgeries_are_the_same() -> None:
    shard = shard_with_a_block()
    assert len({repr(forge(kind, shard, IDENTITY, Random(1))) for kind in FORGERIES}) == len(FORGERIES)
