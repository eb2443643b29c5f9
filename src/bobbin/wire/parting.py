"""The last word on a stream: why a side closes it, where that is of use to the other one.

The stream has no message that ends a link, and needs none: what was complete before stays, and the next link goes on.
But a peer that is told nothing cannot tell a node that cannot store at the moment from a cable that was pulled, and
tries again in vain. So the last line before the end may be a comment::

    # ended: store-failure

A comment is of no consequence to whoever does not look for it. What is said is a name from a short list, since every
further word could tell a stranger about the store or the rules of this side. Where something follows, it is a comment
like any other.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bobbin.interlace.reasons import Abort, Reason

TOLD: Final[Mapping[Reason, Reason]] = MappingProxyType({Reason.STORE: Reason.PEER_STORE})
"""The ends that a peer is told of, each with the reason under which the exchange ends at the peer."""

_DETAILS: Final[Mapping[Reason, str]] = MappingProxyType(
    {Reason.PEER_STORE: "the peer ended the exchange, since it cannot store at the moment"}
)
_PARTING: Final = re.compile(rb"# ended: ([a-z-]{1,64})\n")


def encode(why: Reason | None) -> bytes:
    """What is written before the stream is closed; nothing where the peer is not told."""
    return f"# ended: {why}\n".encode("ascii") if why in TOLD else b""


def ended(heard: Reason) -> Abort:
    """What ends the exchange of a side that has heard this."""
    return Abort(heard, _DETAILS[heard])


def read(comment: bytes) -> Reason | None:
    """The reason that a comment, with its LF, gives this side; None for any other comment."""
    found = _PARTING.fullmatch(comment)
    said = None if found is None else found[1].decode("ascii")
    return next((heard for told, heard in TOLD.items() if told == said), None)
