"""What a peer wants to do to a node, as JSON."""

import pytest

from bobbin.reactive.messages import U64_MAX, NodeId
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.remote_op import REMOTE_OP_BYTES_MAX, decode, encode

PASCAL = {OpKind.READ: "Read", OpKind.WRITE: "Write", OpKind.TRIGGER_EFFECT: "TriggerEffect"}


@pytest.mark.parametrize("kind", OpKind)
@pytest.mark.parametrize("node", [0, 2**53 + 1, U64_MAX])
def test_kinds_are_written_small_and_read_both_ways(kind: OpKind, node: int) -> None:
    """RX-105, RX-150."""
    op = RemoteOp(kind, NodeId(node))
    text = f'{{"kind":"{kind.value}","node":{node}}}'
    assert encode(op) == text.encode()
    assert decode(text.encode()) == op
    assert decode(f' {{"node" : {node}, "kind" : "{PASCAL[kind]}"}}'.encode()) == op


def test_the_kinds_are_three() -> None:
    """RX-105."""
    assert [kind.value for kind in OpKind] == ["read", "write", "trigger_effect"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"kind":"delete","node":1}', Fault.MALFORMED),
        ('{"kind":"READ","node":1}', Fault.MALFORMED),
        ('{"kind":"triggerEffect","node":1}', Fault.MALFORMED),
        ('{"kind":"","node":1}', Fault.MALFORMED),
        ('{"kind":null,"node":1}', Fault.MALFORMED),
        ('{"kind":"read"}', Fault.MALFORMED),
        ('{"node":1}', Fault.MALFORMED),
        ('{"kind":"read","node":1,"peer":2}', Fault.MALFORMED),
        ('{"kind":"read","kind":"write","node":1}', Fault.MALFORMED),
        ('{"kind":"read","node":"1"}', Fault.MALFORMED),
        ('{"kind":"read","node":1.0}', Fault.MALFORMED),
        ('{"kind":"read","node":-1}', Fault.OUT_OF_RANGE),
        (f'{{"kind":"read","node":{U64_MAX + 1}}}', Fault.OUT_OF_RANGE),
        ("", Fault.MALFORMED),
        (" " * (REMOTE_OP_BYTES_MAX + 1), Fault.OVERSIZED),
    ],
)
def test_what_is_none_is_refused(text: str, fault: Fault) -> None:
    """RX-105."""
    with pytest.raises(FrameFault) as caught:
        decode(text.encode())
    assert caught.value.fault is fault
