"""Compressed fact blocks: any bytes are the same block whole and in pieces, within the bound, or are refused."""

from bobbin.errors import PeerError
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Message
from bobbin.interlace.reasons import Reason
from bobbin.interlace.schema import Schema
from bobbin.interlace.state import Awaits
from bobbin.policy.operands import Origin
from bobbin.wire.compressed import COMPRESSED_MARK, Inflater
from bobbin.wire.elements import Elements
from bobbin.wire.interlace import Decoder, encode

_SOURCE = Origin("source:0")
_BOUND = 8192


def one_input(data: bytes) -> None:
    _inflate(data)
    elements = b"%b: %d\n%b\n" % (COMPRESSED_MARK, len(data), data)
    for raw in (data, elements):
        messages, refused = _decode([raw])
        assert _decode([raw[at : at + 1] for at in range(len(raw))]) == (messages, refused)
        for message in messages:
            assert _decode(list(encode(message, source=_SOURCE, compressed=True))) == ([message], "")


def _inflate(data: bytes) -> None:
    """The lines do not depend on how the stream was cut, and stay within their bound."""
    whole, parts = (_lines(pieces) for pieces in ([data], [data[at : at + 1] for at in range(len(data))]))
    assert whole == parts or whole is None or parts is None
    assert whole is None or len(whole) <= _BOUND


def _lines(pieces: list[bytes]) -> bytes | None:
    inflater = Inflater(_BOUND)
    try:
        return b"".join([inflater.take(piece) for piece in pieces])
    except PeerError as refused:
        Reason(refused.code)
        return None


def _decode(parts: list[bytes]) -> tuple[list[Message], str]:
    decoder = Decoder(Elements(has_preface=False))
    limits = Limits(max_partition_summaries=3, max_fact_block_size=_BOUND)
    decoder.agree(source=_SOURCE, schema=Schema(all=True), limits=limits, compressed=True)
    decoder.expect(Awaits.ADVERTISE)
    messages: list[Message] = []
    try:
        for part in parts:
            messages += decoder.feed(part)
        decoder.feed(b"")
    except PeerError as refused:
        return messages, Reason(refused.code)
    return messages, ""
