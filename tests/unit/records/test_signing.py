"""Signatures: the vectors of Lace-009, an independent implementation, and two ways of verifying that must agree."""

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import IntegrityError, UsageError
from bobbin.records import b64a, ids, signing
from bobbin.records.ids import Verifier
from bobbin.records.signing import InvalidSignature, SigningKey, is_valid, is_valid_plainly
from tests.properties.effort import scaled
from tests.unit.records import reference_curve as reference
from tests.unit.records.test_curve import LARGE_X, NO_POINT_X, scalar_bytes
from tests.vectors.load import load

VECTORS = load("signing.json")
SECRET = bytes(range(32))
KEY = SigningKey.from_secret(SECRET)
PUBLIC = ids.parse_verifier(KEY.verifier)
MESSAGE = bytes.fromhex(VECTORS["signatures"][0]["message_hex"])
AUXILIARY = b"\x01" * 32
SIGNATURE = bytes.fromhex(VECTORS["signatures"][0]["signature_hex"])
BYTES_32 = st.binary(min_size=32, max_size=32)
SLOW = scaled(0.2)


def opinions(public_x: bytes, message: bytes, signature: bytes) -> bool:
    """The one answer of the fast way, the plain way and the reference."""
    answers = {way(public_x, message, signature) for way in (is_valid, is_valid_plainly, reference.is_valid)}
    assert len(answers) == 1, "the three ways of verifying disagree"
    return answers.pop()


# ---- vectors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", VECTORS["keys"], ids=lambda key: key["secret"])
def test_keys_of_the_vectors(key: dict[str, str]) -> None:
    for made in (SigningKey.from_text(key["secret"]), SigningKey.from_secret(bytes.fromhex(key["payload_hex"]))):
        assert made.verifier == key["verifier"]
        assert "public_x_hex" not in key or ids.parse_verifier(made.verifier).hex() == key["public_x_hex"]
        assert "scalar_hex" not in key or made._scalar.hex() == key["scalar_hex"]


@pytest.mark.parametrize("case", VECTORS["signatures"], ids=lambda case: case["message_hex"][:8])
def test_signatures_of_the_vectors(case: dict[str, str]) -> None:
    key = SigningKey.from_text(case["secret"])
    message = bytes.fromhex(case["message_hex"])
    signature = key.sign(message, auxiliary=bytes.fromhex(case["auxiliary_hex"]))
    assert signature.hex() == case["signature_hex"]
    assert b64a.encode(signature) == case["text"]
    signing.verify(key.verifier, message, signature)


def test_the_contexts_are_exact_bytes() -> None:
    assert VECTORS["derive_contexts"]["auxiliary"].encode().hex() == VECTORS["auxiliary_context_hex"]
    assert signing._AUXILIARY.digest() == blake3(derive_key_context=VECTORS["derive_contexts"]["auxiliary"]).digest()


# ---- keys ---------------------------------------------------------------------------------------------------------


@SLOW
@given(BYTES_32)
def test_keys_equal_the_references(secret: bytes) -> None:
    scalar, public = reference.key(secret)
    key = SigningKey.from_secret(secret)
    assert (int.from_bytes(key._scalar, "big"), ids.parse_verifier(key.verifier)) == (scalar, public)


@SLOW
@given(st.integers(1, reference.N - 1))
def test_a_scalar_and_its_negative_are_one_key(scalar: int) -> None:
    key, mirrored = SigningKey(scalar_bytes(scalar)), SigningKey(scalar_bytes(reference.N - scalar))
    assert key.verifier == mirrored.verifier
    assert key.sign(MESSAGE, auxiliary=AUXILIARY) == mirrored.sign(MESSAGE, auxiliary=AUXILIARY)


@pytest.mark.parametrize(
    "scalar", [b"", bytes(32), bytes(31), b"\x01" * 31, b"\x01" * 33, scalar_bytes(reference.N), b"\xff" * 32]
)
def test_what_is_no_key(scalar: bytes) -> None:
    with pytest.raises(UsageError):
        SigningKey(scalar)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_secret_has_32_bytes(size: int) -> None:
    with pytest.raises(UsageError):
        SigningKey.from_secret(b"k" * size)


def test_derivation_takes_the_first_candidate_that_is_a_scalar(monkeypatch: pytest.MonkeyPatch) -> None:
    output = b"\xff" * 32 + bytes(32) + scalar_bytes(reference.N) + scalar_bytes(7) + scalar_bytes(8)

    class Stream:
        def copy(self) -> "Stream":
            return self

        def update(self, data: bytes) -> "Stream":
            assert data == SECRET
            return self

        def digest(self, length: int, *, seek: int) -> bytes:
            return output[seek : seek + length]

    monkeypatch.setattr(signing, "_SIGNING_KEY", Stream())
    assert SigningKey.from_secret(SECRET).verifier == SigningKey(scalar_bytes(7)).verifier


