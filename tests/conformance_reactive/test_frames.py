"""Every fixture of frames, in the codec it is written in, and rows of the conformance page that need several modules.

What a fixture expects is always compared with what the library made of a second decoding, never with the fixture
itself. Files whose copies are published under a licence lie in ``tests/vectors/lazily``; the others are read from the
folder beside the repository, and their tests are skipped where that is absent.
"""

import json
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from types import FrameType
from typing import Any

import msgspec
import pytest

from bobbin.reactive.handshake import Agreed, Capabilities, HandshakeRefused, agree
from bobbin.reactive.link_events import Opened, Received
from bobbin.reactive.messages import (
    BlobRef,
    CellSet,
    CrdtSync,
    Delta,
    Message,
    NodeAdd,
    NodeState,
    QueuePush,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.mirror import Mirror, MirrorConfig
from bobbin.reactive.signaling_frames import ClientFrame, Join, Refusal, ServerFrame, Welcome
from bobbin.wire.lazily import canonical_json, handshake, message_pack, seed_json
from bobbin.wire.lazily.checksum import fnv1a64
from bobbin.wire.lazily.conversions import to_canonical, to_seed
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.forms import Form, detect
from bobbin.wire.lazily.signaling import decode_client, decode_server, encode_client, encode_server
from tests.shared_fixtures import shared_fixture
from tests.support.lazily_messages import snapshot
from tests.vectors.load import HERE, load

FRAMES = [
    "snapshot_minimal",
    "snapshot_multi_node",
    "snapshot_shared_blob",
    "delta_sequential",
    "delta_non_sequential",
    "delta_zero_copy_arrow",
]
CODECS = [
    "codec/frame_roundtrip_json",
    "codec/frame_roundtrip_msgpack",
    "codec/nodeid_exact_range",
    "codec/blob_backend_discriminator",
]
Codec = tuple[Callable[[Message], bytes], Callable[[bytes], Message]]
JSON: Codec = canonical_json.encode, canonical_json.decode
PACKED: Codec = message_pack.encode, message_pack.decode


def shared(*parts: str) -> Any:  # noqa: ANN401
    return json.loads(shared_fixture("lazily", *parts).read_text(encoding="utf-8"))


def scenarios(name: str) -> list[Any]:
    found: list[Any] = load(f"lazily/{name}.json")["scenarios"]
    assert found
    return found


def named(values: Any) -> str:  # noqa: ANN401
    return str(values.get("id") or values.get("label"))


@pytest.mark.parametrize("name", [*FRAMES, *CODECS])
def test_the_copies_are_the_shared_files(name: str) -> None:
    manifest = {entry["file"]: entry for entry in shared("MANIFEST.json")["files"]}
    entry = manifest[f"{name}.json"]
    assert sha256((HERE / "lazily" / f"{name}.json").read_bytes()).hexdigest() == entry["sha256"]
    assert any("Apache-2.0" in twin for twin in entry["byte_identical_copy_in"])


# ---- whole frames ---------------------------------------------------------------------------------------------------


def round_trip(wire: Any, codec: Codec = JSON) -> Message:  # noqa: ANN401
    """What a frame is after decoding, encoding and decoding, once it is known that it was written as it came."""
    encode, decode = codec
    packed = codec is PACKED
    message = decode(msgspec.msgpack.encode(wire) if packed else json.dumps(wire).encode())
    raw = encode(message)
    assert (msgspec.msgpack.decode(raw) if packed else json.loads(raw)) == wire
    assert decode(raw) == message
    return message


@pytest.mark.parametrize("codec", [JSON, PACKED], ids=["json", "msgpack"])
@pytest.mark.parametrize("name", FRAMES)
def test_published_frames_come_back_as_they_went(name: str, codec: Codec) -> None:
    """RX-110 to RX-114, RX-138, RX-146."""
    fixture = load(f"lazily/{name}.json")
    message = round_trip(fixture["wire"], codec)
    assert type(message).__name__ == fixture["kind"]
    check_facts(message, fixture["assertions"])


def test_a_realistic_delta_comes_back_as_it_went() -> None:
    fixture = shared("agent-doc", "delta_agent_doc_state.json")
    message = round_trip(fixture["wire"])
    facts = fixture["assertions"]
    assert isinstance(message, Delta)
    assert (message.base_epoch, message.epoch, len(message.operations)) == (
        facts["base_epoch"],
        facts["epoch"],
        facts["op_count"],
    )
    added = [one for one in message.operations if isinstance(one, NodeAdd)]
    assert [one.tag for one in added] == facts["added_type_tags"]
    values = [one.value for one in message.operations if isinstance(one, CellSet)]
    phases = [json.loads(value)["phase"] for value in values if isinstance(value, bytes)]
    assert phases == [facts["cycle_phase_after"], facts["queue_head_phase_after"]]


def check_facts(message: Message, facts: dict[str, Any]) -> None:
    """Compare a message with everything that a fixture says of it; a fact that is not known here fails."""
    found: dict[str, Any] = {}
    if isinstance(message, Snapshot):
        first = message.nodes[0]
        opaque = [node.id for node in message.nodes if node.state is NodeState.UNSET]
        found = {
            "epoch": message.epoch,
            "node_count": len(message.nodes),
            "edge_count": len(message.edges),
            "root_count": len(message.roots),
            "first_node_type_tag": first.tag,
            "has_opaque_node": bool(opaque),
            "opaque_node_id": next(iter(opaque), None),
            "first_node_state_kind": "SharedBlob" if isinstance(first.value, BlobRef) else "Payload",
        }
        if isinstance(first.value, BlobRef):
            blob = first.value
            found |= {"blob_offset": blob.offset, "blob_len": blob.length, "blob_epoch": blob.epoch}
    elif isinstance(message, Delta):
        first_operation = next(iter(message.operations), None)
        value = first_operation.value if isinstance(first_operation, SlotValue | QueuePush) else None
        found = {
            "base_epoch": message.base_epoch,
            "epoch": message.epoch,
            "op_count": len(message.operations),
            "is_sequential": message.epoch == message.base_epoch + 1,
            "has_all_op_variants": len({type(one) for one in message.operations}) == 7,
            "first_op_kind": type(first_operation).__name__,
            "first_op_payload_kind": "SharedBlob" if isinstance(value, BlobRef) else "Inline",
            "first_op_payload_backend": value.backend.value if isinstance(value, BlobRef) else None,
            "resync_after_epoch_10": message.base_epoch != 10,
        }
    assert facts == {name: found[name] for name in facts}


@pytest.mark.parametrize(
    ("name", "codec"),
    [("codec/frame_roundtrip_json", JSON), ("codec/frame_roundtrip_msgpack", PACKED)],
    ids=["json", "msgpack"],
)
def test_frames_survive_their_codec(name: str, codec: Codec) -> None:
    """RX-126, RX-127, RX-138."""
    variants = []
    for scenario in scenarios(name):
        message = round_trip(scenario["wire"], codec)
        variants.append(type(message).__name__)
        assert variants[-1] == scenario["variant"]
        expected = dict(scenario["expect"])
        found = {**frame_facts(message), **encoded_facts(codec[0](message), codec, scenario["wire"])}
        assert expected == {field: found[field] for field in expected}
    assert variants == ["Snapshot", "Delta", "CrdtSync"]


def frame_facts(message: Message) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    match message:
        case Snapshot():
            first, opaque = message.nodes[0], message.nodes[2]
            assert isinstance(first.value, bytes)
            assert (opaque.state, opaque.value) == (NodeState.UNSET, None)
            facts |= {
                "epoch": message.epoch,
                "node_count": len(message.nodes),
                "edge_count": len(message.edges),
                "root_count": len(message.roots),
                "first_node_type_tag": first.tag,
                "first_node_payload": list(first.value),
                "opaque_node_id": opaque.id,
                "first_edge": [message.edges[0].dependent, message.edges[0].dependency],
                "roots": list(message.roots),
            }
        case Delta():
            added = [one for one in message.operations if isinstance(one, NodeAdd)]
            value = getattr(message.operations[0], "value", b"")
            facts |= {
                "base_epoch": message.base_epoch,
                "epoch": message.epoch,
                "op_count": len(message.operations),
                "op_variants": [type(one).__name__ for one in message.operations],
                "first_op_payload": list(value),
                "node_add_type_tag": added[0].tag,
            }
        case CrdtSync():
            one, two = message.operations
            assert message.frontier is not None
            peer, stamp = message.frontier[0]
            facts |= {
                "frontier_len": len(message.frontier),
                "frontier_first_peer": peer,
                "frontier_first_stamp_wall_time": stamp.wall_time,
                "op_count": len(message.operations),
                "first_op_node": one.id,
                "first_op_key_absent": one.key is None,
                "second_op_node": two.id,
                "second_op_key": two.key,
                "second_op_stamp_peer": two.stamp.peer,
            }
        case _:
            pytest.fail(f"no such frame in the fixture: {message}")
    return facts


def encoded_facts(raw: bytes, codec: Codec, source: Any) -> dict[str, Any]:  # noqa: ANN401
    """What can be seen only on the wire: names, and whether all is as it was in the source."""
    value = msgspec.msgpack.decode(raw) if codec is PACKED else json.loads(raw)
    ((envelope, body),) = value.items()
    facts: dict[str, Any] = {
        "round_trip_equals_source": value == source,
        "encoded_envelope_key": envelope,
        "encoded_body_field_names": sorted(body),
    }
    if envelope == "Snapshot":
        facts["opaque_node_state_tag"] = body["nodes"][2]["state"]
        facts["first_node_encoded_field_names"] = sorted(body["nodes"][0])
    if envelope == "CrdtSync":
        facts["first_op_encoded_field_names"] = sorted(body["ops"][0])
        facts["second_op_encoded_field_names"] = sorted(body["ops"][1])
    return facts


# ---- raw bytes ------------------------------------------------------------------------------------------------------


def raw_of(scenario: Any) -> tuple[bytes, Codec]:  # noqa: ANN401
    """The exact bytes of a scenario, proven by their checksum, and the codec they are for."""
    packed = scenario["codec"] == "msgpack"
    raw = bytes.fromhex(scenario["wire_msgpack_hex"]) if packed else scenario["wire_json"].encode()
    assert f"{fnv1a64(raw):016x}" == scenario["expect"]["wire_input_fnv1a64"]
    return raw, PACKED if packed else JSON


@pytest.mark.parametrize("scenario", scenarios("codec/nodeid_exact_range"), ids=named)
def test_ids_of_any_size_are_exact(scenario: Any) -> None:  # noqa: ANN401
    """RX-117: also those that a published peer may refuse."""
    raw, (encode, decode) = raw_of(scenario)
    expect = scenario["expect"]
    message = decode(encode(decode(raw)))
    assert isinstance(message, Snapshot)
    (node,) = message.nodes
    assert str(node.id) == expect["node_id_decimal"]
    assert str(message.roots[0]) == expect["root_id_decimal"]
    assert (message.epoch, len(message.nodes), node.tag) == (expect["epoch"], expect["node_count"], expect["type_tag"])
    assert node.value == bytes(expect["payload"])


@pytest.mark.parametrize("scenario", scenarios("codec/blob_backend_discriminator"), ids=named)
def test_where_a_blob_lies(scenario: Any) -> None:  # noqa: ANN401
    """RX-146."""
    raw, (encode, decode) = raw_of(scenario)
    expect = scenario["expect"]
    if scenario["outcome"] == "reject":
        with pytest.raises(FrameFault) as caught:
            decode(raw)
        assert caught.value.fault is Fault.MALFORMED
        assert expect.get("error_names_token", "") in str(caught.value)
        return
    again = encode(decode(raw))
    message = decode(again)
    assert isinstance(message, Delta)
    (operation,) = message.operations
    assert isinstance(operation, SlotValue)
    blob = operation.value
    assert isinstance(blob, BlobRef)
    found = {
        "decoded_backend": blob.backend.value,
        "reencoded_backend_field_present": b"backend" in again,
        "node": operation.id,
        "offset": blob.offset,
        "len": blob.length,
        "generation": blob.generation,
        "frame_epoch": message.epoch,
        "blob_epoch": blob.epoch,
        "checksum": blob.checksum,
        "wire_input_fnv1a64": expect["wire_input_fnv1a64"],
    }
    assert expect == found


def test_every_backend_of_the_fixture_is_met() -> None:
    """RX-146."""
    fixture = load("lazily/codec/blob_backend_discriminator.json")
    accepted = [one["expect"]["decoded_backend"] for one in fixture["scenarios"] if one["outcome"] == "accept"]
    assert set(accepted) == set(fixture["assertions"]["backends"])
    assert len(fixture["scenarios"]) == fixture["assertions"]["scenario_count"]


# ---- CRDT frames ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [JSON, PACKED], ids=["json", "msgpack"])
def test_crdt_frames_come_back_as_they_went(codec: Codec) -> None:
    """RX-126, RX-127: an omitted frontier stays omitted, and an empty one empty."""
    frames = shared("distributed", "crdt_sync_frames.json")["frames"]
    assert len(frames) == 4
    for frame in frames:
        message = round_trip(frame["wire"], codec)
        assert isinstance(message, CrdtSync)
        found = {
            "frontier_len": None if message.frontier is None else len(message.frontier),
            "frontier_omitted": message.frontier is None,
            "op_count": len(message.operations),
            "has_keyed_op": any(one.key is not None for one in message.operations),
            "has_keyless_op": any(one.key is None for one in message.operations),
        }
        assert frame["assertions"] == {name: found[name] for name in frame["assertions"]}


# ---- the seed's form ------------------------------------------------------------------------------------------------


def test_the_seeds_snapshot_comes_back_as_it_went() -> None:
    """RX-015, RX-019: the only frame in this form that others have written."""
    wire = shared("examples", "snapshot.json")
    raw = json.dumps(wire).encode()
    assert detect(raw) is Form.SEED_JSON
    message = seed_json.decode(raw)
    assert json.loads(seed_json.encode(message)) == wire
    assert isinstance(message, Snapshot)
    assert [node.value for node in message.nodes] == [b"\0\0\0\x01", b'"hello"', b"\0\0\x001"]


@pytest.mark.parametrize("name", FRAMES)
def test_published_frames_survive_the_seeds_form(name: str) -> None:
    """RX-119: what both forms have is the same after a journey through the other."""
    message = canonical_json.decode(json.dumps(load(f"lazily/{name}.json")["wire"]).encode())
    (told,) = to_seed(message)
    (back,) = to_canonical(seed_json.decode(seed_json.encode(told)))
    assert back == message


# ---- handshake ------------------------------------------------------------------------------------------------------


def agreed(scenario: Any) -> Agreed:  # noqa: ANN401
    local, remote = (said(scenario[side]) for side in ("local", "remote"))
    return agree(local, remote)


def said(fields: Any) -> Capabilities:  # noqa: ANN401
    capabilities = handshake.decode(json.dumps(fields).encode())
    assert json.loads(handshake.encode(capabilities)) == fields
    return capabilities


def test_handshakes_of_the_fixture() -> None:
    """RX-067, RX-140, RX-141, RX-142."""
    found = shared("codec", "capability_handshake.json")["scenarios"]
    assert len(found) == 5
    for scenario in found:
        expected = scenario["expected"]
        if expected["compatible"]:
            result = agreed(scenario)
            assert result.frame_bytes_max == expected["negotiated_max_frame_size"]
            assert result.fragmentation is expected["negotiated_fragmentation_supported"]
        else:
            with pytest.raises(HandshakeRefused) as caught:
                agreed(scenario)
            assert caught.value.field == expected["field"]


# ---- signaling ------------------------------------------------------------------------------------------------------


def signal(direction: str, wire: Any) -> ClientFrame | ServerFrame:  # noqa: ANN401
    """A frame after decoding, encoding and decoding, once it is known that it was written as it came."""
    raw = json.dumps(wire).encode()
    if direction == "client":
        client = decode_client(raw)
        assert json.loads(encode_client(client)) == wire
        return decode_client(encode_client(client))
    server = decode_server(raw)
    assert json.loads(encode_server(server)) == wire
    return decode_server(encode_server(server))


def test_signaling_frames_of_the_fixture() -> None:
    """RX-084 to RX-093, RX-148, RX-149."""
    fixture = shared("signaling", "frames.json")
    assert (len(fixture["frames"]), len(fixture["rejects"])) == (17, 3)
    for entry in fixture["frames"]:
        frame = signal(entry["direction"], entry["wire"])
        facts = entry["assertions"]
        found = {
            "peer": getattr(frame, "peer", None),
            "to": getattr(frame, "to", None),
            "from": getattr(frame, "sender", None),
            "server_stamped_from": hasattr(frame, "sender") and not hasattr(frame, "to"),
        }
        if isinstance(frame, Join):
            found |= {
                "has_capabilities": frame.capabilities is not None,
                "capabilities": list(frame.capabilities or ()),
            }
        if isinstance(frame, Welcome):
            found |= {"peers": list(frame.peers), "roster_excludes_self": frame.peer not in frame.peers}
        if isinstance(frame, Refusal):
            found |= {"code": frame.code.value}
        assert facts == {name: found[name] for name in facts}
    for entry in fixture["rejects"]:
        refuse = decode_client if entry["direction"] == "client" else decode_server
        with pytest.raises(FrameFault):
            refuse(json.dumps(entry["wire"]).encode())


def test_the_frames_of_a_session_in_the_seeds_form() -> None:
    """RX-084 to RX-092."""
    session = shared("examples", "signaling-session.json")
    assert len(session) == 11
    for wire in session:
        from_client = "to" in wire or wire["type"] in {"join", "leave"}
        signal("client" if from_client else "server", wire)


# ---- cost -----------------------------------------------------------------------------------------------------------


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work takes: a measure that no other program disturbs."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("codec", [JSON, PACKED, (seed_json.encode, seed_json.decode)], ids=["json", "msgpack", "seed"])
def test_the_work_for_a_snapshot_grows_with_its_nodes(codec: Codec) -> None:
    """RX-169: for encoding, decoding and applying it."""
    encode, decode = codec

    def mirrored(graph: Snapshot) -> None:
        mirror = Mirror(MirrorConfig())
        mirror.step(Opened())
        mirror.step(Received(decode(encode(graph))))
        assert mirror.is_current
        assert mirror.epoch == graph.epoch

    small, large = snapshot(100), snapshot(1000)
    costs = [lines_run(partial(mirrored, graph)) for graph in (small, large)]
    assert costs[1] <= 11 * costs[0]


MANY = 20_000
SHORTEST: list[tuple[str, Codec, bytes]] = [
    ("roots", JSON, b'{"Snapshot":{"epoch":0,"nodes":[],"edges":[],"roots":[%s]}}' % b",".join([b"300"] * MANY)),
    ("roots, packed", PACKED, msgspec.msgpack.encode(
        {"Snapshot": {"epoch": 0, "nodes": [], "edges": [], "roots": [300] * MANY}}
    )),
    ("bytes, packed", PACKED, msgspec.msgpack.encode(
        {"Delta": {"base_epoch": 0, "epoch": 1, "ops": [{"CellSet": {"node": 1, "payload": {"Inline": [1] * MANY}}}]}}
    )),
    ("operations, packed", PACKED, msgspec.msgpack.encode(
        {"Delta": {"base_epoch": 0, "epoch": 1, "ops": [{"QueuePop": {"node": 300}}] * MANY}}
    )),
    ("operations", JSON, b'{"Delta":{"base_epoch":0,"epoch":1,"ops":[%s]}}' % b",".join(
        [b'{"QueuePop":{"node":300}}'] * MANY
    )),
]  # fmt: skip
"""The elements that take the fewest bytes, as many as a frame holds."""


@pytest.mark.parametrize(("codec", "raw"), [case[1:] for case in SHORTEST], ids=[case[0] for case in SHORTEST])
def test_memory_follows_the_length_of_a_frame(codec: Codec, raw: bytes) -> None:
    """RX-074: so the bound on frames bounds everything that a frame can make."""
    tracemalloc.start()
    try:
        codec[1](raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 16 * len(raw)
