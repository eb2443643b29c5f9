"""Commands, answers and snapshot entries of the key-value table: the same after a journey back, or a ``PeerError``.

A command is also applied: whatever it is, a table takes it, and two tables say the same.
"""

from bobbin.cluster.key_value import why_invalid
from bobbin.cluster.names import Index, Term
from bobbin.errors import PeerError
from bobbin.wire.cluster.commands import (
    KeyValueCodec,
    decode_command,
    decode_outcome,
    encode_command,
    encode_outcome,
    key_value,
)


def one_input(data: bytes) -> None:
    try:
        command = decode_command(data)
    except PeerError:
        pass
    else:
        assert decode_command(encode_command(command)) == command
        why_invalid(command)
    try:
        outcome = decode_outcome(data)
    except PeerError:
        pass
    else:
        assert decode_outcome(encode_outcome(outcome)) == outcome
    try:
        entry = KeyValueCodec.read_entry(data)
    except PeerError:
        pass
    else:
        assert KeyValueCodec.read_entry(KeyValueCodec.entry(entry)) == entry
    one, other = key_value(), key_value()
    for index in (Index(1), Index(2)):
        answer = one.apply(index, Term(1), data)
        assert other.apply(index, Term(1), data) == answer
        decode_outcome(answer)
    assert one.root == other.root
