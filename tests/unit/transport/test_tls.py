"""What a client demands, what a server shows, and which files are refused."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from bobbin.errors import UsageError
from bobbin.transport import certificate, tls
from bobbin.transport.base import TransportError
from bobbin.transport.certificate import CertificateError
from bobbin.transport.tls import TlsClient, TlsServer


@pytest.fixture
def server(tmp_path: Path) -> TlsServer:
    files = TlsServer(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")
    certificate.create(files.certificate, files.key)
    return files


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    """Both sides of a handshake in memory; returns the client's."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    open_sides = [one, other]
    for _ in range(6):
        for side in tuple(open_sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            open_sides.remove(side)
    assert open_sides == []
    return one


def test_only_one_way_of_trust_is_taken() -> None:
    assert TlsClient().verifies
    assert TlsClient(pin=bytes(32)).verifies
    assert not TlsClient(unverified=True).verifies
    with pytest.raises(UsageError, match="choose one"):
        TlsClient(pin=bytes(32), unverified=True)
    with pytest.raises(UsageError, match="choose one"):
        TlsClient(pin=bytes(32), authorities=Path("authorities.pem"))
    with pytest.raises(UsageError, match="32 bytes"):
        TlsClient(pin=b"short")


def test_both_ends_have_the_same_binding(server: TlsServer) -> None:
    there = tls.server_context(server)
    binding = tls.binding_at_server(server)
    for demands in (TlsClient(pin=binding), TlsClient(unverified=True), TlsClient(authorities=server.certificate)):
        connection = _shake_hands(tls.client_context(demands), there)
        assert connection.version() == "TLSv1.3"
        assert tls.binding_at_client(demands, connection) == binding


def test_another_certificate_does_not_match_the_pin(server: TlsServer) -> None:
    demands = TlsClient(pin=bytes(32))
    connection = _shake_hands(tls.client_context(demands), tls.server_context(server))
    with pytest.raises(TransportError, match="does not match the pin") as found:
        tls.binding_at_client(demands, connection)
    assert not found.value.retry
    assert tls.binding_at_server(server).hex() in str(found.value)


def test_the_authorities_of_the_system_do_not_vouch_for_it(server: TlsServer) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake_hands(tls.client_context(TlsClient()), tls.server_context(server))


def test_older_versions_are_refused(server: TlsServer) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        _shake_hands(old, tls.server_context(server))
    assert tls.client_context(TlsClient(unverified=True)).minimum_version is ssl.TLSVersion.TLSv1_3


def test_files_that_cannot_be_used_are_named(server: TlsServer, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot read the authorities"):
        tls.client_context(TlsClient(authorities=tmp_path / "none.pem"))
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(CertificateError, match="no certificates in it"):
        tls.client_context(TlsClient(authorities=empty))
    with pytest.raises(CertificateError, match="cannot read the key"):
        tls.server_context(TlsServer(certificate=server.certificate, key=tmp_path / "none.pem"))
    with pytest.raises(CertificateError, match="cannot read"):
        tls.server_context(TlsServer(certificate=tmp_path / "none.pem", key=server.key))
    with pytest.raises(CertificateError, match="no certificate and its key"):
        tls.server_context(TlsServer(certificate=server.key, key=server.key))


def test_a_key_of_another_certificate_is_refused(server: TlsServer, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    certificate.create(tmp_path / "other-certificate.pem", other)
    with pytest.raises(CertificateError, match="no certificate and its key"):
        tls.server_context(TlsServer(certificate=server.certificate, key=other))


def test_a_key_that_everyone_can_read_is_refused(server: TlsServer) -> None:
    server.key.chmod(0o644)
    with pytest.raises(CertificateError, match="chmod o="):
        tls.server_context(server)
    server.key.chmod(0o640)
    tls.server_context(server)


def test_a_protected_key_is_refused_without_asking_anybody(server: TlsServer) -> None:
    key = serialization.load_pem_private_key(server.key.read_bytes(), password=None)
    server.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    with pytest.raises(CertificateError, match="protected by a password"):
        tls.server_context(server)
