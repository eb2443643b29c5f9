"""TLS as links use it: version 1.3 alone, and three ways for a client to trust a server's certificate.

=============  ==================================================  ======================
way            what is checked                                     ``Route.verified``
=============  ==================================================  ======================
authorities    an authority vouches for the name that was dialled  true
pin            it is exactly this certificate                      true
unverified     nothing                                             false
=============  ==================================================  ======================

The fingerprint of the server's certificate binds proofs to the channel, on both ends, in all three. A channel that is
unverified is trusted only by a proof so bound, from the signer whom the caller expects; that is not decided here.
"""

import hmac
import ssl
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.transport import certificate as certificates
from bobbin.transport.base import TransportError, WrongCertificate
from bobbin.transport.certificate import CertificateError

FINGERPRINT_SIZE: Final = 32


class TlsClient(Struct, frozen=True, kw_only=True):
    """What a client demands of a server's certificate. As it stands: that an authority of the system vouches for it."""

    authorities: Path | None = None
    """A file with the certificates of the authorities to ask, instead of those of the system."""
    pin: bytes | None = None
    """The fingerprint of the only certificate that will do. Then nobody vouches for it, and its dates do not matter."""
    unverified: bool = False
    """Take any certificate."""
    server_name: str | None = None
    """The name that the certificate must be for, where it is not the host of the address."""

    def __post_init__(self) -> None:
        if self.pin is not None and len(self.pin) != FINGERPRINT_SIZE:
            raise UsageError(f"a fingerprint has {FINGERPRINT_SIZE} bytes, not {len(self.pin)}")
        if (self.authorities is not None) + (self.pin is not None) + self.unverified > 1:
            raise UsageError("a certificate is trusted by authorities, by its fingerprint or unseen: choose one")

    @property
    def verifies(self) -> bool:
        """Whether a server that is taken is the right one."""
        return not self.unverified


class TlsServer(Struct, frozen=True, kw_only=True):
    """What a server shows: files in PEM form, the certificate first, then those that lead to its authority."""

    certificate: Path
    key: Path


def client_context(settings: TlsClient) -> ssl.SSLContext:
    """For dialling. Reads files, so an event loop lets a thread do it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if settings.unverified or settings.pin is not None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if settings.authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context
    try:
        context.load_verify_locations(cafile=settings.authorities)
    except (OSError, ssl.SSLError) as error:
        # An SSLError is an OSError too, without the number of one.
        why = error.strerror if not isinstance(error, ssl.SSLError) else "there are no certificates in it"
        raise CertificateError(f"cannot read the authorities in {settings.authorities}: {why}") from error
    return context


def server_context(settings: TlsServer) -> ssl.SSLContext:
    """For listening."""
    _check_private(settings.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # No link resumes another, so each one has a handshake of its own to be bound to.
    context.num_tickets = 0

    def refuse_password() -> str:
        # Otherwise OpenSSL would ask the terminal, and a server would wait there for ever.
        raise CertificateError(f"the key {settings.key} is protected by a password; give one that is not")

    try:
        context.load_cert_chain(settings.certificate, settings.key, password=refuse_password)
    except ssl.SSLError as error:
        raise CertificateError(
            f"{settings.certificate} and {settings.key} are no certificate and its key: {error.reason or error}"
        ) from error
    except OSError as error:
        raise CertificateError(f"cannot read {settings.certificate} or {settings.key}: {error.strerror}") from error
    return context


def binding_at_client(settings: TlsClient, connection: ssl.SSLObject) -> bytes:
    """The channel binding, after the pin has been compared."""
    der = connection.getpeercert(binary_form=True)
    if not der:
        raise TransportError("the server has shown no certificate", retry=False)
    found = certificates.fingerprint_of(der)
    if settings.pin is not None and not hmac.compare_digest(found, settings.pin):
        raise WrongCertificate(
            f"the certificate does not match the pin: it is {found.hex()}, expected was {settings.pin.hex()}"
        )
    return found


def binding_at_server(settings: TlsServer) -> bytes:
    """The channel binding of every stream that this server takes."""
    return certificates.fingerprint(settings.certificate)


def _check_private(key: Path) -> None:
    """A group may share a key, as the tools that renew certificates let it; everyone may not."""
    try:
        mode = key.stat().st_mode
    except OSError as error:
        raise CertificateError(f"cannot read the key {key}: {error.strerror}") from error
    if mode & stat.S_IRWXO:
        raise CertificateError(f"everyone can read the key {key}; mend it with: chmod o= {key}")
