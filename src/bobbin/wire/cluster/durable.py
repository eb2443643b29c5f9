"""The bytes of what a node keeps on its disk: records of its log, the header of a log file, and what stands beside it.

Everything is msgpack, and canonical: a value has one form, and bytes that are not the form of what they decode to are
refused. A checksum has already passed when bytes come here, so a refusal means that other code wrote them; it is an
``IntegrityError`` with what is wrong, and nothing of them is used.

Records are arrays that begin with a number of their kind. Those numbers never change their meaning.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias, TypeVar, assert_never

import msgspec
from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, HardState, Reset, Truncate
from bobbin.cluster.raft.entries import Entry, SnapshotMetadata
from bobbin.errors import IntegrityError

VERSION: Final = 1
"""Of the form of files. Another one is refused, never guessed at."""

_FIXARRAY_MAX: Final = 15
_ARRAY16_MAX: Final = 0xFFFF
GROUP_HEAD_BYTES_MAX: Final = 5
"""What ``group`` puts before its records at most."""


class SealedFile(Struct, frozen=True, array_like=True):
    """A file of the log that is written no more, and how much of it counts."""

    number: int
    size: int


class Header(Struct, frozen=True, kw_only=True):
    """The first record of each file of a log: whose it is, and everything that held when the file was begun."""

    version: int
    node: NodeId
    cluster: bytes
    number: int
    """Of this file; they rise."""
    boot: int
    """Which opening of the log wrote it; they rise by one."""
    previous: SealedFile | None
    """The file that this one goes on from; None for a file that needs none before it."""
    filled: int
    """Bytes of the records that were made durable together with the header. There is no torn write among them."""
    term: Term
    voted_for: NodeId | None
    snapshot: SnapshotMetadata | None
    first_index: Index
    last_index: Index
    """One below ``first_index`` in a file that needs none before it: its entries follow as records."""
    lost: tuple[Term, Index] | None
    """The end of a log that damage has taken, as in ``Recovered``."""


class SnapshotFooter(Struct, frozen=True, kw_only=True):
    """What follows the stream in a snapshot's file."""

    version: int
    cluster: bytes
    metadata: SnapshotMetadata


class Standing(Struct, frozen=True, kw_only=True):
    """What a node keeps of itself beside the log."""

    version: int
    node: NodeId
    cluster: bytes
    incarnation: int


class _HardState(Struct, frozen=True, array_like=True, tag=1):
    term: Term
    voted_for: NodeId | None


class _Append(Struct, frozen=True, array_like=True, tag=2):
    entries: tuple[Entry, ...]


class _Truncate(Struct, frozen=True, array_like=True, tag=3):
    from_index: Index


class _Cut(Struct, frozen=True, array_like=True, tag=4):
    first_index: Index
    metadata: SnapshotMetadata


class _Reset(Struct, frozen=True, array_like=True, tag=5):
    metadata: SnapshotMetadata


_Form: TypeAlias = _HardState | _Append | _Truncate | _Cut | _Reset
_Whole = TypeVar("_Whole", Header, SnapshotFooter, Standing)

_UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no such value, texts that are not UTF-8 among them."""

_ENCODER: Final = Encoder()
_RECORDS: Final = Decoder(list[_Form])
_HEADER: Final = Decoder(Header)
_FOOTER: Final = Decoder(SnapshotFooter)
_STANDING: Final = Decoder(Standing)


def encode_record(record: DurableRecord) -> bytes:
    """One record, to be put into a group by ``group``."""
    return _ENCODER.encode(_form(record))


def group(records: list[bytes]) -> bytes:
    """Encoded records as one value, in this order."""
    count = len(records)
    if count <= _FIXARRAY_MAX:
        head = bytes((0x90 | count,))
    elif count <= _ARRAY16_MAX:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return b"".join((head, *records))


def decode_group(data: bytes) -> list[DurableRecord]:
    """The records of a group. What they say of the log is not judged here."""
    try:
        forms = _RECORDS.decode(data)
    except _UNDECODABLE as error:
        raise IntegrityError(f"no group of records: {error}") from error
    if _ENCODER.encode(forms) != data:
        raise IntegrityError("a group of records is not in its canonical form")
    return [_record(form) for form in forms]


def encode_whole(value: Header | SnapshotFooter | Standing) -> bytes:
    """A value that stands alone."""
    return _ENCODER.encode(value)


def decode_header(data: bytes) -> Header:
    """The header of a log file."""
    header = _decoded(_HEADER, data, "a header")
    for what, value in (("number", header.number), ("boot", header.boot), ("first index", header.first_index)):
        if value < 1:
            raise IntegrityError(f"the {what} in a header is {value}")
    if header.filled < 0 or header.term < 0 or header.last_index < header.first_index - 1:
        raise IntegrityError("a header contradicts itself")
    return header


def decode_footer(data: bytes) -> SnapshotFooter:
    """The footer of a snapshot's file."""
    return _decoded(_FOOTER, data, "a footer of a snapshot")


def decode_standing(data: bytes) -> Standing:
    """What a node keeps of itself."""
    standing = _decoded(_STANDING, data, "a standing")
    if standing.incarnation < 0:
        raise IntegrityError(f"the incarnation in a standing is {standing.incarnation}")
    return standing


def entry_records(entries: Iterable[Entry], *, bytes_max: int) -> list[bytes]:
    """Encoded ``Append`` records that together hold these entries, each of about so many bytes at most."""
    records: list[bytes] = []
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        payload = entry.payload
        held = _ENTRY_BYTES + (len(payload) if isinstance(payload, bytes) else len(_ENCODER.encode(payload)))
        if batch and size + held > bytes_max:
            records.append(_ENCODER.encode(_Append(tuple(batch))))
            batch, size = [], 0
        batch.append(entry)
        size += held
    if batch:
        records.append(_ENCODER.encode(_Append(tuple(batch))))
    return records


_ENTRY_BYTES: Final = 1 + 9 + 9 + 5
"""The most that term, index and the heads of an entry's array and payload take."""


def _decoded(decoder: Decoder[_Whole], data: bytes, what: str) -> _Whole:
    try:
        value = decoder.decode(data)
    except _UNDECODABLE as error:
        raise IntegrityError(f"{what} does not decode: {error}") from error
    if value.version != VERSION:
        raise IntegrityError(f"{what} is of version {value.version}; this program knows version {VERSION}")
    if _ENCODER.encode(value) != data:
        raise IntegrityError(f"{what} is not in its canonical form")
    return value


def _form(record: DurableRecord) -> _Form:
    match record:
        case Append(entries):
            return _Append(entries)
        case HardState(term, voted_for):
            return _HardState(term, voted_for)
        case Truncate(from_index):
            return _Truncate(from_index)
        case Cut(first_index, metadata):
            return _Cut(first_index, metadata)
        case Reset(metadata):
            return _Reset(metadata)
        case _:
            assert_never(record)


def _record(form: _Form) -> DurableRecord:
    match form:
        case _Append(entries):
            return Append(entries)
        case _HardState(term, voted_for):
            return HardState(term, voted_for)
        case _Truncate(from_index):
            return Truncate(from_index)
        case _Cut(first_index, metadata):
            return Cut(first_index, metadata)
        case _Reset(metadata):
            return Reset(metadata)
        case _:
            assert_never(form)
