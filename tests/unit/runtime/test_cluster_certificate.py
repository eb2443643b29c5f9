"""Certificates of a cluster."""

import asyncio
import ssl
from contextlib import suppress

import pytest

from bobbin.cluster.identity import Identity, InvalidKey
from bobbin.errors import IntegrityError
from bobbin.runtime import cluster_certificate
from bobbin.runtime.cluster_certificate import CERTIFICATE_BYTES_MAX, make, public_key

_ONE = make(Identity(bytes([1]) * 32))
_TWO = make(Identity(bytes([2]) * 32))
_STRANGER = make(Identity(bytes([9]) * 32))


async def _talk(server: ssl.SSLContext, client: ssl.SSLContext | None) -> list[bytes]:
    """What the server's handler was given, of a client that says hello."""
    heard: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))
        writer.close()

    listening = await asyncio.start_server(take, "127.0.0.1", 0, ssl=server)
    port = listening.sockets[0].getsockname()[1]
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client, server_hostname=None if client is None else ""
        )
        writer.write(b"hello")
        # Under TLS 1.3 a client hears of a refusal by what it reads next, if it hears of it at all.
        with suppress(ssl.SSLError, ConnectionError):
            await reader.read()
        writer.close()
    finally:
        listening.close()
        await listening.wait_closed()
    return heard


def test_the_same_seed_gives_the_same_certificate() -> None:
    assert make(Identity(bytes([1]) * 32)).certificate == _ONE.certificate
    assert _ONE.certificate != _TWO.certificate


def test_the_key_of_the_certificate_is_the_key_of_the_identity() -> None:
    assert public_key(_ONE.certificate).hex() == "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"


def test_no_text_shows_the_private_key() -> None:
    seed = bytes(_ONE.identity.expose_seed())
    assert seed.hex() not in repr(_ONE)
    assert repr(seed)[2:-1] not in repr(_ONE)


@pytest.mark.parametrize("wrong", [b"", b"x", bytes(CERTIFICATE_BYTES_MAX + 1), _ONE.certificate[:-1]])
def test_what_is_no_certificate_is_refused(wrong: bytes) -> None:
    with pytest.raises(IntegrityError):
        public_key(wrong)


def _with_name(name: bytes) -> bytes:
    return _ONE.certificate.replace(_ONE.identity.public.hex().encode(), name)


def _flipped(at: int) -> bytes:
    changed = bytearray(_ONE.certificate)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(_with_name(b"\xff" * 64), id="a name that OpenSSL cannot read"),
        pytest.param(_with_name(_TWO.identity.public.hex().encode()), id="the name of another"),
        pytest.param(_ONE.certificate.replace(_ONE.identity.public, b"\1" + bytes(31)), id="a key of small order"),
        pytest.param(_ONE.certificate[:-64] + _TWO.certificate[-64:], id="the signature of another"),
        pytest.param(_ONE.certificate + b"\0", id="more than a certificate"),
        pytest.param(_flipped(-1), id="a signature that does not match"),
    ],
)
def test_only_what_make_gives_is_a_certificate(wrong: bytes) -> None:
    with pytest.raises(IntegrityError):
        public_key(wrong)


def test_no_bit_of_a_certificate_can_be_changed() -> None:
    for at in range(len(_ONE.certificate)):
        with pytest.raises(IntegrityError):
            public_key(_flipped(at))


def test_a_name_of_the_right_key_with_its_own_key_of_small_order_is_refused() -> None:
    weak = b"\1" + bytes(31)
    wrong = _with_name(weak.hex().encode()).replace(_ONE.identity.public, weak)
    with pytest.raises(InvalidKey):
        public_key(wrong)


def test_what_openssl_refuses_is_left_out_and_the_others_get_in() -> None:
    bad = _with_name(b"\xff" * 64)
    left_out: list[bytes] = []
    server = cluster_certificate.server_context(
        _ONE, [bad, _TWO.certificate, b""], left_out=lambda one, _: left_out.append(one)
    )
    assert sorted(left_out) == [b"", bad]
    client = cluster_certificate.client_context(_TWO, [_ONE.certificate, bad])
    assert asyncio.run(_talk(server, client)) == [b"hello"]


def test_two_that_know_each_other_talk() -> None:
    server = cluster_certificate.server_context(_ONE, [_TWO.certificate])
    client = cluster_certificate.client_context(_TWO, [_ONE.certificate])
    assert asyncio.run(_talk(server, client)) == [b"hello"]


def test_a_stranger_is_refused_in_the_handshake() -> None:
    server = cluster_certificate.server_context(_ONE, [_TWO.certificate])
    client = cluster_certificate.client_context(_STRANGER, [_ONE.certificate])
    assert asyncio.run(_talk(server, client)) == []


def test_a_server_that_is_another_one_is_refused_by_the_client() -> None:
    server = cluster_certificate.server_context(_STRANGER, [_TWO.certificate])
    client = cluster_certificate.client_context(_TWO, [_ONE.certificate])
    with pytest.raises(ssl.SSLError):
        asyncio.run(_talk(server, client))


def test_a_client_without_tls_gets_no_byte_through() -> None:
    server = cluster_certificate.server_context(_ONE, [_TWO.certificate])
    assert asyncio.run(_talk(server, None)) == []
