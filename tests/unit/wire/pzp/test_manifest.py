"""The manifest: what a peer says that it has, and what is made of any answer."""

import json

import pytest

from bobbin.wire.pzp.manifest import MANIFEST_BYTES_MAX, encode, offers

SYNC = ("sync", "connect")
REAL = (
    b'{"auth":"async","address":"sync","manifest":"sync","multiserver":{"parse":"sync","address":"sync"},'
    b'"sync":{"connect":"duplex","initiate":"sync"}}'
)


def test_the_manifest_of_a_real_peer() -> None:
    assert offers(REAL, SYNC)
    assert not offers(REAL, ("tangles", "connect"))
    assert not offers(REAL, ("sync", "initiate"))
    assert not offers(REAL, ("sync",))
    assert not offers(REAL, ("auth", "connect"))


def test_our_own_manifest() -> None:
    names = [SYNC, ("sync", "more"), ("tangles", "connect")]
    said = encode(names)
    assert json.loads(said) == {
        "manifest": "sync",
        "sync": {"connect": "duplex", "more": "duplex"},
        "tangles": {"connect": "duplex"},
    }
    assert all(offers(said, name) for name in names)


@pytest.mark.parametrize(
    "said",
    [b"", b"{", b"[]", b"7", b'"duplex"', b'{"sync":"duplex"}', b'{"sync":{"connect":7}}', b"\xff", b"[" * 60_000],
)
def test_what_cannot_be_read_offers_nothing(said: bytes) -> None:
    assert not offers(said, SYNC)


def test_what_is_too_long_offers_nothing() -> None:
    padded = REAL[:-1] + b" " * MANIFEST_BYTES_MAX + b"}"
    assert not offers(padded, SYNC)
