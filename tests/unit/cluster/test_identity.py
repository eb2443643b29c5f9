"""Identities: fixed vectors, computed a second time here, and a private key that shows itself nowhere."""

import copy
import gc
import hashlib
import json
import pickle
import struct
import traceback
import weakref
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from bobbin.cluster.identity import (
    Identity,
    InvalidKey,
    InvalidSignature,
    PublicIdentity,
    embedding_of,
    node_id_of,
)
from bobbin.errors import UsageError
from tests.vectors.load import load

VECTORS = load("cluster/identity.json")["identities"]
SEED = bytes(range(100, 132))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_node_id_is_that_of_the_vectors(vector: dict[str, Any]) -> None:
    """CL-249."""
    identity = Identity(bytes.fromhex(vector["seed"]))
    assert identity.public.hex() == vector["public"]
    assert identity.node == node_id_of(identity.public) == vector["node"]
    assert len(identity.node) == 32
    again = hashlib.blake2b(digest_size=16)
    again.update(b"neumann_node_id_v1")
    again.update(bytes.fromhex(vector["public"]))
    assert again.hexdigest() == vector["node"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_embedding_is_that_of_the_vectors(vector: dict[str, Any]) -> None:
    """CL-250: bit for bit, in single precision."""
    public = bytes.fromhex(vector["public"])
    embedding = embedding_of(public)
    assert embedding == Identity(bytes.fromhex(vector["seed"])).embedding
    assert embedding.dimension == 16
    fixed = [struct.unpack(">f", bytes.fromhex(text))[0] for text in vector["embedding_f32_high_byte_first"]]
    assert dict(zip(embedding.positions, embedding.values, strict=True)) == dict(enumerate(fixed))
    digest = hashlib.blake2b(b"neumann_node_embedding_v1" + public, digest_size=64).digest()
    for at, value in enumerate(fixed):
        word = int.from_bytes(digest[4 * at : 4 * at + 4], "little")
        assert value == struct.unpack("f", struct.pack("f", word / (2**32 - 1) * 2 - 1))[0]


@given(st.binary(min_size=32, max_size=32))
def test_every_embedding_lies_within_the_cube(public: bytes) -> None:
    """CL-250."""
    assert all(-1.0 <= value <= 1.0 for value in embedding_of(public).values)


def test_the_ends_of_the_range_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """CL-250: the highest number is 1 exactly, and the lowest -1; division by 2^32 would give less than 1."""

    class Digest:
        def __init__(self, _data: bytes, *, digest_size: int) -> None:
            assert digest_size == 64

        def digest(self) -> bytes:
            return b"\xff" * 4 + b"\0" * 4 + b"\x01\0\0\0" * 14

    monkeypatch.setattr("bobbin.cluster.identity.blake2b", Digest)
    embedding = embedding_of(bytes(32))
    assert embedding.values[:2] == (1.0, -1.0)
    assert embedding.values[2] == pytest.approx(-1.0, abs=1e-9)


def test_signatures_are_those_of_another_library() -> None:
    identity = Identity(SEED)
    signature = identity.sign(b"message")
    assert signature == SigningKey(SEED).sign(b"message").signature
    identity.public_identity.verify(b"message", signature)


@pytest.mark.parametrize(
    ("message", "signature"),
    [(b"messagf", slice(None)), (b"message", slice(63)), (b"message", slice(0)), (b"", slice(None))],
)
def test_a_signature_of_something_else_is_refused(message: bytes, signature: slice) -> None:
    identity = Identity(SEED)
    with pytest.raises(InvalidSignature):
        identity.public_identity.verify(message, identity.sign(b"message")[signature])


@given(st.integers(0, 64 * 8 - 1))
def test_every_bit_of_a_signature_counts(bit: int) -> None:
    identity = Identity(SEED)
    signature = bytearray(identity.sign(b"message"))
    signature[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidSignature):
        identity.public_identity.verify(b"message", bytes(signature))


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(32), b"\x01" + bytes(31), b"\xff" * 32, bytes(33)])
def test_bytes_that_are_no_key_are_refused(public: bytes) -> None:
    """CL-252: among them the neutral point, under which anybody could sign."""
    with pytest.raises(InvalidKey):
        PublicIdentity(public)


def test_identities_are_equal_by_their_key() -> None:
    one, other = Identity(SEED).public_identity, Identity(bytes(32)).public_identity
    assert one == PublicIdentity(one.public)
    assert len({one, PublicIdentity(one.public), other}) == 2
    assert one != other
    assert one != one.public
    assert repr(one) == f"PublicIdentity({one.node})"
    assert one.embedding == embedding_of(one.public)


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_seed_of_another_size_is_refused_without_being_shown(size: int) -> None:
    """CL-251."""
    seed = b"\xabS" * (size // 2)
    with pytest.raises(UsageError) as caught:
        Identity(seed.ljust(size, b"S"))
    assert "S" not in str(caught.value)


def _forms(secret: bytes) -> list[str]:
    return [secret.hex(), repr(secret)[2:-1], str(list(secret))[1:-1]]


def test_the_private_key_shows_itself_nowhere() -> None:
    """CL-251: repr, str, format, logs by %-formatting, attributes, errors, pickle, copy, JSON and MessagePack."""
    identity = Identity(SEED)
    shown = [repr(identity), str(identity), f"{identity}", "%s %r" % (identity, identity)]  # noqa: UP031 -- as logging does
    shown += [
        repr(getattr(identity, name)) for name in dir(identity) if not name.startswith("__") and name != "expose_seed"
    ]
    for refused in (
        lambda: pickle.dumps(identity),
        lambda: copy.copy(identity),
        lambda: copy.deepcopy(identity),
        lambda: json.dumps(identity),
        lambda: json.dumps({"identity": identity}),
        lambda: msgspec.json.encode(identity),
        lambda: msgspec.msgpack.encode([identity]),
    ):
        with pytest.raises((UsageError, TypeError)) as caught:
            refused()
        shown.append("".join(traceback.format_exception(caught.value)))
    for text in shown:
        assert not [form for form in _forms(SEED) if form in text]
    assert not hasattr(identity, "__dict__")


def test_a_seed_that_was_handed_over_is_wiped() -> None:
    """CL-251."""
    seed = bytearray(SEED)
    identity = Identity(seed)
    assert seed == bytes(32)
    assert identity.expose_seed() == SEED
    assert isinstance(identity.expose_seed(), bytearray)


def test_a_closed_identity_holds_no_key() -> None:
    """CL-251: the library's key object, which it overwrites when it goes, is referred to by nobody."""
    with Identity(SEED) as identity:
        assert len(identity.sign(b"x")) == 64
    assert identity.is_closed
    for use in (identity.expose_key, identity.expose_seed, lambda: identity.sign(b"x")):
        with pytest.raises(UsageError, match="closed"):
            use()
    assert identity.node == node_id_of(identity.public)


def test_an_identity_that_is_dropped_drops_its_key() -> None:
    """CL-251: nothing but the identity holds the key."""
    identity = Identity(SEED)
    assert [type(holder) for holder in gc.get_referrers(identity.expose_key()) if holder is not identity] == []
    reference = weakref.ref(identity)
    del identity
    assert reference() is None
