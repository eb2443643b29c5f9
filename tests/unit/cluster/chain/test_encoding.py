import math

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.block import ZERO, BlockHeader
from bobbin.cluster.chain.encoding import (
    CO_SIGNATURE_TAG,
    ENVELOPES_TAG,
    HEADER_TAG,
    co_signature_bytes,
    envelope_hash,
    header_bytes,
    header_hash,
    why_header_invalid,
)
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import Delete, Put, ReadVersion, Transaction
from tests.vectors.load import load

HEADER = BlockHeader(
    height=7,
    prev_hash=b"p" * 32,
    tx_root=b"t" * 32,
    envelope_hash=b"e" * 32,
    state_root=b"s" * 32,
    delta_embedding=Embedding(8, (1, 5), (0.5, -3.0)),
    quantized_codes=(3, 65_535),
    codebook_version=2,
    timestamp_ms=1_700_000_000_000,
    proposer=NodeId("0123456789abcdef0123456789abcdef"),
)
CHANGED = {
    "height": 8,
    "prev_hash": b"q" * 32,
    "tx_root": b"q" * 32,
    "envelope_hash": b"q" * 32,
    "state_root": b"q" * 32,
    "delta_embedding": Embedding(8, (1, 5), (0.5, -3.0000000000000004)),
    "quantized_codes": (3, 65_534),
    "codebook_version": 3,
    "timestamp_ms": 1_700_000_000_001,
    "proposer": NodeId("0123456789abcdef0123456789abcdee"),
}


def test_the_bytes_are_the_ones_fixed_for_ever() -> None:
    """Hash and signature are over the same bytes."""
    vector = load("cluster/chain.json")["header"]
    assert header_bytes(HEADER).hex() == vector["bytes"]
    assert header_hash(HEADER).hex() == vector["hash"]
    signer = Identity(bytes.fromhex(vector["seed"]))
    assert signer.sign(header_bytes(HEADER)).hex() == vector["signature"]


@pytest.mark.parametrize("field", BlockHeader.__struct_fields__)
def test_a_change_of_any_field_but_the_signature_changes_the_hash(field: str) -> None:
    if field == "signature":
        assert header_hash(replace(HEADER, signature=b"x" * 96)) == header_hash(HEADER)
    else:
        assert header_hash(replace(HEADER, **{field: CHANGED[field]})) != header_hash(HEADER)


def test_neighbouring_parts_cannot_be_taken_for_one_another() -> None:
    """A concatenation without lengths gives each of these pairs one text."""
    pairs: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"quantized_codes": (0x4141,), "proposer": NodeId("B")}, {"quantized_codes": (), "proposer": NodeId("AAB")}),
        ({"prev_hash": b"a" * 31, "tx_root": b"a" * 33}, {"prev_hash": b"a" * 33, "tx_root": b"a" * 31}),
        (
            {"delta_embedding": Embedding(8, (1,), (0.0,)), "quantized_codes": ()},
            {"delta_embedding": Embedding(8, (), ()), "quantized_codes": (0, 1, 0, 0, 0, 0)},
        ),
        ({"prev_hash": b""}, {"prev_hash": ZERO}),
    ]
    for one, other in pairs:
        assert header_bytes(replace(HEADER, **one)) != header_bytes(replace(HEADER, **other))


def test_each_kind_of_text_has_a_tag_of_its_own() -> None:
    tags = [HEADER_TAG, ENVELOPES_TAG, CO_SIGNATURE_TAG]
    assert not any(one.startswith(other) for one in tags for other in tags if one is not other)
    assert header_bytes(HEADER).startswith(HEADER_TAG)
    assert co_signature_bytes(ZERO) == CO_SIGNATURE_TAG + ZERO


_ONE = Transaction(b"1" * 16, (Put(b"a", b""), Delete(b"b")), (ReadVersion(b"r", 3),), 4, 5, 6)
_TWO = Transaction(b"2" * 16, (), (), 0, 0, 0)


@pytest.mark.parametrize(
    "changed",
    [
        (_TWO, _ONE),
        (_ONE,),
        (_ONE, _TWO, _TWO),
        (replace(_ONE, id=b"3" * 16), _TWO),
        (replace(_ONE, reads=(ReadVersion(b"r", 2),)), _TWO),
        (replace(_ONE, reads=(ReadVersion(b"q", 3),)), _TWO),
        (replace(_ONE, reads=()), _TWO),
        (replace(_ONE, since=3), _TWO),
        (replace(_ONE, born_ms=6), _TWO),
        (replace(_ONE, priority=-6), _TWO),
        (replace(_ONE, operations=_ONE.operations[:1]), replace(_TWO, operations=_ONE.operations[1:])),
    ],
)
def test_the_envelopes_fix_all_that_the_operations_do_not(changed: tuple[Transaction, ...]) -> None:
    assert envelope_hash(changed) != envelope_hash((_ONE, _TWO))


def test_the_hash_of_the_envelopes_is_fixed_for_ever() -> None:
    assert envelope_hash((_ONE, _TWO)).hex() == load("cluster/chain.json")["envelopes"]
    assert envelope_hash(()) == ZERO


@pytest.mark.parametrize(
    "wrong",
    [
        {"height": -1},
        {"height": 2**63},
        {"timestamp_ms": -1},
        {"codebook_version": 2**63},
        {"prev_hash": b"short"},
        {"tx_root": b""},
        {"state_root": bytes(33)},
        {"envelope_hash": bytes(31)},
        {"quantized_codes": (65_536,)},
        {"quantized_codes": (-1,)},
        {"quantized_codes": (1,) * 17},
        {"delta_embedding": Embedding(8, (0,), (math.nan,))},
        {"delta_embedding": Embedding(8, (8,), (1.0,))},
        {"delta_embedding": Embedding(9, (), ())},
        {"proposer": NodeId("x" * 257)},
        {"proposer": NodeId("\ud800")},
    ],
)
def test_headers_that_make_no_sense_are_named(wrong: dict[str, object]) -> None:
    assert why_header_invalid(HEADER, dimension=8) is None
    assert why_header_invalid(replace(HEADER, **wrong), dimension=8) is not None
