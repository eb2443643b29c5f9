"""Every check, with the block that only this check can refuse. Whatever is refused has changed nothing."""

import math

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.block import ZERO, Block
from bobbin.cluster.chain.encoding import envelope_hash
from bobbin.cluster.chain.hashing import PLAIN
from bobbin.cluster.chain.judging import TRANSACTIONS_MAX
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import CounterAdd, Embed, Put, ReadVersion, Transaction
from bobbin.cluster.raft.fast_path import Check
from tests.support.chains import ALICE, BOB, fingerprint, forged, made, new_ledger, put_on, signed, transaction, unit


def _ledger() -> Ledger:
    ledger = new_ledger()
    put_on(ledger, Put(b"a", b"1"), Embed(b"a", unit(2)))
    put_on(ledger, Put(b"b", b"2"))
    return ledger


def _block(ledger: Ledger) -> Block:
    return made(ledger, transaction(Put(b"c", b"3"), Embed(b"c", unit(3)), since=2, reads={b"a": 1}))


def _with(block: Block, *transactions: Transaction) -> Block:
    """Other transactions, with the roots that belong to them: only what they lead to can be wrong."""
    return forged(
        block, transactions=transactions, tx_root=PLAIN.tx_root(transactions), envelope_hash=envelope_hash(transactions)
    )


def _refused(ledger: Ledger, block: Block, check: Check) -> str:
    before = fingerprint(ledger)
    judged, appended = ledger.judge(block), ledger.append(block)
    assert isinstance(judged, str)
    assert judged.startswith(check.value + ":")
    assert appended == judged
    assert fingerprint(ledger) == before
    return judged


def test_a_good_block_passes() -> None:
    ledger = _ledger()
    assert isinstance(ledger.append(_block(ledger)), Appended)


@pytest.mark.parametrize("height", [0, 1, 2, 4])
def test_height_must_be_the_next(height: int) -> None:
    ledger = _ledger()
    asked = made(ledger, transaction(Put(b"c", b"3")))
    _refused(ledger, forged(asked, height=height), Check.LIMITS if height == 0 else Check.HEIGHT)


def test_the_previous_hash_must_be_that_of_the_tip() -> None:
    ledger = _ledger()
    _refused(ledger, forged(_block(ledger), prev_hash=ledger.tip_block.header.prev_hash), Check.PREVIOUS_HASH)
    _refused(ledger, forged(_block(ledger), prev_hash=ZERO), Check.PREVIOUS_HASH)


def test_the_root_must_be_that_of_the_operations() -> None:
    """A zero root is not filled in."""
    ledger = _ledger()
    block = _block(ledger)
    _refused(ledger, forged(block, tx_root=ZERO), Check.TRANSACTION_ROOT)
    other = replace(block.transactions[0], operations=(Put(b"c", b"4"), Embed(b"c", unit(3))))
    _refused(ledger, replace(block, transactions=(other,)), Check.TRANSACTION_ROOT)


@pytest.mark.parametrize(
    "changes", [{"id": b"x" * 16}, {"reads": ()}, {"reads": (ReadVersion(b"a", 2),)}, {"since": 1}, {"born_ms": 1}]
)
def test_what_is_said_besides_the_operations_is_fixed_too(changes: dict[str, object]) -> None:
    ledger = _ledger()
    block = _block(ledger)
    _refused(ledger, replace(block, transactions=(replace(block.transactions[0], **changes),)), Check.TRANSACTION_ROOT)


@pytest.mark.parametrize("at", ["height 1", "later"])
def test_every_block_needs_the_signature_of_its_proposer(at: str) -> None:
    ledger = new_ledger() if at == "height 1" else _ledger()
    block = made(ledger, transaction(Put(b"c", b"3")))
    header = block.header
    wrong = [
        b"",
        bytes(96),
        header.signature[:-1],
        header.signature[:-1] + bytes([header.signature[-1] ^ 1]),
        bytes(32) + header.signature[32:],
        BOB.public + header.signature[32:],
        signed(header, BOB).signature,
        signed(replace(header, timestamp_ms=header.timestamp_ms + 1)).signature,
    ]
    for signature in wrong:
        _refused(ledger, replace(block, header=replace(header, signature=signature)), Check.SIGNATURE)
    _refused(ledger, replace(block, header=replace(header, proposer=BOB.node)), Check.SIGNATURE)
    assert isinstance(ledger.append(block), Appended)


