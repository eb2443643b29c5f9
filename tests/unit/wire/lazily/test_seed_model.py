"""Between the shapes of the seed and the model."""

import msgspec
import pytest
from hypothesis import given

from bobbin.errors import UsageError
from bobbin.reactive.messages import Delta, Message, Node, NodeAdd, NodeId, NodeState, QueuePop, Snapshot
from bobbin.wire.lazily.conversions import to_seed
from bobbin.wire.lazily.faults import FrameFault
from bobbin.wire.lazily.seed_model import Reader, shape_of
from bobbin.wire.lazily.seed_shapes import SeedCrdtSync, SeedDelta, SeedMessage, SeedNode, SeedSnapshot
from tests.support.lazily_messages import ANY, count_fields

ONE = NodeId(1)


@given(ANY)
def test_messages_come_back_and_their_fields_are_counted(message: Message) -> None:
    """RX-022: the count is by what a field that is given twice is found."""
    (said,) = to_seed(message)
    reader = Reader()
    shape = shape_of(said)
    assert reader.message(shape) == said
    assert reader.fields == count_fields(msgspec.json.encode(shape))


@pytest.mark.parametrize(
    "text",
    [
        (
            '{"type":"snapshot","epoch":0,"nodes":[{"slot_id":1,"type_tag":"a","state":"unset"},'
            '{"slot_id":1,"type_tag":"a","state":"dirty","payload":null}],"edges":[],"roots":[]}'
        ),
        '{"type":"delta","base_epoch":0,"epoch":1,"ops":[{"op":"node_add","slot_id":1,"type_tag":"a","payload":null}]}',
        (
            '{"type":"crdt_sync","ops":[{"slot_id":1,"stamp":{"wall_time":1,"logical":1,"peer":1},"payload":{"offset":0,'
            '"len":1,"generation":1,"epoch":1,"checksum":1,"backend":null}}]}'
        ),
    ],
)
def test_fields_that_are_null_or_left_out_are_counted_too(text: str) -> None:
    reader = Reader()
    reader.message(msgspec.json.Decoder[SeedMessage](SeedMessage).decode(text))
    assert reader.fields == count_fields(text.encode())


@pytest.mark.parametrize(
    ("state", "payload"), [(NodeState.UNSET, b""), (NodeState.RESOLVED, None), (NodeState.RESOLVED, msgspec.UNSET)]
)
def test_a_payload_and_a_state_that_contradict_each_other_are_refused(
    state: NodeState, payload: bytes | msgspec.UnsetType | None
) -> None:
    """RX-021."""
    shape = SeedSnapshot(0, [SeedNode(ONE, "a", state, payload)], (), ())
    with pytest.raises(FrameFault, match=state.value):
        Reader().message(shape)


def test_what_the_seed_has_no_word_for_has_no_shape() -> None:
    keyed = Node(ONE, "a", NodeState.UNSET, None, "key")
    for message in (
        Snapshot(0, (keyed,), (), ()),
        Delta(0, 1, (NodeAdd(ONE, "a", None, "key"),)),
        Delta(0, 1, (QueuePop(ONE),)),
    ):
        with pytest.raises(UsageError):
            shape_of(message)


def test_the_shapes_are_those_of_the_messages() -> None:
    assert isinstance(shape_of(Snapshot(0, (), (), ())), SeedSnapshot)
    assert isinstance(shape_of(Delta(0, 1, ())), SeedDelta)
    assert not isinstance(shape_of(Delta(0, 1, ())), SeedCrdtSync)
