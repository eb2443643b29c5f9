"""What a peer may do to a node, or wants to, as JSON: ``{"kind": "read", "node": 1}``.

One published peer writes the kinds as ``Read``, ``Write`` and ``TriggerEffect``; they are read, and never written.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Struct

from bobbin.reactive.messages import U64_MAX, NodeId
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.wire.lazily import json_text
from bobbin.wire.lazily.faults import UNREADABLE, Fault, FrameFault, check_size, malformed

REMOTE_OP_BYTES_MAX: Final = 1024

_KINDS: Final[Mapping[str, OpKind]] = MappingProxyType(
    {
        **{kind.value: kind for kind in OpKind},
        "Read": OpKind.READ,
        "Write": OpKind.WRITE,
        "TriggerEffect": OpKind.TRIGGER_EFFECT,
    }
)


class _RemoteOp(Struct, forbid_unknown_fields=True):
    kind: str
    node: int


_decoder: Final = msgspec.json.Decoder(_RemoteOp)


def encode(op: RemoteOp) -> bytes:
    """The text of an operation."""
    return msgspec.json.encode(_RemoteOp(op.kind.value, op.node))


def decode(raw: bytes) -> RemoteOp:
    """The operation of a text, or ``FrameFault``."""
    check_size(raw, REMOTE_OP_BYTES_MAX)
    try:
        said = _decoder.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    json_text.check_fields(raw)
    kind = _KINDS.get(said.kind)
    if kind is None:
        raise FrameFault(Fault.MALFORMED, f"no kind of operation: {said.kind[:80]!r}")
    if not 0 <= said.node <= U64_MAX:
        raise FrameFault(Fault.OUT_OF_RANGE, f"ids lie between 0 and 2^64 - 1, not at {said.node}")
    return RemoteOp(kind, NodeId(said.node))