def test_the_embedding_must_be_the_change_that_the_operations_make() -> None:
    ledger = _ledger()
    block = _block(ledger)
    vector = block.header.delta_embedding
    longer = Embedding(vector.dimension, vector.positions, tuple(2 * value for value in vector.values))
    for other in (unit(1), longer, Embedding(8, (), ())):
        _refused(ledger, forged(block, delta_embedding=other), Check.DELTA)


def test_the_state_root_must_be_where_the_operations_lead() -> None:
    ledger = _ledger()
    for root in (ZERO, ledger.state_root):
        _refused(ledger, forged(_block(ledger), state_root=root), Check.STATE_ROOT)


def test_a_transaction_that_was_overtaken_is_in_no_valid_block() -> None:
    ledger = _ledger()
    block = made(ledger, transaction(CounterAdd(b"n", 1), since=2))
    blind = transaction(Put(b"b", b"x"), since=1)
    stale = transaction(CounterAdd(b"n", 1), since=2, reads={b"b": 0})
    for one in (blind, stale):
        assert "may not commit" in _refused(ledger, _with(block, one), Check.DELTA)
    both = (transaction(Put(b"n", b"1"), since=2), transaction(Put(b"n", b"2"), since=2))
    assert "transaction 1 may not commit" in _refused(ledger, _with(block, *both), Check.DELTA)


@pytest.mark.parametrize(
    "changes",
    [
        {"delta_embedding": Embedding(8, (0,), (math.nan,))},
        {"delta_embedding": Embedding(9, (), ())},
        {"quantized_codes": (70_000,)},
        {"codebook_version": 1},
        {"timestamp_ms": 999},
        {"timestamp_ms": -1},
        {"prev_hash": b"short"},
    ],
)
def test_headers_out_of_bounds_are_refused_first(changes: dict[str, object]) -> None:
    ledger = _ledger()
    block = _block(ledger)
    _refused(ledger, replace(block, header=replace(block.header, **changes)), Check.LIMITS)


@pytest.mark.parametrize(
    "operation",
    [
        Put(b"", b""),
        Put(bytes(4_097), b""),
        Embed(b"k", Embedding(8, (0,), (math.inf,))),
        Embed(b"k", Embedding(7, (), ())),
    ],
)
def test_operations_out_of_bounds_are_refused_first(operation: Put | Embed) -> None:
    ledger = _ledger()
    block = _block(ledger)
    _refused(ledger, replace(block, transactions=(transaction(operation, since=2),)), Check.LIMITS)


def test_a_block_is_neither_empty_nor_overfull() -> None:
    ledger = _ledger()
    block = _block(ledger)
    _refused(ledger, replace(block, transactions=()), Check.LIMITS)
    many = transaction(*[Put(b"k", b"")] * 500, since=2)
    more = transaction(*[Put(b"k", b"")] * 501, since=2)
    _refused(ledger, replace(block, transactions=(many, replace(many, id=bytes(16)))), Check.TRANSACTION_ROOT)
    _refused(ledger, replace(block, transactions=(many, more)), Check.LIMITS)
    _refused(ledger, replace(block, transactions=(many, many)), Check.LIMITS)
    readers = tuple(transaction(since=2) for _ in range(TRANSACTIONS_MAX + 1))
    _refused(ledger, replace(block, transactions=readers), Check.LIMITS)
    _refused(ledger, replace(block, transactions=(transaction(Put(b"k", b""), since=3),)), Check.LIMITS)


def test_the_order_of_the_checks_is_that_of_the_fast_path() -> None:
    ledger = _ledger()
    judgement = ledger.judgement(_block(ledger))
    for check in Check:
        assert judgement.fault(check) is None
    assert judgement.delta == judgement.block.header.delta_embedding
    assert isinstance(ledger.append(judgement.block, judgement.draft()), Appended)
    assert judgement.draft().header.proposer == ALICE.node
