"""One link: one form, within what was agreed on."""

import pytest
from hypothesis import given

from bobbin.errors import UsageError
from bobbin.reactive.handshake import Codec, Feature
from bobbin.reactive.messages import (
    SAFE_INTEGER_MAX,
    BlobRef,
    CellSet,
    CrdtOperation,
    CrdtSync,
    Delta,
    Invalidate,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeState,
    PeerId,
    ResyncRequest,
    Snapshot,
    Stamp,
)
from bobbin.wire.lazily import canonical_json, fragments, message_pack, seed_json
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.conversions import to_canonical, to_seed
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame
from bobbin.wire.lazily.forms import Form
from tests.support.lazily_messages import ANY, agreement, snapshot

REQUEST = ResyncRequest(3)
BLOB = BlobRef(0, 9, 1, 0, 3)
BASE64 = frozenset({Feature.JSON_BASE64.value})
BLOBS = frozenset({Feature.SHARED_BLOB.value})
PACKED = agreement(codec=Codec.MESSAGE_PACK)


def refused(conversation: Conversation, raw: bytes) -> Fault:
    with pytest.raises(FrameFault) as caught:
        conversation.read(raw)
    return caught.value.fault


@given(ANY)
def test_two_sides_understand_each_other_in_every_form(message: Message) -> None:
    """RX-119."""
    sides = [
        (agreement(frame_bytes_max=2**20, features=BLOBS), Form.SEED_JSON, to_seed),
        (agreement(frame_bytes_max=2**20, features=BLOBS), Form.CANONICAL_JSON, to_canonical),
        (agreement(frame_bytes_max=2**20, features=BASE64 | BLOBS), Form.CANONICAL_JSON, to_canonical),
        (agreement(frame_bytes_max=2**20, features=BLOBS, codec=Codec.MESSAGE_PACK), Form.MESSAGE_PACK, to_canonical),
        (agreement(frame_bytes_max=64, features=BLOBS, fragmentation=True), Form.SEED_JSON, to_seed),
    ]
    for agreed, form, convert in sides:
        ours, theirs = Conversation(agreed, form=form), Conversation(agreed)
        heard = [theirs.read(raw) for raw in ours.write(message)]
        assert [one for one in heard if one is not None] == list(convert(message))
        assert theirs.form is form


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize(
    "message",
    [
        Delta(1, 2, (Invalidate(NodeId(1)), CellSet(NodeId(2), BLOB))),
        Delta(1, 2, (NodeAdd(NodeId(2), "bytes", BLOB),)),
        Snapshot(1, (Node(NodeId(1), "bytes", NodeState.RESOLVED, BLOB),), (), ()),
        CrdtSync((CrdtOperation(NodeId(1), None, Stamp(1, 0, PeerId(1)), BLOB),)),
    ],
)
def test_a_value_elsewhere_is_taken_where_that_was_agreed_on(message: Message, form: Form) -> None:
    codec = Codec.MESSAGE_PACK if form is Form.MESSAGE_PACK else Codec.JSON
    (raw,) = Conversation(agreement(features=BLOBS, codec=codec), form=form).write(message)
    assert Conversation(agreement(features=BLOBS, codec=codec), form=form).read(raw) == message
    assert refused(Conversation(agreement(codec=codec), form=form), raw) is Fault.BLOB


def test_the_first_frame_settles_the_form_of_both_ways() -> None:
    """RX-125."""
    conversation = Conversation(agreement())
    assert conversation.read(canonical_json.encode(REQUEST)) == REQUEST
    assert conversation.form is Form.CANONICAL_JSON
    assert conversation.write(REQUEST) == (canonical_json.encode(REQUEST),)


def test_who_speaks_first_and_was_told_nothing_speaks_the_seeds() -> None:
    conversation = Conversation(agreement())
    assert conversation.write(REQUEST) == (seed_json.encode(REQUEST),)
    assert conversation.form is Form.SEED_JSON


@pytest.mark.parametrize(
    ("form", "other"),
    [
        (Form.SEED_JSON, canonical_json.encode(REQUEST)),
        (Form.SEED_JSON, message_pack.encode(REQUEST)),
        (Form.CANONICAL_JSON, seed_json.encode(REQUEST)),
        (Form.CANONICAL_JSON, message_pack.encode(REQUEST)),
    ],
)
def test_forms_are_not_mixed_on_a_link(form: Form, other: bytes) -> None:
    """RX-125."""
    conversation = Conversation(agreement(), form=form)
    assert refused(conversation, other) is Fault.WRONG_FORM
    assert conversation.form is form
    assert conversation.read(conversation.write(REQUEST)[0]) == REQUEST


