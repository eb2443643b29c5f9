"""Messages of the reactive protocol for tests: any at all, and some by hand."""

import json
from collections.abc import Collection, Iterator

from hypothesis import strategies as st

from bobbin.reactive.handshake import Agreed, Codec
from bobbin.reactive.messages import (
    U64_MAX,
    Backend,
    BlobRef,
    CellSet,
    CrdtOperation,
    CrdtSync,
    Delta,
    Edge,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    OutboxAck,
    PeerId,
    QueueClose,
    QueuePop,
    QueuePush,
    ResyncRequest,
    SlotValue,
    Snapshot,
    Stamp,
)

NUMBERS = st.integers(0, U64_MAX) | st.sampled_from([0, 2**53 - 1, 2**53 + 1, 2**63, U64_MAX])
IDS = NUMBERS.map(NodeId)
PEERS = NUMBERS.map(PeerId)
TAGS = st.text(max_size=8) | st.sampled_from(["i64", "a:b", "text/plain", 'quo"te', "\u2028", "-1"])
KEYS = st.none() | st.sampled_from(["a", "scores/alice", "a:b/c", "é/\\"])
REFERENCES = st.builds(BlobRef, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.sampled_from(Backend))
VALUES = st.binary(max_size=9) | REFERENCES
EDGES = st.builds(Edge, IDS, IDS)
STAMPS = st.builds(Stamp, NUMBERS, NUMBERS, PEERS)

RESOLVED = st.builds(Node, IDS, TAGS, st.just(NodeState.RESOLVED), VALUES, KEYS)
UNSET_NODES = st.builds(Node, IDS, TAGS, st.just(NodeState.UNSET), st.none(), KEYS)
DIRTY = st.builds(Node, IDS, TAGS, st.just(NodeState.DIRTY), st.none() | VALUES, KEYS)
OPERATIONS = st.one_of(
    st.builds(CellSet, IDS, VALUES),
    st.builds(SlotValue, IDS, VALUES),
    st.builds(Invalidate, IDS),
    st.builds(NodeAdd, IDS, TAGS, st.none() | VALUES, KEYS),
    st.builds(NodeRemove, IDS),
    st.builds(EdgeAdd, IDS, IDS),
    st.builds(EdgeRemove, IDS, IDS),
)
QUEUES = st.one_of(st.builds(QueuePush, IDS, VALUES), st.builds(QueuePop, IDS), st.builds(QueueClose, IDS))


def tuples(elements: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    """Short tuples."""
    return st.lists(elements, max_size=4).map(tuple)


def snapshots(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Snapshot]:
    """Snapshots of such nodes."""
    return st.builds(Snapshot, NUMBERS, tuples(nodes), tuples(EDGES), tuples(IDS))


CRDT_SYNCS = st.builds(
    CrdtSync,
    tuples(st.builds(CrdtOperation, IDS, KEYS, STAMPS, VALUES)),
    st.none() | tuples(st.tuples(PEERS, STAMPS)),
)
REQUESTS = st.builds(ResyncRequest, NUMBERS) | st.builds(OutboxAck, NUMBERS)

CANONICAL: st.SearchStrategy[Message] = st.one_of(
    snapshots(RESOLVED | UNSET_NODES),
    st.builds(Delta, NUMBERS, NUMBERS, tuples(OPERATIONS | QUEUES)),
    CRDT_SYNCS,
    REQUESTS,
)
"""What published peers can be told."""

ANY: st.SearchStrategy[Message] = st.one_of(
    snapshots(RESOLVED | UNSET_NODES | DIRTY),
    st.builds(Delta, NUMBERS, NUMBERS, tuples(OPERATIONS)),
    CRDT_SYNCS,
    REQUESTS,
)
"""What the seed can be told, but for keys of nodes."""


def agreement(**changes: object) -> Agreed:
    """What two sides agreed on, so and so."""
    fields: dict[str, object] = {
        "local": PeerId(1),
        "remote": PeerId(2),
        "session": "graph",
        "codec": Codec.JSON,
        "frame_bytes_max": 4096,
        "fragmentation": False,
        "ordered_reliable": True,
        "features": frozenset(),
    }
    return Agreed(**{**fields, **changes})  # type: ignore[arg-type]


def snapshot(nodes: int) -> Snapshot:
    """A chain of this many nodes."""
    return Snapshot(
        1,
        tuple(Node(NodeId(at), "i32", NodeState.RESOLVED, at.to_bytes(4, "big")) for at in range(nodes)),
        tuple(Edge(NodeId(at + 1), NodeId(at)) for at in range(nodes - 1)),
        (NodeId(0),),
    )


# ---- texts ----------------------------------------------------------------------------------------------------------


def other_texts(raw: bytes) -> list[bytes]:
    """The same JSON with white space, with the fields of every object in the opposite order, and without escapes."""
    value = json.loads(raw)
    return [json.dumps(value, indent=1).encode(), json.dumps(_turned(value), ensure_ascii=False).encode()]


def _turned(value: object) -> object:
    if isinstance(value, dict):
        return {name: _turned(inner) for name, inner in reversed(value.items())}
    return [_turned(inner) for inner in value] if isinstance(value, list) else value


def broken_objects(text: str, *, optional: Collection[str]) -> Iterator[str]:
    """A text with one object of it broken, in every way there is: a field too many, too few, or twice."""
    whole = json.loads(text)
    for place in _objects(whole):
        kept = dict(place)
        yield _with(whole, place, {**kept, "more": None})
        for name, value in kept.items():
            # A name that no dict can have twice, until it is text.
            twice = _with(whole, place, {**kept, f"{name}\0": value})
            yield twice.replace(f"{json.dumps(name)[:-1]}\\u0000", json.dumps(name)[:-1])
            if name not in optional:
                yield _with(whole, place, {other: kept[other] for other in kept if other != name})
        _with(whole, place, kept)


def count_fields(raw: bytes) -> int:
    """How many fields the objects of a text have in all."""
    return sum(map(len, _objects(json.loads(raw))))


def _with(whole: object, place: dict[str, object], fields: dict[str, object]) -> str:
    place.clear()
    place.update(fields)
    return json.dumps(whole)


def _objects(value: object) -> list[dict[str, object]]:
    """Every object inside a value, itself included."""
    if isinstance(value, dict):
        return [value, *[found for inner in value.values() for found in _objects(inner)]]
    return [found for inner in value for found in _objects(inner)] if isinstance(value, list) else []
