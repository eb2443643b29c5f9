"""lazily for Python in the reactive benchmark; run by the interpreter of its own environment.

Of its two kinds of derived values the quicker one is taken for each question: storage slots, except where the guard
against equal values is asked for, which only an eager computed value has.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

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

lazily: Any = import_module("lazily")
ipc: Any = import_module("lazily.ipc")
plane: Any = import_module("lazily.crdt_plane")


def _write_all(source: Any, count: int) -> None:  # noqa: ANN401 -- the peer is not installed where this is checked
    for value in range(1, count + 1):
        source.value = value


def chain(count: int) -> Figures:
    """One write through a chain to an effect."""
    context: dict[object, object] = {}
    source = lazily.Source(context, 0)
    last = lazily.Slot(callable=lambda here: here.read(source) + 1)
    for _ in range(CHAIN - 1):
        last = lazily.Slot(callable=lambda here, before=last: before(here) + 1)
    seen: list[int] = []
    effect = lazily.effect(lambda here: seen.append(last(here)))
    effect(context)
    figures = timed(lambda: _write_all(source, count), count)
    check(seen, list(range(CHAIN, CHAIN + count + 1)))
    return figures


def fan(count: int) -> Figures:
    """One write to many derived values with an effect each."""
    context: dict[object, object] = {}
    source = lazily.Source(context, 0)
    seen = [0] * FAN
    runs = 0

    def tie(number: int) -> Callable[[], object]:
        derived = lazily.Slot(callable=lambda here: here.read(source) + number)

        def act(here: Any) -> None:  # noqa: ANN401 -- as above
            nonlocal runs
            seen[number] = derived(here)
            runs += 1

        effect: Callable[[], object] = lazily.effect(act)
        return effect

    effects: list[Any] = [tie(number) for number in range(FAN)]
    for effect in effects:
        effect(context)
    figures = timed(lambda: _write_all(source, count), count)
    check((seen, runs), ([count + number for number in range(FAN)], FAN * (count + 1)))
    return figures


def batch(count: int) -> Figures:
    """Many writes in a batch to one sum with an effect."""
    context: dict[object, object] = {}
    sources = [lazily.Source(context, 0) for _ in range(BATCH)]
    total = lazily.Slot(callable=lambda here: sum([here.read(source) for source in sources]))
    seen: list[int] = []
    effect = lazily.effect(lambda here: seen.append(total(here)))
    effect(context)

    def write(value: int) -> None:
        for source in sources:
            source.value = value

    def work() -> None:
        for value in range(1, count + 1):
            lazily.batch(lambda value=value: write(value))

    figures = timed(work, count)
    check(seen, [BATCH * value for value in range(count + 1)])
    return figures


def suppressed(count: int) -> Figures:
    """One write that changes nothing behind the first derived value."""
    context: dict[object, object] = {}
    source = lazily.Source(context, 0)
    still = lazily.computed(context, lambda here: here.read(source) * 0).eager()
    seen: list[int] = []

    def tie(number: int) -> Any:  # noqa: ANN401 -- as above
        derived = lazily.computed(context, lambda here: here.read(still) + number)
        return lazily.effect(lambda here: seen.append(here.read(derived)))

    effects = [tie(number) for number in range(BEHIND)]
    for effect in effects:
        effect(context)
    figures = timed(lambda: _write_all(source, count), count)
    check(seen, list(range(BEHIND)))
    return figures


def snapshot(count: int) -> Figures:
    """A snapshot to canonical JSON and back."""
    message = ipc.IpcMessage.of_snapshot(
        ipc.Snapshot(
            epoch=1,
            nodes=[ipc.NodeSnapshot.payload(number, "i64", payload(number)) for number in range(NODES)],
            edges=[ipc.EdgeSnapshot(dependent=number, dependency=number - 1) for number in range(1, NODES)],
            roots=[0],
        )
    )
    raw = message.encode_json()
    check(ipc.IpcMessage.decode_json(raw), message)

    def work() -> None:
        for _ in range(count):
            ipc.IpcMessage.decode_json(message.encode_json())

    return {**timed(work, count), "bytes": len(raw)}


def _frames(count: int, size: int, cells: int) -> list[Any]:
    operations = [
        ipc.CrdtOp(
            node=number % cells,
            key=ipc.NodeKey(f"cells/{number % cells}"),
            stamp=ipc.WireStamp(WALL_US + number, 0, 1),
            state=ipc.IpcValue_Inline(state(number)),
        )
        for number in range(count)
    ]
    frontier = [(1, ipc.WireStamp(WALL_US + count, 0, 1))]
    return [ipc.CrdtSync(frontier=frontier, ops=operations[begin : begin + size]) for begin in range(0, count, size)]


def _merge(size: int, *, is_new: bool) -> Callable[[int], Figures]:
    def merge(count: int) -> Figures:
        frames = _frames(count, size, count if is_new else CELLS)
        replica = plane.CrdtPlaneRuntime(2)
        applied: list[int] = []
        figures = timed(lambda: applied.extend([replica.apply_frame(frame) for frame in frames]), count)
        check(sum(applied), count)
        return figures

    return merge


def merge_bare(count: int) -> Figures:
    """Operations without frames, and so without frontier."""
    operations = [operation for frame in _frames(count, count, CELLS) for operation in frame.ops]
    replica = plane.CrdtPlaneRuntime(2)
    applied: list[bool] = []
    figures = timed(lambda: applied.extend([replica.apply(operation) for operation in operations]), count)
    check(sum(applied), count)
    return figures


def merge_text(count: int) -> Figures:
    """Operations from JSON frames."""
    frames = _frames(count, FRAME_OPERATIONS, CELLS)
    raws = [ipc.IpcMessage.of_crdt_sync(frame).encode_json() for frame in frames]
    replica = plane.CrdtPlaneRuntime(2)
    applied: list[int] = []

    def work() -> None:
        applied.extend([replica.apply_frame(ipc.IpcMessage.decode_json(raw).crdt_sync) for raw in raws])

    figures = timed(work, count)
    check(sum(applied), count)
    return figures


def arena(count: int) -> Figures:
    """A blob into the arena."""
    blob = bytes(range(256)) * (BLOB_BYTES // 256)
    blobs = ipc.ShmBlobArena.with_capacity(ARENA_BYTES)
    check(bytes(blobs.read_blob(blobs.write_blob(1, blob))), blob)

    def work() -> None:
        for _ in range(count):
            blobs.write_blob(1, blob)

    return timed(work, count)


if __name__ == "__main__":
    answer(
        {
            "chain": chain,
            "fan": fan,
            "batch": batch,
            "suppressed": suppressed,
            "snapshot": snapshot,
            "merge-new": _merge(1, is_new=True),
            "merge-new-batched": _merge(FRAME_OPERATIONS, is_new=True),
            "merge-old": _merge(1, is_new=False),
            "merge-old-batched": _merge(FRAME_OPERATIONS, is_new=False),
            "merge-bare": merge_bare,
            "merge-text": merge_text,
            "arena": arena,
        }
    )
