"""What the JSON decoder below does not notice: a field that is given twice, and a number that is no u64.

The decoder is compiled and knows the shape of every message, but keeps the last of two fields of one name, and reads
whole numbers of any size. Both checks first look at the raw text for a sign that costs next to nothing, and only where
there is one look closely. They never refuse by the sign alone.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Final

from bobbin.reactive.messages import CrdtSync, Delta, Message, NodeAdd, Snapshot
from bobbin.wire.lazily import numbers
from bobbin.wire.lazily.faults import Fault, FrameFault

_DIGITS: Final = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_LONG: Final = b"0" * 20
"""As many digits as 2^64 - 1 has. Fewer are always in range."""
_ESCAPED: Final = b"\\u003"
"""How a colon begins that is written by its number."""


def check(raw: bytes, message: Message, fields: int) -> None:
    """Refuse what the decoder let pass. ``fields``: how many the objects of this message have in all."""
    if b"-" in raw or _LONG in raw.translate(_DIGITS):
        numbers.check_received(message)
    colons = raw.count(b":")
    # Each field has a colon, and texts may have some: more than that is a field too many.
    if colons != fields and (_ESCAPED in raw or colons != fields + sum(text.count(":") for text in _texts_of(message))):
        check_fields(raw)


def check_fields(raw: bytes) -> None:
    """Refuse a text in which any object has two fields of one name."""
    json.loads(raw.decode(), object_pairs_hook=_only_once)


def _only_once(pairs: list[tuple[str, object]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise FrameFault(Fault.MALFORMED, f"an object has the field {twice!r} twice")


def _texts_of(message: Message) -> Iterator[str]:
    """Every text of a message that may have colons in it."""
    if isinstance(message, Snapshot):
        for node in message.nodes:
            yield node.tag
            yield node.key or ""
    elif isinstance(message, Delta):
        for operation in message.operations:
            if isinstance(operation, NodeAdd):
                yield operation.tag
                yield operation.key or ""
    elif isinstance(message, CrdtSync):
        for one in message.operations:
            yield one.key or ""
