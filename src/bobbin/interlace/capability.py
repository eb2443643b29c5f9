"""The capability to reconcile by sketches: how two sides find out that both have it, and agree on a key.

A hello may name limits that nobody else knows, and those are of no consequence (Lace-050). So a side that can tells it
by a limit of this name, whose value is its share of the key. Where both have told, the key follows from both shares:
neither side can choose it alone before it has heard the other.
"""

from typing import Final

from blake3 import blake3

from bobbin.interlace.messages import Hello
from bobbin.reconcile import KEY_BYTES

NAME: Final = "bobbin_reconcile_1"
"""Of the limit. Another way to speak will have another name."""
_TAG: Final = b"bobbin-reconcile-key/v1"
_SHARE_BYTES: Final = 8


def agree_key(own: Hello, peer: Hello, *, initiator: bool) -> bytes | None:
    """The key of a link, the same on both sides; None where a side does not have the capability."""
    if own.reconcile is None or peer.reconcile is None:
        return None
    shares = (own.reconcile, peer.reconcile) if initiator else (peer.reconcile, own.reconcile)
    raw = b"".join(share.to_bytes(_SHARE_BYTES, "little") for share in shares)
    return blake3(_TAG + raw).digest(KEY_BYTES)
