"""Our side of the reactive benchmark, in a process of its own like the others."""

from collections.abc import Callable

from benchmarks.reactive_side import (
    ARENA_BYTES,
    BATCH,
    BEHIND,
    BLOB_BYTES,
    CELLS,
    CHAIN,
    FAN,
    FRAME_OPERATIONS,
    NODES,
    WALL_US,
    Figures,
    answer,
    check,
    payload,
    state,
    timed,
)
from bobbin.reactive.crdt.plane import Plane
from bobbin.reactive.graph import Cell, Graph, Readable
from bobbin.reactive.messages import CrdtOperation, CrdtSync, Edge, Node, NodeId, NodeState, PeerId, Snapshot, Stamp
from bobbin.reactive.replica import Replica
from bobbin.runtime.arena import Arena
from bobbin.wire.lazily import canonical_json

_WRITER, _READER = PeerId(1), PeerId(2)


def _write_all(cell: Cell[int], count: int) -> None:
    for value in range(1, count + 1):
        cell.set(value)


def chain(count: int) -> Figures:
    """One write through a chain to an effect."""
    graph = Graph()
    cell = graph.cell(0)

    def follow(before: Readable[int]) -> Readable[int]:
        return graph.slot(lambda: before.get() + 1)

    last: Readable[int] = cell
    for _ in range(CHAIN):
        last = follow(last)
    seen: list[int] = []
    graph.effect(lambda: seen.append(last.get()))
    figures = timed(lambda: _write_all(cell, count), count)
    check(seen, list(range(CHAIN, CHAIN + count + 1)))
    return figures


def fan(count: int) -> Figures:
    """One write to many derived values with an effect each."""
    graph = Graph()
    cell = graph.cell(0)
    seen = [0] * FAN
    runs = 0

    def tie(number: int) -> None:
        derived = graph.slot(lambda: cell.get() + number)

        def act() -> None:
            nonlocal runs
            seen[number] = derived.get()
            runs += 1

        graph.effect(act)

    for number in range(FAN):
        tie(number)
    figures = timed(lambda: _write_all(cell, count), count)
    check((seen, runs), ([count + number for number in range(FAN)], FAN * (count + 1)))
    return figures


def batch(count: int) -> Figures:
    """Many writes in a batch to one sum with an effect."""
    graph = Graph()
    cells = [graph.cell(0) for _ in range(BATCH)]
    total = graph.slot(lambda: sum([cell.get() for cell in cells]))
    seen: list[int] = []
    graph.effect(lambda: seen.append(total.get()))

    def work() -> None:
        for value in range(1, count + 1):
            with graph.batch():
                for cell in cells:
                    cell.set(value)

    figures = timed(work, count)
    check(seen, [BATCH * value for value in range(count + 1)])
    return figures


def suppressed(count: int) -> Figures:
    """One write that changes nothing behind the first derived value."""
    graph = Graph()
    cell = graph.cell(0)
    still = graph.slot(lambda: cell.get() * 0)
    seen: list[int] = []

    def tie(number: int) -> None:
        derived = graph.slot(lambda: still.get() + number)
        graph.effect(lambda: seen.append(derived.get()))

    for number in range(BEHIND):
        tie(number)
    figures = timed(lambda: _write_all(cell, count), count)
    check(seen, list(range(BEHIND)))
    return figures


def _snapshot() -> Snapshot:
    return Snapshot(
        1,
        tuple(Node(NodeId(number), "i64", NodeState.RESOLVED, payload(number)) for number in range(NODES)),
        tuple(Edge(NodeId(number), NodeId(number - 1)) for number in range(1, NODES)),
        (NodeId(0),),
    )


def snapshot(count: int) -> Figures:
    """A snapshot to canonical JSON and back."""
    message = _snapshot()
    raw = canonical_json.encode(message)
    check(canonical_json.decode(raw), message)

    def work() -> None:
        for _ in range(count):
            canonical_json.decode(canonical_json.encode(message))

    return {**timed(work, count), "bytes": len(raw)}


def resync(count: int) -> Figures:
    """The same, and taken by a replica that held the snapshot before it."""
    message = _snapshot()
    replica = Replica()

    def work() -> None:
        for _ in range(count):
            decoded = canonical_json.decode(canonical_json.encode(message))
            check(isinstance(decoded, Snapshot) and replica.replace(decoded), None)

    figures = timed(work, count)
    check(len(replica.nodes), NODES)
    return figures


def _frames(count: int, size: int, cells: int) -> list[CrdtSync]:
    operations = [
        CrdtOperation(
            NodeId(number % cells), f"cells/{number % cells}", Stamp(WALL_US + number, 0, _WRITER), state(number)
        )
        for number in range(count)
    ]
    frontier = ((_WRITER, Stamp(WALL_US + count, 0, _WRITER)),)
    return [CrdtSync(tuple(operations[begin : begin + size]), frontier) for begin in range(0, count, size)]


def _merge(size: int, *, is_new: bool, is_filtered: bool = False) -> Callable[[int], Figures]:
    def merge(count: int) -> Figures:
        frames = _frames(count, size, count if is_new else CELLS)
        plane = Plane(_READER, members=(_WRITER,))
        allowed = frozenset(map(NodeId, range(count)))
        allows = (lambda operation: operation.id in allowed) if is_filtered else None
        applied: list[int] = []

        def work() -> None:
            applied.extend(
                [plane.ingest(frame, sender=_WRITER, now_us=WALL_US, allows=allows).applied for frame in frames]
            )

        figures = timed(work, count)
        check(sum(applied), count)
        return figures

    return merge


def merge_text(count: int) -> Figures:
    """Operations from JSON frames, those of cells that the sender may not write left out (there are none)."""
    raws = [canonical_json.encode(frame) for frame in _frames(count, FRAME_OPERATIONS, CELLS)]
    plane = Plane(_READER, members=(_WRITER,))
    allowed = frozenset(map(NodeId, range(CELLS)))
    applied: list[int] = []

    def take(raw: bytes) -> int:
        frame = canonical_json.decode(raw)
        assert isinstance(frame, CrdtSync)
        return plane.ingest(
            frame, sender=_WRITER, now_us=WALL_US, allows=lambda operation: operation.id in allowed
        ).applied

    def work() -> None:
        applied.extend(map(take, raws))

    figures = timed(work, count)
    check(sum(applied), count)
    return figures


def arena(count: int) -> Figures:
    """A blob into the arena."""
    blob = bytes(range(256)) * (BLOB_BYTES // 256)
    with Arena(ARENA_BYTES) as blobs:
        check(blobs.read(blobs.write(blob)), blob)

        def work() -> None:
            for _ in range(count):
                blobs.write(blob)

        return timed(work, count)


if __name__ == "__main__":
    answer(
        {
            "chain": chain,
            "fan": fan,
            "batch": batch,
            "suppressed": suppressed,
            "snapshot": snapshot,
            "resync": resync,
            "merge-new": _merge(1, is_new=True),
            "merge-new-batched": _merge(FRAME_OPERATIONS, is_new=True),
            "merge-old": _merge(1, is_new=False),
            "merge-old-batched": _merge(FRAME_OPERATIONS, is_new=False),
            "merge-bare": _merge(1, is_new=False),
            "merge-filtered": _merge(FRAME_OPERATIONS, is_new=False, is_filtered=True),
            "merge-text": merge_text,
            "arena": arena,
        }
    )
