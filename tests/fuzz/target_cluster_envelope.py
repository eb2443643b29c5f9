"""Envelopes at the door of a node: any bytes, and any payload of a sender who is proven, are admitted or refused.

The first two bytes are also read as a type, and the rest as a payload that a registered node has signed: so the inputs
get past the signature and reach the decoders and every rule behind them.
"""

from blake3 import blake3

from bobbin.cluster.settings import MessageValidationConfig
from bobbin.errors import PeerError
from bobbin.wire.cluster import codec
from bobbin.wire.cluster.envelope import pack, signed_bytes, unpack
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.gateway import Admitted, Gateway
from bobbin.wire.cluster.replay import SequenceTracker
from bobbin.wire.cluster.validation import command_check
from tests.support.cluster_wire import ALICE, BOB, BOB_BOOT, CLUSTER, NOW_MS, envelope, registry

_REGISTRY = registry()
_CONFIG = MessageValidationConfig()
_CHECK = command_check(_CONFIG)


def one_input(data: bytes) -> None:
    try:
        found = unpack(data)
    except MessageRefused as refused:
        Refusal(refused.code)
    else:
        assert pack(found) == data
        assert signed_bytes(found).endswith(blake3(found.payload).digest())
    _admit(data)
    sealed = pack(envelope(int.from_bytes(data[:2], "big"), data[2:]))
    admitted = _admit(sealed)
    if admitted is not None:
        assert admitted.sender == ALICE.node
        number, payload = codec.encode(admitted.message)
        assert number == int.from_bytes(data[:2], "big")
        again = _admit(pack(envelope(number, payload)))
        assert again == admitted


def _admit(raw: bytes) -> Admitted | None:
    tracker = SequenceTracker()
    door = Gateway(CLUSTER, BOB.node, _REGISTRY, tracker, _CONFIG, boot_id=BOB_BOOT, check_command=_CHECK)
    try:
        admitted = door.admit(raw, now_ms=NOW_MS)
    except PeerError as refused:
        code = Refusal(refused.code)
    else:
        assert (door.admitted, len(door.refused)) == (1, 0)
        return admitted
    assert door.refused == {code: 1}
    assert door.admitted == 0
    return None
