"""Certificates of a cluster: each is made from the Ed25519 identity of a node or a client, and signed by itself.

No authority vouches for them. A side takes exactly the certificates that it knows: OpenSSL refuses every other one in
the handshake, so whoever is not known never gets a byte to a decoder (CL-367). The key in the certificate is the key
of the identity; so the channel, the signed envelope and the registry all speak of one key.

What always holds: a certificate that somebody has sent is taken only if it is, but for the signature, what ``make``
gives for its key, and the key has signed it. So nothing reaches OpenSSL, the table or the registry that one of them
takes and another refuses, and nobody shows a certificate for a key that never signed one.
"""

import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from bobbin.cluster.identity import PUBLIC_SIZE, SIGNATURE_SIZE, Identity, PublicIdentity
from bobbin.errors import IntegrityError

CERTIFICATE_BYTES_MAX: Final = 4_096
"""Of one made here, generously."""
_CHECKED_MAX: Final = 4_096
"""Certificates that are remembered to be good: the same few are asked about again and again."""

_SINCE: Final = datetime(2020, 1, 1, tzinfo=UTC)
_UNTIL: Final = datetime(2120, 1, 1, tzinfo=UTC)
"""A certificate ends when it is taken from the registry. Dates would only stop a cluster whose clocks are wrong."""


class Credentials(Struct, frozen=True, kw_only=True):
    """What one side of a channel shows and proves."""

    identity: Identity
    certificate: bytes
    """DER."""


def make(identity: Identity) -> Credentials:
    """The credentials of an identity. The same identity gives the same certificate, byte for byte."""
    secret = identity.expose_key()
    public = secret.public_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, public.public_bytes_raw().hex())])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(1)
        .not_valid_before(_SINCE)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(secret, None)
    )
    return Credentials(identity=identity, certificate=made.public_bytes(serialization.Encoding.DER))


class _Form(Struct, frozen=True):
    """What every certificate of a cluster looks like, and where it differs from the others."""

    model: bytes
    signed_at: int
    """Where that begins which the signature is of."""
    signed_end: int
    name: bytes
    key: bytes

    def of(self, public: bytes) -> bytes:
        """The certificate of a key, without the signature."""
        filled = self.model.replace(self.name, public.hex().encode()).replace(self.key, public)
        return filled[:-SIGNATURE_SIZE]


@cache
def _form() -> _Form:
    made = make(Identity(bytes(PUBLIC_SIZE)))
    signed = x509.load_der_x509_certificate(made.certificate).tbs_certificate_bytes
    public, at = made.identity.public, made.certificate.index(signed)
    return _Form(made.certificate, at, at + len(signed), public.hex().encode(), public)


@lru_cache(_CHECKED_MAX)
def public_key(certificate: bytes) -> bytes:
    """The 32 bytes of the key in a certificate that somebody has sent, which is as ``make`` makes it.

    Raises ``IntegrityError`` for anything else, also for a key with which nobody could sign.
    """
    if len(certificate) > CERTIFICATE_BYTES_MAX:
        raise IntegrityError(f"a certificate has at most {CERTIFICATE_BYTES_MAX} bytes, not {len(certificate)}")
    form = _form()
    at = form.model.index(form.key)
    public = certificate[at : at + PUBLIC_SIZE]
    if len(certificate) != len(form.model) or certificate[:-SIGNATURE_SIZE] != form.of(public):
        raise IntegrityError("this is no certificate of a cluster's node or client")
    PublicIdentity(public).verify(certificate[form.signed_at : form.signed_end], certificate[-SIGNATURE_SIZE:])
    return public


LeftOut: TypeAlias = Callable[[bytes, str], None]
"""Hears of a certificate that OpenSSL does not take, and why."""


def server_context(
    own: Credentials, known: Iterable[bytes], *, left_out: LeftOut = lambda _, __: None
) -> ssl.SSLContext:
    """For listening: whoever dials must show one of the known certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # No link resumes another: a certificate that is no longer known must not live on in a ticket.
    context.num_tickets = 0
    return _prepare(context, own, known, left_out)


def client_context(
    own: Credentials, expected: Iterable[bytes], *, left_out: LeftOut = lambda _, __: None
) -> ssl.SSLContext:
    """For dialling: whoever answers must show one of the expected certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    return _prepare(context, own, expected, left_out)


def _prepare(context: ssl.SSLContext, own: Credentials, known: Iterable[bytes], left_out: LeftOut) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    # A certificate that is known is trusted as it is; nothing has to have signed it.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    # One by one: a certificate that cannot be used must not take the others' channels away.
    for certificate in sorted(set(known)):
        try:
            context.load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError) as error:
            left_out(certificate, str(error))
    secret = own.identity.expose_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with _file_of(ssl.DER_cert_to_PEM_cert(own.certificate).encode() + secret) as path:
        context.load_cert_chain(path)
    return context


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """A file in memory: OpenSSL takes a key from a file alone, and a secret is not to touch a disk for that."""
    descriptor = os.memfd_create("bobbin", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
