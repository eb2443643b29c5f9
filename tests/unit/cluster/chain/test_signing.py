from bobbin.cluster.chain.encoding import header_bytes
from bobbin.cluster.chain.signing import signature_of, why_header_unsigned, why_unsigned
from bobbin.cluster.operations import Put
from tests.support.chains import ALICE, BOB, made, new_ledger, transaction


def test_a_signature_names_its_signer() -> None:
    signature = signature_of(ALICE, b"text")
    assert signature[:32] == ALICE.public
    assert why_unsigned(ALICE.node, b"text", signature) is None


def test_every_other_signature_is_named_as_wrong() -> None:
    signature = signature_of(ALICE, b"text")
    assert why_unsigned(ALICE.node, b"other", signature) is not None
    assert why_unsigned(BOB.node, b"text", signature) is not None
    assert why_unsigned(ALICE.node, b"text", signature_of(BOB, b"text")) is not None
    assert why_unsigned(ALICE.node, b"text", BOB.public + signature[32:]) is not None
    assert why_unsigned(ALICE.node, b"text", signature + b"\0") is not None
    assert why_unsigned(ALICE.node, b"text", b"") is not None
    assert why_unsigned(ALICE.node, b"text", bytes(96)) is not None


def test_a_header_is_signed_over_the_bytes_that_are_hashed() -> None:
    header = made(new_ledger(), transaction(Put(b"k", b""))).header
    assert why_header_unsigned(header, header_bytes(header)) is None
    assert why_header_unsigned(header, header_bytes(header) + b"\0") is not None
