"""Commands, answers and snapshot entries of a replicated lace: the same after a journey back, or a ``PeerError``."""

from bobbin.errors import PeerError
from bobbin.runtime.replicated_commands import decode_answer, decode_command, decode_entry, encode


def one_input(data: bytes) -> None:
    for decode in (decode_command, decode_answer, decode_entry):
        try:
            value = decode(data)
        except PeerError:
            continue
        assert decode(encode(value)) == value
