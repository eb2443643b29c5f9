"""A frame says in which form it is."""

import pytest
from hypothesis import given

from bobbin.reactive.messages import CrdtSync, Delta, Message, OutboxAck, ResyncRequest, Snapshot
from bobbin.wire.lazily import canonical_json, message_pack, seed_json
from bobbin.wire.lazily.conversions import to_seed
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.forms import Form, MessageKind, detect, kind_of
from tests.support.lazily_messages import ANY, CANONICAL, other_texts


@given(CANONICAL)
def test_the_forms_of_published_peers_are_told_apart(message: Message) -> None:
    """RX-125."""
    assert detect(message_pack.encode(message)) is Form.MESSAGE_PACK
    raw = canonical_json.encode(message)
    assert {detect(text) for text in (raw, *other_texts(raw))} == {Form.CANONICAL_JSON}


@given(ANY)
def test_the_form_of_the_seed_is_told_wherever_its_type_stands(message: Message) -> None:
    """RX-125."""
    raw = seed_json.encode(*to_seed(message))
    assert {detect(text) for text in (raw, *other_texts(raw))} == {Form.SEED_JSON}


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        (b'{"Unheard":1}', Form.CANONICAL_JSON),
        (b'{"\\u0053napshot":1}', Form.CANONICAL_JSON),
        (b'{"type":1}', Form.SEED_JSON),
        (b'{"Snapshot":1,"type":1}', Form.SEED_JSON),
        (b"\x80", Form.MESSAGE_PACK),
        (b"\xde\x00\x00", Form.MESSAGE_PACK),
        (b"\xdf\x00\x00\x00\x00", Form.MESSAGE_PACK),
    ],
)
def test_only_the_outermost_names_count(raw: bytes, form: Form) -> None:
    assert detect(raw) is form


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"", Fault.MALFORMED),
        (b"[]", Fault.MALFORMED),
        (b"\xc1", Fault.MALFORMED),
        (b"{" * 100_000, Fault.MALFORMED),
        (b"{}", Fault.WRONG_FORM),
        (b'{"snapshot":{}}', Fault.WRONG_FORM),
        (b'{"Snapshot":{},"Delta":{}}', Fault.WRONG_FORM),
        (b'{"":1}', Fault.WRONG_FORM),
    ],
)
def test_what_has_none_of_the_forms_is_refused(raw: bytes, fault: Fault) -> None:
    with pytest.raises(FrameFault) as caught:
        detect(raw)
    assert caught.value.fault is fault


def test_the_size_is_looked_at_first() -> None:
    with pytest.raises(FrameFault) as caught:
        detect(b'{"type":1}', frame_bytes_max=9)
    assert caught.value.fault is Fault.OVERSIZED


def test_messages_have_their_published_numbers() -> None:
    """RX-078, RX-124."""
    messages: list[Message] = [Snapshot(0, (), (), ()), Delta(0, 1, ()), CrdtSync(()), ResyncRequest(0), OutboxAck(0)]
    assert [int(kind_of(message)) for message in messages] == [1, 2, 3, 4, 5]
    assert int(MessageKind.UNKNOWN) == 0
