"""Signaling, the handshake, single operations and values under tags: refused with a known fault, or as they were."""

import json

from bobbin.reactive.handshake import Capabilities, HandshakeRefused, agree
from bobbin.reactive.messages import PeerId
from bobbin.reactive.type_tags import TypeTags, ValueFault
from bobbin.wire.lazily import handshake, remote_op, seed_json, signaling
from bobbin.wire.lazily.faults import Fault, FrameFault

_OURS = Capabilities(peer=PeerId(1), session="graph")
_TAGS = TypeTags.standard()
_FIELDS = json.loads(handshake.encode(_OURS))


def one_input(data: bytes) -> None:
    try:
        client = signaling.decode_client(data)
        assert signaling.decode_client(signaling.encode_client(client)) == client
    except FrameFault as fault:
        Fault(fault.code)
    try:
        server = signaling.decode_server(data)
        assert signaling.decode_server(signaling.encode_server(server)) == server
    except FrameFault as fault:
        Fault(fault.code)
    try:
        op = remote_op.decode(data)
        assert remote_op.decode(remote_op.encode(op)) == op
    except FrameFault as fault:
        Fault(fault.code)
    try:
        tag, raw = seed_json.decode_payload(data)
        assert seed_json.decode_payload(seed_json.encode_payload(tag, raw)) == (tag, raw)
    except FrameFault as fault:
        Fault(fault.code)
    _greet(data)
    _value(data)


def _greet(data: bytes) -> None:
    try:
        theirs = handshake.decode(data)
    except FrameFault as fault:
        Fault(fault.code)
        return
    assert handshake.decode(handshake.encode(theirs)) == theirs
    try:
        agreed = agree(_OURS, theirs)
    except HandshakeRefused as refusal:
        _FIELDS[refusal.field]
        return
    assert 0 < agreed.frame_bytes_max <= _OURS.frame_bytes_max


def _value(data: bytes) -> None:
    for tag in ("i64", "f64", "bool", "string", "bytes", "json", "unheard"):
        try:
            value = _TAGS.decode(tag, data)
        except ValueFault:
            continue
        if tag != "json":
            assert _TAGS.encode(tag, value) == data
