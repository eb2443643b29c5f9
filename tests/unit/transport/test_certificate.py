"""Certificates of one's own: durable, private, never overwritten."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from bobbin.transport import certificate
from bobbin.transport.certificate import CertificateError

_NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "certificate.pem", tmp_path / "key.pem"


def _load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_certificate_names_its_host_and_its_dates(files: tuple[Path, Path]) -> None:
    certificate.create(*files, names=["node.example", "192.0.2.1", "2001:db8::1"], now=_NOW)
    made = _load(files[0])
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.1", "2001:db8::1"]
    assert made.not_valid_before_utc < _NOW
    assert made.not_valid_after_utc == _NOW + timedelta(days=certificate.VALID_DAYS)
    public = made.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert isinstance(public.curve, ec.SECP256R1)
    made.verify_directly_issued_by(made)


def test_only_its_owner_can_read_the_key(files: tuple[Path, Path]) -> None:
    certificate.create(*files)
    assert stat.S_IMODE(files[1].stat().st_mode) == 0o600
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["certificate.pem", "key.pem"]


def test_the_fingerprint_is_that_of_the_bytes_a_peer_sees(files: tuple[Path, Path]) -> None:
    made = certificate.create(*files)
    der = _load(files[0]).public_bytes(serialization.Encoding.DER)
    assert made == certificate.fingerprint(files[0]) == certificate.fingerprint_of(der)
    assert len(made) == 32


def test_a_certificate_is_never_overwritten(files: tuple[Path, Path]) -> None:
    certificate.create(*files)
    before = [path.read_bytes() for path in files]
    with pytest.raises(CertificateError, match="never overwritten"):
        certificate.create(*files)
    assert [path.read_bytes() for path in files] == before


def test_a_key_without_a_certificate_gets_one(files: tuple[Path, Path]) -> None:
    first = certificate.create(*files)
    key = files[1].read_bytes()
    files[0].unlink()
    assert certificate.create(*files) != first
    assert files[1].read_bytes() == key


def test_a_foreign_key_is_refused(files: tuple[Path, Path]) -> None:
    files[1].write_bytes(b"not a key")
    with pytest.raises(CertificateError, match="no usable key"):
        certificate.create(*files)
    foreign = rsa.generate_private_key(65_537, 2048)
    files[1].write_bytes(
        foreign.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    with pytest.raises(CertificateError, match="of another kind"):
        certificate.create(*files)
    assert not files[0].exists()


def test_what_is_no_certificate_is_refused(files: tuple[Path, Path]) -> None:
    with pytest.raises(CertificateError, match="No such file"):
        certificate.fingerprint(files[0])
    files[0].write_text("nothing of the kind")
    with pytest.raises(CertificateError, match="there is no certificate"):
        certificate.fingerprint(files[0])


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot write"):
        certificate.create(tmp_path / "none" / "certificate.pem", tmp_path / "none" / "key.pem")


def test_what_is_no_host_is_refused(files: tuple[Path, Path]) -> None:
    with pytest.raises(CertificateError, match="not the name"):
        certificate.create(*files, names=["nöde"])
