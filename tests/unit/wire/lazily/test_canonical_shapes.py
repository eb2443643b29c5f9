import msgspec
import pytest

from bobbin.reactive.messages import Backend, BlobRef
from bobbin.wire.lazily.canonical_shapes import (
    AnyMessage,
    AnyOperation,
    Blob,
    Content,
    OutboxAckBody,
    ResyncRequestBody,
    State,
    blob_of,
    check_key,
    check_one,
)
from bobbin.wire.lazily.faults import Fault, FrameFault

BLOB = Blob(1, 2, 3, 4, 5)


def names(shape: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(shape)]


def test_variants_have_their_published_names() -> None:
    """RX-110, RX-112 to RX-114."""
    assert names(AnyMessage) == ["Snapshot", "Delta", "CrdtSync", "ResyncRequest", "OutboxAck"]
    assert names(AnyOperation) == [
        "CellSet",
        "SlotValue",
        "Invalidate",
        "NodeAdd",
        "NodeRemove",
        "EdgeAdd",
        "EdgeRemove",
        "QueuePush",
        "QueuePop",
        "QueueClose",
    ]
    assert names(State) == ["Payload", "SharedBlob"]
    assert names(Content) == ["Inline", "SharedBlob"]
    assert names(Blob) == ["offset", "len", "generation", "epoch", "checksum", "backend"]


@pytest.mark.parametrize(
    "shape",
    [
        AnyMessage(),
        AnyMessage(resync_request=ResyncRequestBody(1), outbox_ack=OutboxAckBody(1)),
        AnyOperation(),
        State(),
        State([1], BLOB),
        Content(),
        Content([1], BLOB),
    ],
)
def test_none_or_several_variants_are_refused(shape: AnyMessage | AnyOperation | State | Content) -> None:
    """RX-110."""
    with pytest.raises(FrameFault) as caught:
        check_one(shape)
    assert caught.value.fault is Fault.MALFORMED


@pytest.mark.parametrize("shape", [AnyMessage(resync_request=ResyncRequestBody(0)), State([]), Content(b"")])
def test_one_variant_is_one_also_if_it_is_empty(shape: AnyMessage | State | Content) -> None:
    check_one(shape)


@pytest.mark.parametrize("backend", Backend)
def test_blobs_come_back_as_they_went(backend: Backend) -> None:
    """RX-146."""
    reference = BlobRef(1, 2, 3, 4, 5, backend)
    assert blob_of(reference).reference == reference
    assert (blob_of(reference).backend is msgspec.UNSET) is (backend is Backend.SHM)


def test_a_blob_knows_how_many_fields_it_was_given() -> None:
    assert BLOB.fields == 5
    assert Blob(1, 2, 3, 4, 5, None).fields == 6
    assert Blob(1, 2, 3, 4, 5, Backend.SHM).fields == 6


def test_keys_are_paths() -> None:
    check_key(None)
    check_key("a/b")
    with pytest.raises(FrameFault):
        check_key("a//b")
