from msgspec.structs import replace

from bobbin.cluster.chain.block import ZERO, BlockHeader, genesis
from bobbin.cluster.chain.encoding import header_hash
from bobbin.cluster.chain.verification import Flaw, verify_blocks
from bobbin.cluster.operations import Put
from tests.support.chains import BOB, made, new_ledger, put_on, transaction
from tests.vectors.load import load


def test_a_header_has_the_fields_of_the_protocol() -> None:
    assert BlockHeader.__struct_fields__ == (
        "height",
        "prev_hash",
        "tx_root",
        "envelope_hash",
        "state_root",
        "delta_embedding",
        "quantized_codes",
        "codebook_version",
        "timestamp_ms",
        "proposer",
        "signature",
    )


def test_genesis_is_pinned() -> None:
    first = genesis(128)
    header = first.header
    assert (header.height, header.prev_hash, header.tx_root, header.state_root) == (0, ZERO, ZERO, ZERO)
    assert (header.signature, first.transactions) == (b"", ())
    assert header_hash(header).hex() == load("cluster/chain.json")["genesis"]["128"]
    assert header_hash(genesis(64).header) != header_hash(header)


def test_another_genesis_is_refused() -> None:
    """At the beginning of a chain, and as a block that would be put on one."""
    ledger = new_ledger()
    other = genesis(8)
    other = replace(other, header=replace(other.header, timestamp_ms=1))
    put_on(ledger, Put(b"a", b"1"))
    assert verify_blocks(ledger, dimension=8) is None
    found = verify_blocks([other, *ledger.blocks(1, 1)], dimension=8)
    assert found is not None
    assert (found.height, found.flaw) == (0, Flaw.GENESIS)
    fresh = new_ledger()
    for block in (genesis(8), other):
        assert isinstance(fresh.append(block), str)
    assert fresh.height == 0


def test_a_block_on_another_genesis_does_not_follow() -> None:
    elsewhere = new_ledger(dimension=9)
    block = made(elsewhere, transaction(Put(b"a", b"1")))
    ledger = new_ledger(dimension=8)
    assert isinstance(ledger.append(block), str)
    forged = replace(block, header=replace(block.header, proposer=BOB.node))
    assert isinstance(elsewhere.append(forged), str)
    assert elsewhere.height == ledger.height == 0
