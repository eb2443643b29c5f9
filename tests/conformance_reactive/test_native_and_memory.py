"""The C boundary and shared memory as ways for the one plane of messages."""

import json
from collections.abc import Callable, Iterable, Iterator

import pytest

from bobbin.errors import UsageError
from bobbin.native.library import library
from bobbin.reactive.change import Change
from bobbin.reactive.graph import Graph
from bobbin.reactive.link_effects import Send
from bobbin.reactive.link_events import Changed, Opened, Received, Sent
from bobbin.reactive.messages import (
    BlobRef,
    CellSet,
    Delta,
    Edge,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeState,
    PeerId,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.mirror import Mirror, MirrorConfig
from bobbin.reactive.permissions import OpKind, PeerPermissions
from bobbin.reactive.publisher import Publisher, PublisherConfig, take_change
from bobbin.reactive.replica import Replica
from bobbin.reactive.source import GraphSource
from bobbin.reactive.type_tags import TypeTags
from bobbin.runtime.arena import Arena, ArenaReader
from bobbin.runtime.spilling import resolve, spill
from bobbin.wire.lazily import canonical_json, seed_json
from bobbin.wire.lazily.arena_header import HEADER_BYTES, Header, pack
from tests.shared_fixtures import shared_fixture

_PEER = PeerId(7)
_Carry = Callable[[Message], Message]


class _Link:
    """A graph, and a mirror of it at the other end of some way to carry messages."""

    def __init__(self, carry: _Carry) -> None:
        self.graph = Graph()
        self._permissions = PeerPermissions()
        self._permissions.grant_all(_PEER, OpKind.READ)
        self._source = GraphSource(self.graph, TypeTags.standard(), wanted=self._permissions.is_readable)
        self._truth = Replica()
        self._truth.replace(self._source.snapshot())
        self._publisher = Publisher(
            PublisherConfig(checking=True), peer=_PEER, truth=self._truth, permissions=self._permissions
        )
        self.mirror = Mirror(MirrorConfig(checking=True))
        self._carry = carry
        self._source.on_change(self._change)
        self.mirror.step(Opened())
        self._send(self._publisher.step(Opened()))

    def _change(self, change: Change) -> None:
        take_change(self._truth, self._permissions, change)
        self._send(self._publisher.step(Changed(change)))

    def _send(self, effects: Iterable[object]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                for answer in self.mirror.step(Received(self._carry(effect.message))):
                    assert not isinstance(answer, Send), answer
                self._send(self._publisher.step(Sent()))

    def state(self) -> tuple[dict[NodeId, Node], frozenset[Edge], frozenset[NodeId], int | None]:
        replica = self.mirror.replica
        return dict(replica.nodes), frozenset(replica.edges), frozenset(replica.roots), self.mirror.epoch


def _through_c(encode: Callable[[Message], bytes], decode: Callable[[bytes], Message]) -> Iterator[_Carry]:
    with library().channel() as channel:

        def carry(message: Message) -> Message:
            channel.send(encode(message))
            received = channel.receive()
            assert received is not None
            assert channel.receive() is None
            return decode(received)

        yield carry


def _through_memory() -> Iterator[_Carry]:
    with Arena(20_000) as arena, ArenaReader(arena.name) as reader, library().channel() as channel:

        def carry(message: Message) -> Message:
            channel.send(seed_json.encode(spill(message, arena, over_bytes=20)))
            return resolve(seed_json.decode(channel.receive() or b""), reader)

        yield carry


_WAYS: dict[str, Callable[[], Iterator[_Carry]]] = {
    "C, the seed's form": lambda: _through_c(seed_json.encode, seed_json.decode),
    "C, the published form": lambda: _through_c(canonical_json.encode, canonical_json.decode),
    "shared memory": _through_memory,
}


def _live(carry: _Carry) -> list[object]:
    """A graph's life, and what its mirror was after each part of it."""
    link = _Link(carry)
    graph = link.graph
    seen: list[object] = []
    numbers = [graph.cell(number, tag="i64") for number in range(5)]
    text = graph.cell("a" * 100, tag="string", key=None)
    seen.append(link.state())
    total = graph.signal(lambda: sum(cell.get() for cell in numbers), tag="i64")
    long = graph.slot(lambda: text.get() * total.get(), tag="string")
    seen.append(link.state())
    with graph.batch():
        numbers[0].set(40)
        numbers[1].set(1)
        text.set('é:"\\' * 30)
    seen.append(link.state())
    numbers[0].set(40)
    seen.append(link.state())
    with graph.batch():
        long.dispose()
        graph.cell(b"\0" * 1_000, tag="bytes")
    seen.append(link.state())
    return seen


@pytest.mark.parametrize("way", _WAYS)
def test_every_way_leaves_the_same_mirror(way: str) -> None:
    """RX-056: as far as the C boundary and shared memory are the ways."""
    expected = _live(lambda message: message)
    assert len({str(state) for state in expected}) == 4
    for carry in _WAYS[way]():
        assert _live(carry) == expected


def test_no_function_goes_over_the_boundary() -> None:
    """RX-059: there is no tag for code, and what a slot sends is the bytes of its value alone."""
    tags = TypeTags.standard()
    for tag in ("i64", "f64", "bool", "string", "bytes", "json", "of nobody"):
        for code in (test_no_function_goes_over_the_boundary, (lambda: 1).__code__, print, TypeTags):
            with pytest.raises(UsageError):
                tags.encode(tag, code)
    sent: list[Message] = []

    def carry(message: Message) -> Message:
        sent.append(message)
        return message

    link = _Link(carry)
    cell = link.graph.cell(3, tag="i64")
    slot = link.graph.slot(lambda: cell.get() * 2, tag="i64")
    assert slot.get() == 6
    cell.set(4)
    values = [
        operation.value
        for message in sent
        if isinstance(message, Delta)
        for operation in message.operations
        if isinstance(operation, NodeAdd | CellSet | SlotValue) and operation.value is not None
    ]
    assert [tags.decode("i64", value) for value in values if isinstance(value, bytes)] == [3, 6, 4, 8]
    assert all(isinstance(value, bytes) and len(value) == 8 for value in values)


def test_shared_memory_holds_blobs_and_nothing_of_the_graph() -> None:
    """RX-064, RX-065: ids, edges and epochs are in the frame; the arena has headers and values."""
    values = [bytes([number]) * 50 for number in (1, 2, 3)]
    nodes = tuple(
        Node(NodeId(number), f"tag {number}", NodeState.RESOLVED, value) for number, value in enumerate(values)
    )
    snapshot = Snapshot(9, nodes, (Edge(NodeId(2), NodeId(0)),), (NodeId(0), NodeId(1)))
    with Arena(500, epoch=4) as arena:
        frame = library().clone(canonical_json.encode(spill(snapshot, arena, over_bytes=20)))
        held = bytes(arena._memory[: 3 * (HEADER_BYTES + 50)])
        expected = b"".join(
            pack(Header(generation, 4, 50, library().fnv1a64(value))) + value
            for generation, value in enumerate(values, 1)
        )
        assert held == expected
        assert not any(arena._memory[len(expected) :])
    for value in values:
        assert json.dumps(list(value), separators=(",", ":")).encode() not in frame
    found = canonical_json.decode(frame)
    assert isinstance(found, Snapshot)
    assert [(node.id, node.tag) for node in found.nodes] == [(node.id, node.tag) for node in nodes]
    assert all(isinstance(node.value, BlobRef) for node in found.nodes)
    assert (found.epoch, found.edges, found.roots) == (snapshot.epoch, snapshot.edges, snapshot.roots)


def test_a_descriptor_in_a_frame_passes_the_boundary_unchanged() -> None:
    """RX-064."""
    message = Delta(0, 1, (CellSet(NodeId(1), BlobRef(0, 16, 1, 9, 2**64 - 1)),))
    for codec in (seed_json, canonical_json):
        frame = codec.encode(message)
        assert library().clone(frame) == frame
        assert codec.decode(frame) == message


def test_the_arena_fixture() -> None:
    """RX-062, RX-143, RX-144: one write, byte for byte."""
    fixture = json.loads(shared_fixture("lazily", "arena_blob.json").read_bytes())
    given, expected = fixture["input"], fixture["expected"]
    with Arena(given["capacity"], epoch=given["epoch"]) as arena, ArenaReader(arena.name) as reader:
        blob = arena.write(bytes(given["payload"]))
        wanted = expected["descriptor"]
        assert (blob.offset, blob.length, blob.generation) == (wanted["offset"], wanted["len"], wanted["generation"])
        assert (blob.epoch, blob.checksum) == (wanted["epoch"], wanted["checksum"])
        header, payload = bytes(expected["header_bytes"]), bytes(expected["payload_region"])
        assert bytes(arena._memory[: len(header) + len(payload)]) == header + payload
        assert reader.read(blob) == payload
