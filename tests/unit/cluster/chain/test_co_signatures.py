import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.co_signatures import BadCoSignature, CoSignatures, co_sign
from bobbin.cluster.chain.errors import AlreadyCoSigned
from bobbin.cluster.chain.signing import signature_of
from bobbin.cluster.identity import Identity
from tests.support.chains import ALICE, BOB

BLOCK, OTHER = b"1" * 32, b"2" * 32


def test_each_validator_stands_by_a_block_once() -> None:
    kept = CoSignatures()
    for signer in (ALICE, BOB):
        kept.add(co_sign(signer, BLOCK))
        with pytest.raises(AlreadyCoSigned):
            kept.add(co_sign(signer, BLOCK))
    kept.add(co_sign(ALICE, OTHER))
    assert [one.validator for one in kept.of(BLOCK)] == sorted([ALICE.node, BOB.node])
    assert kept.of(OTHER) == (co_sign(ALICE, OTHER),)
    assert kept.of(b"3" * 32) == ()


def test_what_was_not_signed_is_not_kept() -> None:
    kept = CoSignatures()
    good = co_sign(ALICE, BLOCK)
    wrong = [
        replace(good, validator=BOB.node),
        replace(good, block_hash=OTHER),
        replace(good, signature=co_sign(BOB, BLOCK).signature),
        replace(good, signature=good.signature[:-1] + b"\0"),
        replace(good, signature=b""),
        replace(good, signature=signature_of(ALICE, BLOCK)),
    ]
    for one in wrong:
        with pytest.raises(BadCoSignature):
            kept.add(one)
        assert kept.of(one.block_hash) == ()
    kept.add(good)


def test_a_signature_of_something_else_is_no_word_for_a_block() -> None:
    """The tag keeps the signature of a header from being used as a co-signature."""
    someone = Identity(b"c" * 32)
    assert co_sign(someone, BLOCK).signature[32:] != someone.sign(BLOCK)
