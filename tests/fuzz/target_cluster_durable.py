"""What a node keeps on its disk: the one form of what it decodes to, or an ``IntegrityError``."""

from bobbin.errors import IntegrityError
from bobbin.wire.cluster.durable import (
    decode_footer,
    decode_group,
    decode_header,
    decode_standing,
    encode_record,
    encode_whole,
    group,
)


def one_input(data: bytes) -> None:
    try:
        records = decode_group(data)
    except IntegrityError:
        pass
    else:
        assert group([encode_record(record) for record in records]) == data
    for decode in (decode_header, decode_footer, decode_standing):
        try:
            value = decode(data)
        except IntegrityError:
            continue
        assert encode_whole(value) == data
