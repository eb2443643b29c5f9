"""Certificates of a node's own: made here, signed by themselves, known to peers by their fingerprint.

Such a certificate vouches for nobody. It is trusted because a peer has its fingerprint, or because the signer whom the
peer expects has proven himself over a channel that ends in it (decision 10).

The key is durable before the certificate is, and is never replaced. So a crash in between leaves a key without a
certificate, and the next attempt makes one for it.
"""

import hashlib
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bobbin.errors import UsageError

VALID_DAYS: Final = 3_650
"""A peer that knows the fingerprint would have to be told of every new one, so they are few."""

_FILE_BYTES_MAX: Final = 1024 * 1024
_COMMON_NAME_CHARACTERS_MAX: Final = 64
_HOST: Final = "localhost"


class CertificateError(UsageError):
    """A file with a certificate or a key cannot be used, or would be overwritten. Nothing was changed."""


def create(certificate: Path, key: Path, *, names: Sequence[str] = (), now: datetime | None = None) -> bytes:
    """Make a certificate for some names and IP addresses of a host, and its key; returns the fingerprint.

    A key that is there already is kept and used. A certificate that is there already is an error.
    """
    if os.path.lexists(certificate):
        raise CertificateError(f"there is already a certificate at {certificate}; certificates are never overwritten")
    try:
        secret = _read_key(key) if os.path.lexists(key) else _create_key(key)
        made = _sign(secret, tuple(names) or (_HOST,), datetime.now(UTC) if now is None else now)
        _write_new(certificate, made.public_bytes(serialization.Encoding.PEM), mode=0o644)
    except OSError as error:
        raise CertificateError(f"cannot write {error.filename or certificate}: {error.strerror}") from error
    return made.fingerprint(hashes.SHA256())


def fingerprint(certificate: Path) -> bytes:
    """The SHA-256 of the first certificate in a PEM file, which is the one that a server shows."""
    try:
        with certificate.open("rb") as stream:
            content = stream.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise CertificateError(f"cannot read the certificate {certificate}: {error.strerror}") from error
    try:
        return x509.load_pem_x509_certificate(content).fingerprint(hashes.SHA256())
    except ValueError as error:
        raise CertificateError(
            f"there is no certificate in {certificate}; it is a text with BEGIN CERTIFICATE"
        ) from error


def fingerprint_of(der: bytes) -> bytes:
    """The fingerprint of a certificate as a peer has sent it."""
    return hashlib.sha256(der).digest()


def _sign(secret: ec.EllipticCurvePrivateKey, names: tuple[str, ...], now: datetime) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:_COMMON_NAME_CHARACTERS_MAX])])
    identifier = x509.SubjectKeyIdentifier.from_public_key(secret.public_key())
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        # A peer whose clock is a little behind must not find it too young.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(secret, hashes.SHA256())
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise CertificateError(f"not the name or the IP address of a host: {name[:80]!r}") from error


def _create_key(path: Path) -> ec.EllipticCurvePrivateKey:
    secret = ec.generate_private_key(ec.SECP256R1())
    content = secret.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write_new(path, content, mode=0o600)
    return secret


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    with path.open("rb") as stream:
        content = stream.read(_FILE_BYTES_MAX)
    try:
        secret = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"there is no usable key in {path}") from error
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"the key in {path} is of another kind than those made here")
    return secret


def _write_new(path: Path, content: bytes, *, mode: int) -> None:
    """Create a file, whole and durable or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # Linking fails where the name is taken; renaming would replace.
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
