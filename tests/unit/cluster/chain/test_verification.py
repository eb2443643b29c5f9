"""A chain of five blocks with one spoilt: the verdict names that block, and what is wrong with it."""

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.chain.verification import Flaw, verify_blocks
from bobbin.cluster.operations import Put
from tests.support.chains import BOB, forged, new_ledger, put_on, signed, transaction


def _ledger() -> Ledger:
    ledger = new_ledger()
    for number in range(5):
        put_on(ledger, Put(b"%d" % number, b""), at_ms=100 + number)
    return ledger


def _chained(blocks: list[Block], at: int, spoilt: Block) -> list[Block]:
    return [*blocks[:at], spoilt, *blocks[at + 1 :]]


def test_a_good_chain_has_no_fault() -> None:
    ledger = _ledger()
    assert ledger.verify() is None
    assert verify_blocks(ledger, dimension=8) is None
    assert verify_blocks(ledger.blocks(0, 0), dimension=8) is None


@pytest.mark.parametrize("at", [1, 3, 5])
def test_the_first_bad_block_is_named(at: int) -> None:
    """At the end of the chain a look at the links alone would find none of these but the second."""
    blocks = list(_ledger())
    good = blocks[at]
    other = replace(good.transactions[0], operations=(Put(b"other", b""),))
    spoilt = {
        Flaw.HEIGHT: forged(good, height=at + 1),
        Flaw.PREVIOUS_HASH: forged(good, prev_hash=bytes(32)),
        Flaw.TRANSACTION_ROOT: replace(good, transactions=(other,)),
        Flaw.TIMESTAMP: forged(good, timestamp_ms=good.header.timestamp_ms - 2),
        Flaw.SIGNATURE: replace(good, header=replace(good.header, signature=signed(good.header, BOB).signature)),
        Flaw.LIMITS: replace(good, header=replace(good.header, quantized_codes=(99_999,))),
    }
    if at == 1:
        # Nothing is before genesis, whose time is 0.
        del spoilt[Flaw.TIMESTAMP]
    for flaw, block in spoilt.items():
        found = verify_blocks(_chained(blocks, at, block), dimension=8)
        assert found is not None
        assert (found.height, found.flaw) == (at, flaw)
        assert found.reason


def test_an_unsigned_block_is_a_fault_at_every_height() -> None:
    blocks = list(_ledger())
    for at in range(1, 6):
        block = blocks[at]
        found = verify_blocks(
            _chained(blocks, at, replace(block, header=replace(block.header, signature=b""))), dimension=8
        )
        assert found is not None
        assert (found.height, found.flaw) == (at, Flaw.SIGNATURE)


def test_ids_and_reads_are_covered_too() -> None:
    blocks = list(_ledger())
    block = blocks[2]
    other = replace(block.transactions[0], id=b"x" * 16)
    found = verify_blocks(_chained(blocks, 2, replace(block, transactions=(other,))), dimension=8)
    assert found is not None
    assert (found.height, found.flaw) == (2, Flaw.TRANSACTION_ROOT)


def test_operations_out_of_bounds_are_a_fault() -> None:
    blocks = list(_ledger())
    wrong = replace(blocks[4], transactions=(transaction(Put(b"", b"")),))
    found = verify_blocks(_chained(blocks, 4, wrong), dimension=8)
    assert found is not None
    assert (found.height, found.flaw) == (4, Flaw.LIMITS)


def test_a_chain_begins_with_genesis() -> None:
    blocks = list(_ledger())
    for wrong in ([], blocks[1:]):
        found = verify_blocks(wrong, dimension=8)
        assert found is not None
        assert (found.height, found.flaw) == (0, Flaw.GENESIS)
    found = verify_blocks(blocks, dimension=9)
    assert found is not None
    assert found.flaw is Flaw.GENESIS


def test_a_store_that_is_not_what_the_newest_block_says_is_a_fault() -> None:
    ledger = _ledger()
    ledger._tree.update([(b"planted", b"")])
    found = ledger.verify()
    assert found is not None
    assert (found.height, found.flaw) == (5, Flaw.STATE_ROOT)
