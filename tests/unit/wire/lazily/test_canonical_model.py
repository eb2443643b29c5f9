"""Between the shapes of published peers and the model."""

import msgspec
import pytest
from hypothesis import given

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    Delta,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeState,
    Snapshot,
)
from bobbin.wire.lazily.canonical_model import Reader, shape_of
from bobbin.wire.lazily.canonical_shapes import AnyMessage, AnyOperation, DeltaBody, SnapshotBody, State, StatedNode
from bobbin.wire.lazily.faults import Fault, FrameFault
from tests.support.lazily_messages import CANONICAL, count_fields

ONE = NodeId(1)


@given(CANONICAL)
def test_messages_come_back_and_their_fields_are_counted(message: Message) -> None:
    """RX-114, RX-116: the count is by what a field that is given twice is found."""
    for base64 in (False, True):
        reader = Reader(base64=base64)
        shape = shape_of(message, base64=base64)
        assert reader.message(shape) == message
        assert reader.fields == count_fields(msgspec.json.encode(shape))


@pytest.mark.parametrize(
    "text",
    [
        (
            '{"Snapshot":{"epoch":0,"nodes":[{"node":1,"type_tag":"a","state":{"Payload":[1]},"key":null},'
            '{"node":1,"type_tag":"a","state":"Opaque","key":null}],"edges":[],"roots":[]}}'
        ),
        (
            '{"Delta":{"base_epoch":0,"epoch":1,"ops":[{"NodeAdd":{"node":1,"type_tag":"a","state":{"SharedBlob":'
            '{"offset":0,"len":1,"generation":1,"epoch":1,"checksum":1,"backend":null}},"key":null}}]}}'
        ),
        '{"CrdtSync":{"ops":[{"node":1,"stamp":{"wall_time":1,"logical":1,"peer":1},"state":{"Inline":[]}}]}}',
    ],
)
def test_fields_that_are_null_or_left_out_are_counted_too(text: str) -> None:
    reader = Reader(base64=False)
    reader.message(msgspec.json.decode(text, type=AnyMessage))
    assert reader.fields == count_fields(text.encode())


def test_opaque_is_a_node_without_a_value() -> None:
    """RX-112, RX-119."""
    message = Snapshot(0, (Node(ONE, "a", NodeState.UNSET),), (), ())
    shape = shape_of(message)
    assert isinstance(shape.snapshot, SnapshotBody)
    assert shape.snapshot.nodes[0].state == "Opaque"
    added = shape_of(Delta(0, 1, (NodeAdd(ONE, "a"),)))
    assert isinstance(added.delta, DeltaBody)
    assert added.delta.ops == [AnyOperation(node_add=StatedNode(ONE, "a", "Opaque"))]


def test_a_dirty_node_has_no_shape() -> None:
    """RX-119."""
    for value in (b"old", None):
        with pytest.raises(UsageError, match="dirty"):
            shape_of(Snapshot(0, (Node(ONE, "a", NodeState.DIRTY, value),), (), ()))


def test_texts_for_bytes_need_an_agreement() -> None:
    """RX-115, RX-139."""
    for key in (msgspec.UNSET, "key"):
        node = StatedNode(ONE, "a", State(b"\x01"), key)
        shape = AnyMessage(snapshot=SnapshotBody(0, [node], (), ()))
        with pytest.raises(FrameFault) as caught:
            Reader(base64=False).message(shape)
        assert caught.value.fault is Fault.MALFORMED
        found = Reader(base64=True).message(shape)
        assert isinstance(found, Snapshot)
        assert found.nodes[0].value == b"\x01"
