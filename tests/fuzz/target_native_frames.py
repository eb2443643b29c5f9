"""Frames in C and in Python: any bytes are the same message in the same spelling to both, or none to both."""

from bobbin.errors import PeerError
from bobbin.native.library import Status, library
from bobbin.wire.lazily import canonical_json, seed_json
from bobbin.wire.lazily.faults import FrameFault
from bobbin.wire.lazily.forms import Form, MessageKind, detect, kind_of


def one_input(data: bytes) -> None:
    spelling, kind = _in_python(data)
    native = library()
    assert native.kind(data) is kind
    assert native.validate(data) is (Status.OK if spelling else Status.INVALID_MESSAGE)
    try:
        found = native.clone(data)
    except PeerError:
        found = b""
    assert found == spelling
    if spelling:
        with native.channel() as channel:
            channel.send(spelling)
            assert channel.receive() == spelling


def _in_python(data: bytes) -> tuple[bytes, MessageKind]:
    """The one spelling of a message and its kind; nothing for what is none."""
    try:
        form = detect(data)
        if form is Form.MESSAGE_PACK:
            return b"", MessageKind.UNKNOWN
        codec = seed_json if form is Form.SEED_JSON else canonical_json
        message = codec.decode(data)
    except FrameFault:
        return b"", MessageKind.UNKNOWN
    return codec.encode(message), kind_of(message)
