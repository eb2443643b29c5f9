"""Frames of the reactive protocol in every form: refused with a known fault, or the same after a journey back."""

import json
from collections.abc import Callable

from bobbin.errors import UsageError
from bobbin.reactive.handshake import Agreed, Codec, Feature
from bobbin.reactive.messages import U64_MAX, Message, PeerId
from bobbin.wire.lazily import canonical_json, message_pack, numbers, seed_json
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.conversions import to_canonical, to_seed
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.forms import Form, detect, kind_of

_DECODERS: dict[Form, tuple[Callable[[bytes], Message], Callable[[Message], bytes]]] = {
    Form.SEED_JSON: (seed_json.decode, seed_json.encode),
    Form.CANONICAL_JSON: (canonical_json.decode, canonical_json.encode),
    Form.MESSAGE_PACK: (message_pack.decode, message_pack.encode),
}


def one_input(data: bytes) -> None:
    found = {form: _decode(decode, data) for form, (decode, _) in _DECODERS.items()}
    for form, message in found.items():
        if message is None:
            continue
        assert _detected(data) is form
        assert kind_of(message)
        assert all(0 <= number <= U64_MAX for number in numbers.ids_of(message))
        _journey(form, message)
        if form is not Form.MESSAGE_PACK:
            _only_once(data)
    based = _decode(lambda raw: canonical_json.decode(raw, base64=True), data)
    if based is not None:
        assert canonical_json.decode(canonical_json.encode(based, base64=True), base64=True) == based
    _link(data, found)


def _decode(decode: Callable[[bytes], Message], data: bytes) -> Message | None:
    try:
        return decode(data)
    except FrameFault as fault:
        Fault(fault.code)
        return None


def _detected(data: bytes) -> Form | None:
    try:
        return detect(data)
    except FrameFault as fault:
        Fault(fault.code)
        return None


def _journey(form: Form, message: Message) -> None:
    decode, encode = _DECODERS[form]
    assert decode(encode(message)) == message
    try:
        told = to_seed(message)
    except UsageError:
        assert form is not Form.SEED_JSON
    else:
        assert [seed_json.decode(seed_json.encode(one)) for one in told] == list(told)
    for one in to_canonical(message):
        assert canonical_json.decode(canonical_json.encode(one)) == one
        assert message_pack.decode(message_pack.encode(one)) == one


def _only_once(data: bytes) -> None:
    def once(pairs: list[tuple[str, object]]) -> None:
        assert len(dict(pairs)) == len(pairs)

    json.loads(data.decode(), object_pairs_hook=once)


def _link(data: bytes, found: dict[Form, Message | None]) -> None:
    agreed = Agreed(
        local=PeerId(1),
        remote=PeerId(2),
        session="graph",
        codec=Codec.JSON,
        frame_bytes_max=1 << 20,
        fragmentation=True,
        ordered_reliable=True,
        features=frozenset({Feature.SHARED_BLOB.value}),
    )
    conversation = Conversation(agreed)
    try:
        message = conversation.read(data)
    except FrameFault as fault:
        Fault(fault.code)
        assert conversation.form is None
        return
    if message is not None:
        assert conversation.form in (Form.SEED_JSON, Form.CANONICAL_JSON)
        assert message in found.values() or data[:1] == b"\xc1"
        assert conversation.write(message)