def test_a_key_does_not_show_its_secret() -> None:
    shown = repr(KEY) + str(KEY)
    assert KEY.verifier in shown
    assert KEY._scalar.hex() not in shown
    assert repr(KEY._scalar) not in shown


# ---- signing ------------------------------------------------------------------------------------------------------


@SLOW
@given(BYTES_32, BYTES_32, BYTES_32.filter(any))
def test_signatures_equal_the_references(secret: bytes, message: bytes, auxiliary: bytes) -> None:
    key = SigningKey.from_secret(secret)
    signature = key.sign(message, auxiliary=auxiliary)
    assert signature == reference.sign(secret, message, auxiliary)
    assert opinions(ids.parse_verifier(key.verifier), message, signature)


@pytest.mark.parametrize("auxiliary", [b"", bytes(32), b"\x01" * 31, b"\x01" * 33])
def test_auxiliary_randomness_is_32_bytes_and_not_zero(auxiliary: bytes) -> None:
    with pytest.raises(UsageError):
        KEY.sign(MESSAGE, auxiliary=auxiliary)


@pytest.mark.parametrize("message", [b"", MESSAGE[:-1], MESSAGE + b"\x00"])
def test_only_digests_are_signed(message: bytes) -> None:
    with pytest.raises(UsageError):
        KEY.sign(message, auxiliary=AUXILIARY)


def test_other_randomness_gives_another_signature_of_the_same_worth() -> None:
    other = KEY.sign(MESSAGE, auxiliary=b"\x02" * 32)
    assert other != SIGNATURE
    assert opinions(PUBLIC, MESSAGE, other)


@pytest.mark.parametrize("name", ["_NONCE", "_CHALLENGE"])
def test_a_zero_nonce_or_challenge_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for digest in (bytes(32), scalar_bytes(reference.N)):
        monkeypatch.setattr(signing, name, Fixed(digest))
        with pytest.raises(UsageError):
            KEY.sign(MESSAGE, auxiliary=AUXILIARY)


def test_a_nonce_above_the_order_is_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "_NONCE", Fixed(scalar_bytes(reference.N + 9)))
    signature = KEY.sign(MESSAGE, auxiliary=AUXILIARY)
    nine_times = reference.multiply(9, reference.G)
    assert nine_times is not None
    assert signature[:32] == scalar_bytes(nine_times[0])
    assert opinions(PUBLIC, MESSAGE, signature)


# ---- verifying ----------------------------------------------------------------------------------------------------


