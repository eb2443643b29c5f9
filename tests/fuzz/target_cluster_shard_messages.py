"""Messages between shards: within their bounds and the same after a journey back, or a ``MessageRefused``."""

from bobbin.cluster.settings import MessageValidationConfig
from bobbin.wire.cluster.faults import MessageRefused
from bobbin.wire.cluster.shard_messages import decode, encode

_CONFIG = MessageValidationConfig()


def one_input(data: bytes) -> None:
    try:
        message = decode(data, config=_CONFIG)
    except MessageRefused:
        return
    assert decode(encode(message), config=_CONFIG) == message