def test_the_codec_is_what_was_agreed_on() -> None:
    """RX-070."""
    assert refused(Conversation(agreement()), message_pack.encode(REQUEST)) is Fault.WRONG_FORM
    assert refused(Conversation(PACKED), canonical_json.encode(REQUEST)) is Fault.WRONG_FORM
    assert Conversation(PACKED).write(REQUEST) == (message_pack.encode(REQUEST),)
    for agreed, form in ((agreement(), Form.MESSAGE_PACK), (PACKED, Form.SEED_JSON)):
        with pytest.raises(UsageError):
            Conversation(agreed, form=form)


def test_a_frame_that_is_no_message_settles_nothing() -> None:
    conversation = Conversation(agreement())
    assert refused(conversation, b'{"type":"snapshot"}') is Fault.MALFORMED
    assert refused(conversation, b"{}") is Fault.WRONG_FORM
    assert refused(conversation, b"garbage") is Fault.MALFORMED
    assert conversation.form is None
    assert conversation.read(canonical_json.encode(REQUEST)) == REQUEST
    assert refused(conversation, b"garbage") is Fault.MALFORMED


@pytest.mark.parametrize("form", [Form.SEED_JSON, Form.CANONICAL_JSON])
def test_a_frame_has_one_message(form: Form) -> None:
    """RX-057."""
    conversation = Conversation(agreement(), form=form)
    raw = conversation.write(REQUEST)[0]
    for two in (raw + raw, raw + b"\n" + raw, b"[" + raw + b"]"):
        assert refused(conversation, two) is Fault.MALFORMED


def test_base64_is_used_only_where_it_was_agreed_on() -> None:
    """RX-115, RX-139."""
    message = Delta(0, 1, (CellSet(NodeId(1), b"\x00"),))
    text = canonical_json.encode(message, base64=True)
    agreed = Conversation(agreement(features=BASE64), form=Form.CANONICAL_JSON)
    assert agreed.write(message) == (text,)
    assert agreed.read(text) == agreed.read(canonical_json.encode(message)) == message
    assert refused(Conversation(agreement()), text) is Fault.MALFORMED


def test_ids_that_javascript_cannot_hold_are_not_sent_to_it() -> None:
    """RX-003."""
    message = Delta(0, 1, (Invalidate(NodeId(SAFE_INTEGER_MAX + 1)),))
    with pytest.raises(UsageError, match=str(SAFE_INTEGER_MAX + 1)):
        Conversation(agreement(), javascript=True).write(message)
    assert Conversation(agreement()).write(message)


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MESSAGE_PACK])
def test_longer_frames_than_agreed_on_are_neither_sent_nor_taken(codec: Codec) -> None:
    """RX-074, RX-075: in one piece or several."""
    message = snapshot(9)
    frames = Conversation(agreement(codec=codec)).write(message)
    limit = len(frames[0])
    assert Conversation(agreement(codec=codec, frame_bytes_max=limit)).read(frames[0]) == message
    small = Conversation(agreement(codec=codec, frame_bytes_max=limit - 1))
    with pytest.raises(OversizedFrame):
        small.write(message)
    assert refused(small, frames[0]) is Fault.OVERSIZED


def test_pieces_are_sent_and_taken_only_where_both_offered_it() -> None:
    """RX-075."""
    message = snapshot(9)
    cut = agreement(frame_bytes_max=100, fragmentation=True)
    ours, theirs = Conversation(cut), Conversation(cut)
    frames = ours.write(message)
    assert len(frames) > 1
    assert max(map(len, frames)) <= 100
    for _ in range(2):
        assert [theirs.read(raw) for raw in frames] == [*[None] * (len(frames) - 1), message]
    assert refused(Conversation(agreement()), frames[0]) is Fault.FRAGMENT


def test_messages_in_pieces_are_counted() -> None:
    ours = Conversation(agreement(frame_bytes_max=100, fragmentation=True))
    first, second = (ours.write(snapshot(9))[0] for _ in range(2))
    assert (first[1], second[1]) == (0, 1)


def test_a_message_in_pieces_is_bounded_too() -> None:
    """RX-074."""
    cut = agreement(frame_bytes_max=100, fragmentation=True)
    frames = Conversation(cut).write(snapshot(9))
    whole = sum(len(raw) - fragments.HEAD_SIZE for raw in frames)
    with pytest.raises(OversizedFrame):
        Conversation(cut, message_bytes_max=whole - 1).write(snapshot(9))
    assert refused(Conversation(cut, message_bytes_max=whole - 1), frames[0]) is Fault.OVERSIZED
    enough = Conversation(cut, message_bytes_max=whole)
    assert [enough.read(raw) for raw in frames][-1] == snapshot(9)


def test_a_dirty_node_becomes_two_frames_for_a_published_peer() -> None:
    """RX-119."""
    message = Snapshot(7, (Node(NodeId(1), "a", NodeState.DIRTY, b"1"),), (), ())
    frames = Conversation(agreement(), form=Form.CANONICAL_JSON).write(message)
    assert [canonical_json.decode(raw) for raw in frames] == list(to_canonical(message))
    assert len(frames) == 2
