"""A proof holds for one stream, one side, one channel and one verifier."""

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.errors import PeerError, UsageError
from bobbin.interlace.reasons import Abort, Reason
from bobbin.records import b64a
from bobbin.records.ids import Verifier
from bobbin.records.signing import SigningKey
from bobbin.wire import proof
from bobbin.wire.proof import Nonces, Proof, Role
from tests.policy_worlds import ALICE, BOB

KEY = SigningKey.from_secret(bytes(range(32)))
NONCES = Nonces(initiator=b"i" * 32, responder=b"r" * 32)
BINDING = b"b" * 32
MADE = proof.make(KEY, Role.INITIATOR, NONCES, binding=BINDING, auxiliary=b"\x01" * 32)


def refused(given: Proof, role: Role = Role.INITIATOR, nonces: Nonces = NONCES, binding: bytes | None = BINDING) -> str:
    with pytest.raises(PeerError) as error:
        proof.verify(given, role, nonces, binding=binding)
    return error.value.code


def test_a_proof_verifies() -> None:
    """ILC-098, ILC-099."""
    assert proof.verify(MADE, Role.INITIATOR, NONCES, binding=BINDING) == KEY.verifier
    unbound = proof.make(KEY, Role.RESPONDER, NONCES, binding=None, auxiliary=b"\x01" * 32)
    assert proof.verify(unbound, Role.RESPONDER, NONCES, binding=None) == KEY.verifier


def test_what_is_signed_is_exact() -> None:
    """ILC-099, ILC-100."""
    verifier = str(KEY.verifier).encode()
    head = b"lace-knot-proof/v1"
    assert proof.digest(Role.INITIATOR, NONCES, KEY.verifier, binding=BINDING) == (
        blake3(head + b"\x30" + b"i" * 32 + b"r" * 32 + b"b" * 32 + verifier).digest()
    )
    assert proof.digest(Role.RESPONDER, NONCES, KEY.verifier, binding=None) == (
        blake3(head + b"\x31" + b"i" * 32 + b"r" * 32 + bytes(32) + verifier).digest()
    )


def test_a_proof_is_for_one_stream() -> None:
    """ILC-099: other nonces, also the same ones exchanged."""
    assert refused(MADE, nonces=Nonces(initiator=b"j" * 32, responder=b"r" * 32)) == Reason.NEGOTIATION
    assert refused(MADE, nonces=Nonces(initiator=b"i" * 32, responder=b"s" * 32)) == Reason.NEGOTIATION
    assert refused(MADE, nonces=Nonces(initiator=b"r" * 32, responder=b"i" * 32)) == Reason.NEGOTIATION


def test_a_proof_cannot_be_sent_back() -> None:
    """ILC-099."""
    assert refused(MADE, role=Role.RESPONDER) == Reason.NEGOTIATION


def test_a_proof_is_for_one_verifier() -> None:
    """ILC-098, ILC-099."""
    other = SigningKey.from_secret(bytes(32)).verifier
    assert refused(structs.replace(MADE, verifier=other)) == Reason.NEGOTIATION
    assert (
        refused(structs.replace(MADE, verifier=Verifier("V." + b64a.encode(bytes(32)) + ".H3"))) == Reason.NEGOTIATION
    )


def test_a_proof_is_for_one_channel() -> None:
    """ILC-100."""
    assert refused(MADE, binding=b"c" * 32) == Reason.NEGOTIATION
    assert refused(MADE, binding=None) == Reason.NEGOTIATION
    unbound = proof.make(KEY, Role.INITIATOR, NONCES, binding=None, auxiliary=b"\x01" * 32)
    assert refused(unbound, binding=BINDING) == Reason.NEGOTIATION


@given(st.integers(0, 511))
def test_a_changed_signature_does_not_verify(bit: int) -> None:
    number = int.from_bytes(MADE.signature, "big") ^ 1 << bit
    assert refused(structs.replace(MADE, signature=number.to_bytes(64, "big"))) == Reason.NEGOTIATION


def test_an_unbound_proof_counts_on_this_machine_only() -> None:
    """ILC-100, ILC-146."""
    assert proof.counts(binding=None, loopback=True)
    assert proof.counts(binding=BINDING, loopback=False)
    assert not proof.counts(binding=None, loopback=False)
    assert not proof.counts(binding=bytes(32), loopback=False)


def test_sizes_are_the_caller_s() -> None:
    with pytest.raises(UsageError):
        Nonces(initiator=b"short", responder=b"r" * 32)
    with pytest.raises(UsageError):
        proof.digest(Role.INITIATOR, NONCES, KEY.verifier, binding=b"short")


def test_the_block_of_a_proof() -> None:
    """ILC-098."""
    raw = proof.render(MADE)
    assert raw == f"KnotProof('{KEY.verifier}','{b64a.encode(MADE.signature)}')\n".encode()
    assert len(raw) <= proof.PROOF_BYTES_MAX
    assert proof.read(raw) == MADE
    assert proof.render(None) == b""
    assert proof.read(b"") is None


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (proof.render(MADE) * 2, Reason.MALFORMED_BLOCK),
        (f"KnotProof('{ALICE}')\n".encode(), Reason.MALFORMED_BLOCK),
        (f"KnotProof('{ALICE}','')\n".encode(), Reason.MALFORMED_BLOCK),
        (f"KnotProof('{ALICE}','{'0' * 85}')\n".encode(), Reason.MALFORMED_BLOCK),
        (f"KnotProof('{ALICE}','{'0' * 85}1')\n".encode(), Reason.MALFORMED_BLOCK),
        (f"KnotProof('{BOB[2:]}','{'0' * 86}')\n".encode(), Reason.MALFORMED_BLOCK),
        (f"HelloSigner('{ALICE}')\n".encode(), Reason.OUT_OF_PHASE),
        (f"ExchangeOperand('0','R.x','{ALICE}','selector')\n".encode(), Reason.OUT_OF_PHASE),
        (b"Other()\n", Reason.MALFORMED_BLOCK),
        (b"Other('" + b"x" * 600 + b"')\n", Reason.OVERSIZED_BLOCK),
    ],
)
def test_what_is_no_block_of_a_proof(raw: bytes, reason: Reason) -> None:
    """ILC-098."""
    with pytest.raises(PeerError) as error:
        proof.read(raw)
    assert error.value.code == reason


def test_the_refusal_is_an_abort() -> None:
    with pytest.raises(Abort) as error:
        proof.verify(MADE, Role.RESPONDER, NONCES, binding=BINDING)
    assert error.value.reason is Reason.NEGOTIATION
