"""Keys and signatures of pzp, against those that a real peer made."""

import pytest

from bobbin.errors import UsageError
from bobbin.tangles import base58, keys
from bobbin.tangles.errors import MalformedText
from bobbin.tangles.keys import Keypair
from tests.vectors.load import load

PAIRS = load("pzp/keys/keypairs.json")["keypairs"]


@pytest.mark.parametrize("index", range(len(PAIRS)), ids=[pair["seed"] for pair in PAIRS])
def test_keys_and_signatures_of_a_real_peer(index: int) -> None:
    pair = PAIRS[index]
    keypair = Keypair.from_words(pair["seed"])
    assert (keypair.public, keypair.private) == (pair["public"], pair["private"])
    assert Keypair.from_private(pair["private"]).public == pair["public"]
    for made in pair["signatures"]:
        message = made["message_utf8"].encode()
        assert keypair.sign(message) == made["sig"]
        assert keys.is_signature(keypair.public, message, base58.decode(made["sig"], 64))


def test_another_message_or_key_or_signature_is_none() -> None:
    alice, bob = Keypair.from_words("alice"), Keypair.from_words("bob")
    signature = base58.decode(alice.sign(b"hello"), 64)
    assert keys.is_signature(alice.public, b"hello", signature)
    assert not keys.is_signature(alice.public, b"hello!", signature)
    assert not keys.is_signature(bob.public, b"hello", signature)
    assert not keys.is_signature(alice.public, b"hello", bytes(64))
    assert not keys.is_signature(base58.encode(bytes(32)), b"hello", signature)


def test_what_is_no_key_is_refused() -> None:
    with pytest.raises(UsageError, match="32 bytes, not 31"):
        Keypair(bytes(31))
    with pytest.raises(UsageError, match="not a private key"):
        Keypair.from_private("abc")
    alice, bob = Keypair.from_words("alice"), Keypair.from_words("bob")
    mixed = base58.encode(alice.private_bytes[:32] + bob.public_bytes)
    with pytest.raises(UsageError, match="halves"):
        Keypair.from_private(mixed)
    with pytest.raises(MalformedText):
        keys.public_bytes("0")


def test_a_key_does_not_show_its_secret() -> None:
    keypair = Keypair.from_words("alice")
    assert repr(keypair) == f"Keypair({keypair.public})"
