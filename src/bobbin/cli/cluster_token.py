"""The text by which somebody is invited to join a cluster.

It holds a key that was made for this one purpose, and whom to ask: so it is a secret until it is used or has expired,
and it is of no use for anything but joining.
"""

import base64
from typing import Final

import msgspec
from msgspec import Struct

from bobbin.cluster.identity import SEED_SIZE
from bobbin.errors import IntegrityError, UsageError
from bobbin.runtime import cluster_certificate
from bobbin.runtime.cluster_members import Directory, KnownMembers, Member, check_address
from bobbin.runtime.cluster_settings import CLUSTER_ID_SIZE

_PREFIX: Final = "bobbin-join-1."
_CHARACTERS_MAX: Final = 10_000


class Invitation(Struct, frozen=True, array_like=True):
    """What a token says."""

    cluster: bytes
    seed: bytes
    """Of the key to ask with."""
    certificate: bytes
    """Of the node to ask."""
    address: str
    expires_ms: int = 0
    """Until when it holds; 0 in a token of an earlier version, which does not say."""
    has_lace: bool | None = None
    """Whether the nodes keep a lace together; None in a token of an earlier version. Who joins must keep the same."""

    def __repr__(self) -> str:
        return f"Invitation({self.cluster.hex()}, {self.address})"

    def known(self, via: str | None = None) -> KnownMembers:
        """The node to ask, at another address if one is given."""
        address = self.address if via is None else check_address(via)
        return KnownMembers(directory=Directory([Member(certificate=self.certificate, address=address)]))


def write_token(invitation: Invitation) -> str:
    """As text on one line."""
    return _PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(invitation)).decode().rstrip("=")


def read_token(text: str) -> Invitation:
    """What a token says, or ``UsageError``; the message does not repeat it."""
    wrong = "this is no token of `bobbin cluster invite`, or not all of it"
    if not text.startswith(_PREFIX) or len(text) > _CHARACTERS_MAX:
        raise UsageError(wrong)
    body = text.removeprefix(_PREFIX)
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        invitation = msgspec.msgpack.decode(raw, type=Invitation)
        cluster_certificate.public_key(invitation.certificate)
        check_address(invitation.address)
    except (ValueError, msgspec.MsgspecError, IntegrityError, UsageError) as error:
        raise UsageError(wrong) from error
    if len(invitation.cluster) != CLUSTER_ID_SIZE or len(invitation.seed) != SEED_SIZE:
        raise UsageError(wrong)
    return invitation
