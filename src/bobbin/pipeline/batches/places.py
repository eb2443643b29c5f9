"""Where messages stand in tangles: rows of ``records`` as rows of places, one for each message and tangle.

A record counts if it is, byte for byte, the Plex of the message inside it (``tangles.plex``), as on a node.
"""

from typing import Final

import pyarrow as pa

from bobbin import profile
from bobbin.records.record import Plex, read_trusted
from bobbin.tangles.message import Message
from bobbin.tangles.plex import message_of

PLACES: Final = pa.schema(
    [
        pa.field("tangle", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("depth", pa.int64(), nullable=False),
        pa.field("prev", pa.list_(pa.string()), nullable=False),
        pa.field("has_data", pa.bool_(), nullable=False),
    ]
)
_APP: Final = f"\nApp: {profile.TANGLE_APP}\n".encode()
_HEAD_BYTES: Final = 1024
"""Where the app of a record stands, at the latest: after its first line and its group."""


def places(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The places of the messages among some records. A root stands in its own tangle at depth 0."""
    rows: list[tuple[str, str, int, list[str], bool]] = []
    for raw in batch.column("raw").to_pylist():
        if _APP not in raw[:_HEAD_BYTES]:
            continue
        record = read_trusted(raw)
        message = message_of(record) if isinstance(record, Plex) else None
        if message is not None:
            rows += _rows(message)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(PLACES)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, PLACES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PLACES)


def _rows(message: Message) -> list[tuple[str, str, int, list[str], bool]]:
    named = [
        (tangle, message.id, place.depth, list(place.prev), message.has_data)
        for tangle, place in message.places.items()
    ]
    # Any message may be the root of a tangle, and stands in it.
    return [(message.id, message.id, 0, [], message.has_data), *named]
