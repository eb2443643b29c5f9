"""From a valid record to its facts.

A Seal speaks for the Plex inside it: its fields include the Plex's, except ``Type``. Storing a Seal does not make the
inner records ``Have``: they were never stored on purpose, and nobody agreed to pass them on.
"""

from collections.abc import Iterator
from typing import TypeAlias, assert_never

from msgspec import Struct

from bobbin.facts import relations
from bobbin.facts.relations import Tuple
from bobbin.records import b64a, link
from bobbin.records.link import Link
from bobbin.records.record import Blob, Header, Plex, Record, Seal

Fact: TypeAlias = tuple[str, Tuple]


class IndexedHeader(Struct, frozen=True):
    """An extra header with its count among those of the same name, and the link that it makes, if any."""

    name: str
    index: int
    value: str
    link: Link | None


def fields(record: Record) -> Iterator[Header]:
    """Every field of a record as (name, value), in record order, without the index."""
    yield "Type", record.kind.letter
    match record:
        case Blob():
            pass
        case Plex() | Seal():
            if isinstance(record, Seal):
                yield "Signed-By", record.verifier
                yield "Signature", b64a.encode(record.signature)
            yield "Group", record.group
            yield "App", record.app
            yield "Name", record.name
            yield "TAI", record.tai_text
            yield from record.extras
        case _:
            assert_never(record)
    yield "Data-Length", str(record.data_length)


def index_headers(extras: tuple[Header, ...]) -> Iterator[IndexedHeader]:
    """Number the extra headers of one record by name."""
    counts: dict[str, int] = {}
    for name, value in extras:
        index = counts.get(name, 0)
        counts[name] = index + 1
        yield IndexedHeader(name, index, value, link.parse(name, value))


def extract(record: Record) -> Iterator[Fact]:
    """Every fact that storing this record makes true."""
    own = record.hash
    yield relations.HAVE, (own,)
    extras = () if isinstance(record, Blob) else record.extras
    plain = {name for name, _ in extras}
    for name, value in fields(record):
        if name not in plain:
            yield relations.FIELD, (own, name, "0", value)
    for header in index_headers(extras):
        index = str(header.index)
        yield relations.FIELD, (own, header.name, index, header.value)
        if header.link is not None:
            target = header.link.target
            yield relations.RECORD_LINK, (own, header.name, index, header.link.data, target)
    if isinstance(record, Plex):
        yield relations.BLOB_HASH, (own, record.blob_hash)
    if isinstance(record, Seal):
        yield relations.PLEX_HASH, (own, record.plex_hash)
