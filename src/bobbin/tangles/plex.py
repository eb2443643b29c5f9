"""A message as a record: the one Plex that every node makes of it, and the way back.

A whole message that modern rules accept is stored as a Plex as well, so that policies, exchanges of records and jobs
over records see it. Nothing in it is chosen, so two nodes that hold a message hold the same record:

===============  =====================================================================================================
``Group``        the account: its id, or ``any``; for a message of an account tangle, the id of that tangle
``App``          ``pzp``
``Name``         ``<domain>/<id>``
``TAI``          seconds 0 and, as nanoseconds, the greatest depth of the message in any tangle; 0 for a root
``Pzp-Account``  what the message itself says: an id, ``any`` or ``self``
``Pzp-Domain``   its domain
``Pzp-Id``       its id
``Pzp-Key``      the key that signed it, where that is proven
``Pzp-Tangle``   once for each tangle that it stands in, in the order of their ids; for a root its own id
``Pzp-Depth``    as often, in the same order: the depth there
data             canonical JSON: ``data`` and ``metadata``; where the signer is proven, also ``sig`` and ``sigkey``
===============  =====================================================================================================

The id of a message does not cover who signed it. Nobody checks the signature of a moot, and any key may sign a message
of the account ``any``; so copies of one such message, equally good, differ in nothing but that, and it is left out. A
moot is whole without it. Of a message of ``any`` the Plex says what the message is, and does not make one: the
signature that a message must have comes with the message itself.

An erased message has no Plex: what is left of it is kept for the sake of those after it and says nothing. Nor has one
whose depth, or whose number of tangles, does not fit into a record; no honest tangle comes near.
"""

from typing import Final

from bobbin import profile
from bobbin.errors import IntegrityError
from bobbin.records.record import MalformedField, Plex, build_plex
from bobbin.tangles import base58, canonical, keys
from bobbin.tangles.message import ANY, MESSAGE_BYTES_MAX, Message, from_json, is_message_id

APP: Final = profile.TANGLE_APP
UNSIGNED: Final = {"sig": base58.encode(bytes(keys.SIGNATURE_BYTES)), "sigkey": base58.encode(bytes(keys.PUBLIC_BYTES))}
"""What stands in a message from a Plex that names no signer. No such signature is ever right."""
DEPTH_MAX: Final = 999_999_999
"""What fits into the nanoseconds of a TAI time."""

ACCOUNT: Final = "Pzp-Account"
DEPTH: Final = "Pzp-Depth"
DOMAIN: Final = "Pzp-Domain"
ID: Final = "Pzp-Id"
KEY: Final = "Pzp-Key"
TANGLE: Final = "Pzp-Tangle"


def is_whole(message: Message) -> bool:
    """Whether nothing of it is missing: it has its data, or it is a moot and never had any."""
    return message.has_data or message.is_moot


def names_signer(message: Message) -> bool:
    """Whether it is part of the proof of a message who signed it.

    Where an account has several keys, several may have signed the same message; each such copy has a Plex of its own.
    """
    return not message.is_moot and message.account != ANY


def plex_of(message: Message) -> Plex | None:
    """The Plex of a message; None for one that cannot be a record."""
    places = sorted(message.places.items()) if message.places else []
    depths = [(tangle, place.depth) for tangle, place in places] or [(message.id, 0)]
    depth = max(depth for _, depth in depths)
    group = _group(message, depths[0][0])
    if not is_whole(message) or group is None or depth > DEPTH_MAX:
        return None
    extras = [(ACCOUNT, message.account), (DOMAIN, message.domain), (ID, message.id)]
    value = canonical.parse(message.raw)
    assert isinstance(value, dict), "a message is an object"
    content: dict[str, canonical.Json] = {"data": value["data"], "metadata": value["metadata"]}
    if names_signer(message):
        extras.append((KEY, message.sigkey))
        content |= {"sig": message.sig, "sigkey": message.sigkey}
    for tangle, at in depths:
        extras += [(TANGLE, tangle), (DEPTH, str(at))]
    try:
        return build_plex(
            group=group,
            app=APP,
            name=f"{message.domain}/{message.id}",
            tai_ns=depth,
            data=canonical.canonical(content),
            extras=extras,
        )
    except MalformedField:
        return None


def message_of(plex: Plex) -> Message | None:
    """The message that a Plex is; None for a Plex that is not, byte for byte, the one of the message inside it.

    A message whose Plex names no signer comes back with a signature that is none (``UNSIGNED``).
    """
    if plex.app != APP or len(plex.data) > MESSAGE_BYTES_MAX:
        return None
    try:
        value = canonical.parse(plex.data)
        message = from_json({**value, **UNSIGNED} if isinstance(value, dict) and "sig" not in value else value)
    except IntegrityError:
        return None
    derived = plex_of(message)
    return message if derived is not None and derived.raw == plex.raw else None


def _group(message: Message, first_tangle: str) -> str | None:
    if message.is_account:
        return first_tangle if is_message_id(first_tangle) else None
    return message.account if message.account == ANY or is_message_id(message.account) else None
