"""Blocks with anything in any field: refused or put on, never an exception, and a refusal has changed nothing.

What comes out of a log has the right types and nothing else is known of it. Some of these blocks are signed anew after
they were spoilt, so that the signature is not what is wrong with them.
"""

import math
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields, replace

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.encoding import envelope_hash, header_bytes, why_header_invalid
from bobbin.cluster.chain.hashing import PLAIN
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    CounterAdd,
    Delete,
    EdgeCreate,
    Embed,
    NodeCreate,
    Put,
    SetAdd,
    TableInsert,
    TableUpdate,
    VectorAdd,
    why_invalid,
)
from tests.properties.effort import scaled
from tests.support.chains import ALICE, fingerprint, made, new_ledger, put_on, signed, transaction, unit

_NUMBERS = [-(2**63), -1, 0, 1, 2, 3, 65_536, 2**63, 2**64 - 1]
_FLOATS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 1e308, 2.0]
_BYTES = [b"", b"k", b"emb:k", bytes(31), bytes(32), bytes(33), bytes(96), bytes(5_000)]
_TEXTS = ["", "x", "\ud800", "x" * 5_000]


def _spoilt(chance: Random, value: object) -> object:
    """The same with one thing in it changed, somewhere."""
    match value:
        case bool():
            return not value
        case int():
            return chance.choice(_NUMBERS)
        case float():
            return chance.choice(_FLOATS)
        case bytes():
            return chance.choice(_BYTES)
        case str():
            return chance.choice(_TEXTS)
        case tuple():
            items = list(value)
            at = chance.randrange(len(items) + 1)
            if items and chance.random() < 0.6:
                at = chance.randrange(len(items))
                items[at] = _spoilt(chance, items[at])
            elif items and chance.random() < 0.5:
                del items[min(at, len(items) - 1)]
            elif items:
                items.insert(at, chance.choice(items))
            return tuple(items)
        case Struct():
            name = chance.choice(fields(value)).name
            return replace(value, **{name: _spoilt(chance, getattr(value, name))})
        case _:
            return value


def _ledger() -> Ledger:
    ledger = new_ledger()
    put_on(ledger, Put(b"a", b"1"), Embed(b"v", unit(1)), CounterAdd(b"n", 1))
    put_on(ledger, Delete(b"a"), SetAdd(b"s", b"m"))
    return ledger


def _block(ledger: Ledger) -> Block:
    return made(
        ledger,
        transaction(Put(b"k", b"v"), Embed(b"w", Embedding(8, (1, 4), (0.5, -1.0))), since=2, reads={b"n": 1}),
        transaction(CounterAdd(b"n", 2), VectorAdd(b"v", unit(2)), SetAdd(b"s", b"x"), since=1),
        transaction(EdgeCreate(b"a", b"b", "t"), NodeCreate(b"a", "l"), since=2),
        transaction(TableInsert(b"t", (b"1",)), TableUpdate(b"t", b"r", (b"2", b"")), since=0),
    )


def _is_writable(block: Block) -> bool:
    """Whether it has bytes at all: only then can somebody sign it."""
    sound = all(why_invalid(one, dimension=8) is None for one in block.transactions)
    return sound and why_header_invalid(block.header, dimension=8) is None


@given(st.integers(0, 2**32))
@scaled(0.4)
def test_whatever_a_block_holds_it_is_put_on_or_refused(seed: int) -> None:
    chance = Random(seed)
    ledger = _ledger()
    block = _block(ledger)
    for _ in range(chance.choice([1, 1, 2, 3])):
        spoilt = _spoilt(chance, block)
        assert isinstance(spoilt, Block)
        block = spoilt
    if chance.random() < 0.7 and _is_writable(block):
        roots = {"tx_root": PLAIN.tx_root(block.transactions), "envelope_hash": envelope_hash(block.transactions)}
        header = replace(block.header, **roots) if chance.random() < 0.7 else block.header
        block = replace(block, header=signed(header))
    before = fingerprint(ledger)
    judged = ledger.judge(block)
    assert fingerprint(ledger) == before
    appended = ledger.append(block)
    if isinstance(appended, Appended):
        assert not isinstance(judged, str)
        assert ledger.verify() is None
        assert header_bytes(block.header) == judged.signed_bytes
    else:
        assert appended == judged
        assert fingerprint(ledger) == before


@given(st.integers(0, 2**32))
@scaled(0.4)
def test_whatever_a_transaction_holds_it_is_drafted_or_left_out(seed: int) -> None:
    chance = Random(seed)
    ledger = _ledger()
    given_ones = list(_block(ledger).transactions)
    at = chance.randrange(len(given_ones))
    spoilt = _spoilt(chance, given_ones[at])
    assert isinstance(spoilt, type(given_ones[at]))
    given_ones[at] = spoilt
    before = fingerprint(ledger)
    draft = ledger.draft(given_ones, proposer=ALICE.node, timestamp_ms=5_000)
    assert len(draft.transactions) + len(draft.clashes) == len(given_ones)
    assert fingerprint(ledger) == before
    assert all(why_invalid(one, dimension=8) is None for one in draft.transactions)