class Fixed:
    """A hasher that gives one digest for everything."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def copy(self) -> "Fixed":
        return self

    def update(self, _data: bytes) -> "Fixed":
        return self

    def digest(self) -> bytes:
        return self._digest


def test_verify_raises_and_returns_nothing() -> None:
    signing.verify(KEY.verifier, MESSAGE, SIGNATURE)
    with pytest.raises(InvalidSignature):
        signing.verify(KEY.verifier, MESSAGE, SIGNATURE[:-1] + b"\x00")
    with pytest.raises(InvalidSignature):
        signing.verify(Verifier(VECTORS["keys"][1]["verifier"]), MESSAGE, SIGNATURE)
    assert issubclass(InvalidSignature, IntegrityError)


def test_every_flipped_bit_of_signature_message_and_key_is_noticed() -> None:
    for bit in range(512):
        spoilt = bytearray(SIGNATURE)
        spoilt[bit // 8] ^= 1 << bit % 8
        assert not is_valid(PUBLIC, MESSAGE, bytes(spoilt))
        assert not is_valid_plainly(PUBLIC, MESSAGE, bytes(spoilt))
    for bit in range(256):
        flip = scalar_bytes(1 << bit)
        message = bytes(a ^ b for a, b in zip(MESSAGE, flip, strict=True))
        public = bytes(a ^ b for a, b in zip(PUBLIC, flip, strict=True))
        assert not is_valid(PUBLIC, message, SIGNATURE)
        assert not is_valid_plainly(PUBLIC, message, SIGNATURE)
        assert not is_valid(public, MESSAGE, SIGNATURE)
        assert not is_valid_plainly(public, MESSAGE, SIGNATURE)


ODD = st.sampled_from(
    [
        0,
        1,
        2,
        NO_POINT_X,
        reference.N - 1,
        reference.N,
        reference.N + 1,
        LARGE_X,
        reference.P - 1,
        reference.P,
        reference.P + 1,
        2**256 - 1,
    ]
).map(scalar_bytes)
PARTS = ODD | BYTES_32 | st.sampled_from([SIGNATURE[:32], SIGNATURE[32:], PUBLIC, MESSAGE])


@scaled(0.6)
@given(
    PARTS | st.just(PUBLIC), PARTS | st.just(MESSAGE), PARTS | st.just(SIGNATURE[:32]), PARTS | st.just(SIGNATURE[32:])
)
def test_all_ways_agree_on_odd_inputs(public: bytes, message: bytes, commitment: bytes, response: bytes) -> None:
    genuine = (public, message, commitment + response) == (PUBLIC, MESSAGE, SIGNATURE)
    assert opinions(public, message, commitment + response) is genuine


@pytest.mark.parametrize("signature", [b"", SIGNATURE[:-1], SIGNATURE + b"\x00"])
def test_a_signature_has_64_bytes(signature: bytes) -> None:
    assert not opinions(PUBLIC, MESSAGE, signature)


@pytest.mark.parametrize("public", [b"", PUBLIC[:-1], PUBLIC + b"\x00"])
def test_a_public_key_has_32_bytes(public: bytes) -> None:
    assert not is_valid(public, MESSAGE, SIGNATURE)
    assert not is_valid_plainly(public, MESSAGE, SIGNATURE)


# With the challenge fixed, a signature can be made for any key, also one whose secret nobody knows: R = s·G − e·P. So
# the corners are reached that no honest signature would ever come near.

G = reference.G
KEY_POINT = reference.lift(int.from_bytes(PUBLIC, "big"))


def fix_challenge(monkeypatch: pytest.MonkeyPatch, challenge: int) -> None:
    monkeypatch.setattr(signing, "_CHALLENGE", Fixed(scalar_bytes(challenge)))
    monkeypatch.setattr(reference, "tagged", lambda *_: scalar_bytes(challenge))


def commitment_of(response: int, challenge: int, point: reference.Point) -> tuple[int, int]:
    """R = s·G − e·P as (x, y)."""
    total = reference.add(reference.multiply(response, G), reference.multiply(-challenge, point))
    assert total is not None
    return total


@pytest.mark.parametrize("x", [int.from_bytes(PUBLIC, "big"), LARGE_X], ids=["usual key", "key above the order"])
@pytest.mark.parametrize("challenge", [0, reference.N, 1, reference.N - 1, reference.N + 1, 2**256 - 1, 12345])
def test_every_response_is_judged_by_the_parity_of_its_commitment(
    x: int, challenge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_challenge(monkeypatch, challenge)
    accepted = set()
    for response in (0, 1, 2, 3, 4, reference.N - 1):
        if challenge % reference.N == 0 and response == 0:
            continue  # infinity, below
        commitment, y = commitment_of(response, challenge, reference.lift(x))
        even = y % 2 == 0
        assert opinions(scalar_bytes(x), MESSAGE, scalar_bytes(commitment) + scalar_bytes(response)) is even
        assert not opinions(scalar_bytes(x), MESSAGE, scalar_bytes(commitment ^ 1) + scalar_bytes(response))
        accepted.add(even)
    assert accepted == {True, False}, "the cases are meant to reach both answers"


@pytest.mark.parametrize("challenge", [0, 1, 777])
def test_the_point_at_infinity_is_refused(challenge: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fix_challenge(monkeypatch, challenge)
    scalar, _ = reference.key(SECRET)
    response = scalar_bytes(challenge * scalar % reference.N)
    for commitment in (bytes(32), scalar_bytes(G[0]), PUBLIC, scalar_bytes(reference.P)):
        assert not opinions(PUBLIC, MESSAGE, commitment + response)


def test_a_response_plus_the_order_is_no_second_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_challenge(monkeypatch, 12345)
    response = next(s for s in range(1, 50) if commitment_of(s, 12345, KEY_POINT)[1] % 2 == 0)
    commitment = scalar_bytes(commitment_of(response, 12345, KEY_POINT)[0])
    assert opinions(PUBLIC, MESSAGE, commitment + scalar_bytes(response))
    assert not opinions(PUBLIC, MESSAGE, commitment + scalar_bytes(response + reference.N))


def test_a_commitment_plus_the_prime_is_no_second_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_challenge(monkeypatch, 12345)
    wanted = reference.lift(1)
    assert wanted is not None
    for response in range(1, 50):
        # The key that makes R the point of x = 1: P = (s·G − R)/e, if it has even y as keys do.
        difference = reference.add(reference.multiply(response, G), (wanted[0], reference.P - wanted[1]))
        point = reference.multiply(pow(12345, -1, reference.N), difference)
        assert point is not None
        if point[1] % 2 == 0:
            break
    else:
        pytest.fail("half of all keys have even y")
    public = scalar_bytes(point[0])
    assert opinions(public, MESSAGE, scalar_bytes(1) + scalar_bytes(response))
    assert not opinions(public, MESSAGE, scalar_bytes(1 + reference.P) + scalar_bytes(response))


@pytest.mark.parametrize("x", [0, NO_POINT_X, reference.P, reference.P + 1, 2**256 - 1])
def test_a_key_that_is_no_point_verifies_nothing(x: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for challenge in (0, 1, 12345):
        fix_challenge(monkeypatch, challenge)
        for response in (1, 2, 3):
            commitment = scalar_bytes(commitment_of(response, challenge, KEY_POINT)[0])
            assert not opinions(scalar_bytes(x), MESSAGE, commitment + scalar_bytes(response))
