import msgspec

from bobbin.reactive.messages import NodeState
from bobbin.wire.lazily.seed_shapes import (
    SeedCellSet,
    SeedCrdtSync,
    SeedDelta,
    SeedEdgeAdd,
    SeedEdgeRemove,
    SeedInvalidate,
    SeedNode,
    SeedNodeAdd,
    SeedNodeRemove,
    SeedOutboxAck,
    SeedPayload,
    SeedResyncRequest,
    SeedSlotValue,
    SeedSnapshot,
)


def names(shape: type[msgspec.Struct]) -> list[str]:
    """As they are written, the tag included."""
    config = shape.__struct_config__
    fields = [field.encode_name for field in msgspec.structs.fields(shape)]
    return fields if config.tag is None else [f"{config.tag_field}={config.tag}", *fields]


def test_shapes_have_the_seeds_names() -> None:
    """RX-004, RX-015, RX-019, RX-023."""
    assert names(SeedSnapshot) == ["type=snapshot", "epoch", "nodes", "edges", "roots"]
    assert names(SeedNode) == ["slot_id", "type_tag", "state", "payload"]
    assert names(SeedDelta) == ["type=delta", "base_epoch", "epoch", "ops"]
    assert names(SeedPayload) == ["type_tag", "bytes"]
    assert [state.value for state in NodeState] == ["resolved", "dirty", "unset"]


def test_operations_have_the_seeds_names() -> None:
    """RX-025 to RX-029, RX-031 to RX-033."""
    assert [names(shape) for shape in (SeedCellSet, SeedSlotValue, SeedInvalidate, SeedNodeAdd, SeedNodeRemove)] == [
        ["op=cell_set", "slot_id", "payload"],
        ["op=slot_value", "slot_id", "payload"],
        ["op=invalidate", "slot_id"],
        ["op=node_add", "slot_id", "type_tag", "payload"],
        ["op=node_remove", "slot_id"],
    ]
    assert names(SeedEdgeAdd) == ["op=edge_add", "dependent", "dependency"]
    assert names(SeedEdgeRemove) == ["op=edge_remove", "dependent", "dependency"]


def test_what_the_seed_lacks_is_said_in_its_manner() -> None:
    assert names(SeedResyncRequest) == ["type=resync_request", "from_epoch"]
    assert names(SeedOutboxAck) == ["type=outbox_ack", "through_epoch"]
    assert names(SeedCrdtSync) == ["type=crdt_sync", "frontier", "ops"]
