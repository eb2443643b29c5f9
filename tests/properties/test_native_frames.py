"""The decoder in C against the one in Python: drawn messages, however they are spelled, and with edits."""

import json
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from bobbin.native.library import library
from bobbin.reactive.messages import (
    KEY_BYTES_MAX,
    KEY_SEGMENTS_MAX,
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
    Value,
)
from bobbin.wire.lazily import canonical_json, seed_json
from bobbin.wire.lazily.forms import kind_of
from tests.fuzz.__main__ import committed_inputs
from tests.fuzz.target_native_frames import one_input
from tests.properties.effort import scaled

_NUMBERS = st.sampled_from([0, 1, 255, 256, 2**53 + 1, U64_MAX]) | st.integers(0, U64_MAX)
_IDS = _NUMBERS.map(NodeId)
_PEERS = _NUMBERS.map(PeerId)
_TEXTS = st.text(max_size=8) | st.sampled_from(["i64", "", "\0\x1f\x7f", "é😀", 'a"b\\c/d:e', "\u2028"])
_KEYS = st.none() | st.sampled_from(["a", "a/b", "/".join("x" * KEY_SEGMENTS_MAX), "é" * (KEY_BYTES_MAX // 2), "\n/\\"])
_BLOBS = st.builds(
    BlobRef, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, checksum=_NUMBERS, backend=st.sampled_from(list(Backend))
)
_VALUES: st.SearchStrategy[Value] = st.binary(max_size=9) | _BLOBS
_STAMPS = st.builds(Stamp, _NUMBERS, _NUMBERS, _PEERS)
_EDGES = st.builds(Edge, _IDS, _IDS)


def _lists(of: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(of, max_size=4).map(tuple)


def _messages(*, keys: st.SearchStrategy[str | None], seed: bool) -> st.SearchStrategy[Message]:
    """Messages that a form can carry."""
    nodes = (
        st.builds(Node, _IDS, _TEXTS, st.just(NodeState.RESOLVED), _VALUES, keys)
        | st.builds(Node, _IDS, _TEXTS, st.just(NodeState.UNSET), st.none(), keys)
        | (st.builds(Node, _IDS, _TEXTS, st.just(NodeState.DIRTY), _VALUES | st.none()) if seed else st.nothing())
    )
    operations: st.SearchStrategy[object] = (
        st.builds(CellSet, _IDS, _VALUES)
        | st.builds(SlotValue, _IDS, _VALUES)
        | st.builds(Invalidate, _IDS)
        | st.builds(NodeAdd, _IDS, _TEXTS, _VALUES | st.none(), keys)
        | st.builds(NodeRemove, _IDS)
        | st.builds(EdgeAdd, _IDS, _IDS)
        | st.builds(EdgeRemove, _IDS, _IDS)
    )
    if not seed:
        operations |= st.builds(QueuePush, _IDS, _VALUES) | st.builds(QueuePop, _IDS) | st.builds(QueueClose, _IDS)
    replicated = st.builds(CrdtOperation, _IDS, _KEYS, _STAMPS, _VALUES)
    frontier = st.none() | _lists(st.tuples(_PEERS, _STAMPS))
    return (
        st.builds(Snapshot, _NUMBERS, _lists(nodes), _lists(_EDGES), _lists(_IDS))
        | st.builds(Delta, _NUMBERS, _NUMBERS, _lists(operations))
        | st.builds(CrdtSync, _lists(replicated), frontier)
        | st.builds(ResyncRequest, _NUMBERS)
        | st.builds(OutboxAck, _NUMBERS)
    )


_SEED = _messages(keys=st.none(), seed=True).map(lambda message: (message, seed_json.encode(message)))
_PUBLISHED = _messages(keys=_KEYS, seed=False).map(lambda message: (message, canonical_json.encode(message)))
_FRAMES = _SEED | _PUBLISHED


def _respelled(frame: bytes, draw: Callable[[st.SearchStrategy[int]], int]) -> bytes:
    """The same message with other white space, other escapes and its fields in another order."""
    space = " \t\n\r"[draw(st.integers(0, 3))] * draw(st.integers(0, 2))
    turn = draw(st.integers(0, 3))
    is_ascii = bool(draw(st.integers(0, 1)))

    def spell(value: object) -> str:
        if isinstance(value, dict):
            items = list(value.items())
            items = items[turn % len(items) :] + items[: turn % len(items)]
            return "{" + ",".join(f"{space}{spell(key)}{space}:{spell(item)}" for key, item in items) + space + "}"
        if isinstance(value, list):
            return "[" + ",".join(space + spell(item) for item in value) + space + "]"
        if isinstance(value, str) and turn == 1:
            return '"' + "".join(f"\\u{ord(letter):04X}" if ord(letter) < 0xD800 else letter for letter in value) + '"'
        return json.dumps(value, ensure_ascii=is_ascii)

    return (space + spell(json.loads(frame)) + space).encode()


@given(_FRAMES)
def test_the_spelling_of_python_is_the_spelling_of_c(drawn: tuple[Message, bytes]) -> None:
    """RX-083."""
    message, frame = drawn
    assert library().clone(frame) == frame
    assert library().kind(frame) is kind_of(message)


@given(_FRAMES, st.data())
def test_a_message_has_one_spelling_however_it_was_spelled(drawn: tuple[Message, bytes], data: st.DataObject) -> None:
    """RX-083."""
    _, frame = drawn
    assert library().clone(_respelled(frame, data.draw)) == frame


_PIECES = [
    *(b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b" ", b"-", b".", b"0", b"1", b"256", b"e1", b"\xff", b"="),
    *(b"null", b"true", b'"key":null,', b'"epoch":1,', b"18446744073709551616", b"\\u0041", b"\\ud800", b"{}", b"[]"),
    *(b'"Opaque"', b'"shm"', b'"type":"delta"', b'"unset"', b"QQ==", b"[1,2]", b"-0", b"\xc3\xa9", b"\x00", b"/"),
]


@scaled(3)
@given(
    _FRAMES.map(lambda drawn: drawn[1])
    | st.sampled_from(committed_inputs("native_frames")).map(lambda p: p.read_bytes()),
    st.data(),
)
def test_edited_frames_are_the_same_to_both(frame: bytes, data: st.DataObject) -> None:
    """RX-081, RX-163: what one refuses the other refuses."""
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame)))
        removed = data.draw(st.sampled_from([0, 0, 1, 1, 2, 20]))
        frame = frame[:at] + data.draw(st.sampled_from(_PIECES) | st.binary(max_size=2)) + frame[at + removed :]
    one_input(frame)
