"""Messages: any bytes in any phase are a message with one encoding, or are refused with a known reason.

The first byte says which phase is awaited.
"""

from bobbin.errors import PeerError
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Message, Transfer
from bobbin.interlace.reasons import Reason
from bobbin.interlace.schema import Schema
from bobbin.interlace.state import Awaits
from bobbin.policy.operands import Origin
from bobbin.wire.elements import Elements
from bobbin.wire.interlace import Decoder, encode

_SOURCE = Origin("source:0")
_PHASES = (Awaits.SETUP, Awaits.HELLO, Awaits.ADVERTISE, Awaits.REQUEST, Awaits.TRANSFER)
_SCHEMAS = (Schema(all=True), Schema(names=frozenset({"App", "Group"})))


def one_input(data: bytes) -> None:
    choice, raw = (data[0], data[1:]) if data else (0, b"")
    awaits = _PHASES[choice % len(_PHASES)]
    schema = _SCHEMAS[choice // len(_PHASES) % len(_SCHEMAS)]
    messages, refused = _decode([raw], awaits, schema)
    assert _decode([raw[at : at + 1] for at in range(len(raw))], awaits, schema) == (messages, refused)
    for message in messages:
        again, problem = _decode([*encode(message, source=_SOURCE), b"\n"], awaits, schema)
        assert not problem
        if isinstance(message, Transfer):
            parts = [part for part in again if isinstance(part, Transfer)]
            assert [one for part in parts for one in part.responses] == list(message.responses)
            assert {part.tick for part in parts} - {None} == {message.tick} - {None}
        else:
            assert again == [message]


def _decode(parts: list[bytes], awaits: Awaits, schema: Schema) -> tuple[list[Message], str]:
    decoder = Decoder(Elements(has_preface=False), chunk_records_max=3)
    decoder.agree(source=_SOURCE, schema=schema, limits=Limits(max_partition_summaries=3, max_fact_block_size=8192))
    decoder.expect(awaits)
    messages: list[Message] = []
    try:
        for part in parts:
            messages += decoder.feed(part)
        messages += decoder.flush()
        decoder.feed(b"")
    except PeerError as refused:
        return messages, Reason(refused.code)
    return messages, ""
