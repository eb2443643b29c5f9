"""Preface and proof come first, and nothing beyond them is read with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import PeerError, UsageError
from bobbin.interlace.messages import Setup
from bobbin.interlace.reasons import Reason
from bobbin.interlace.state import Awaits
from bobbin.wire import proof
from bobbin.wire.elements import Elements, resource
from bobbin.wire.greeting import Greeting, encode_preface, encode_proof
from bobbin.wire.interlace import Decoder
from bobbin.wire.proof import Nonces, Role
from tests.policy_worlds import DING_IDENTIFIER
from tests.unit.wire.streams import BLOB, MODULE, SETUP, chunks, encoded
from tests.unit.wire.test_proof import KEY, MADE

NONCE = b"n" * 32
OPENING = encode_preface(NONCE)


@given(st.lists(st.integers(0, 40), max_size=12))
def test_a_greeting_and_what_follows_it(sizes: list[int]) -> None:
    """ILC-089, ILC-095, ILC-098."""
    greeting = Greeting(Elements())
    rest: list[object] = []
    for part in chunks(OPENING + encode_proof(MADE) + encoded(SETUP), sizes):
        greeting.feed(part)
    assert greeting.nonce == NONCE
    assert greeting.proof == MADE
    assert greeting.complete
    decoder = Decoder(greeting.stream)
    decoder.expect(Awaits.SETUP)
    rest += decoder.feed(b"")
    assert rest == [SETUP]
    assert isinstance(rest[0], Setup)


def test_the_nonce_is_there_before_the_proof() -> None:
    """ILC-098: a proof needs both nonces, so neither side can wait for the other's."""
    greeting = Greeting(Elements())
    seen = []
    for part in (OPENING[:-1], OPENING[-1:], encode_proof(None)):
        greeting.feed(part)
        seen.append((greeting.nonce, greeting.complete, greeting.proof))
    assert seen == [(None, False, None), (NONCE, False, None), (NONCE, True, None)]


def test_both_sides_greet() -> None:
    """ILC-098, ILC-099."""
    nonces = Nonces(initiator=NONCE, responder=b"m" * 32)
    made = proof.make(KEY, Role.INITIATOR, nonces, binding=None, auxiliary=b"\x02" * 32)
    greeting = Greeting(Elements())
    greeting.feed(encode_preface(nonces.initiator) + encode_proof(made))
    assert greeting.proof is not None
    assert proof.verify(greeting.proof, Role.INITIATOR, nonces, binding=None) == KEY.verifier


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (OPENING[:-1] + b"KnotProof", Reason.OUT_OF_PHASE),
        (OPENING + OPENING, Reason.OUT_OF_PHASE),
        (OPENING + BLOB.raw[:4], Reason.OUT_OF_PHASE),
        (OPENING + resource(DING_IDENTIFIER, MODULE)[:4], Reason.OUT_OF_PHASE),
        (OPENING + b"HelloSigner('x')\n\n", Reason.OUT_OF_PHASE),
        (OPENING + b"K" * 513, Reason.OVERSIZED_BLOCK),
        (b"\n", Reason.OUT_OF_PHASE),
    ],
)
def test_nothing_else_begins_a_stream(raw: bytes, reason: Reason) -> None:
    """ILC-089, ILC-095, ILC-145: a stranger gets little of our memory."""
    greeting = Greeting(Elements())
    with pytest.raises(PeerError) as refused:
        greeting.feed(raw)
    assert refused.value.code == reason


def test_a_nonce_has_32_bytes() -> None:
    with pytest.raises(UsageError):
        encode_preface(b"short")
