"""How blobs lie in an arena: a header of 40 bytes, then the bytes.

=========  ======  ==================================================================
bytes      type    what
=========  ======  ==================================================================
0 to 3     u32     magic, ``LZSH`` read as a big-endian number
4 to 5     u16     version, 1
6 to 7     u16     length of the header, 40
8 to 15    u64     generation: 1 for the first blob of an arena, then one more for each
16 to 23   u64     epoch of the arena when the blob was written
24 to 31   u64     length of the blob
32 to 39   u64     FNV-1a of the blob
=========  ======  ==================================================================

All of it is little-endian, as published peers have it. A ``BlobRef`` says the same four numbers and where the header
is; a reader takes the bytes only if the two agree in every one of them.

Blobs are written one after another. One that would not fit before the end goes to the start, and so does the one after
a blob that ended exactly there. So an arena forgets what is oldest, and a reader that comes too late finds another
header, or none.
"""

from struct import Struct as Layout
from typing import Final

from msgspec import Struct

from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.reactive.messages import U64_MAX, BlobRef

MAGIC: Final = 0x4C5A5348
VERSION: Final = 1
CAPACITY_MIN: Final = 41
"""A header and one byte."""
GENERATION_MAX: Final = U64_MAX

_LAYOUT: Final = Layout("<IHHQQQQ")
HEADER_BYTES: Final = _LAYOUT.size


class CapacityTooSmall(UsageError):
    """An arena must have room for a header and a byte. There is no arena."""


class BlobTooLarge(UsageError):
    """A blob does not fit into the arena, even alone. Nothing was written."""


class DescriptorOutOfBounds(IntegrityError):
    """A descriptor names bytes that are not in the arena. Nothing was read."""


class HeaderMismatch(IntegrityError):
    """The header at that place is of another blob, or none. The bytes were not given out."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        """The first field that differs."""


class ChecksumMismatch(IntegrityError):
    """The header is right and the bytes are not. They were not given out."""


class GenerationOverflow(ResourceError):
    """The arena has written as many blobs as a u64 can count. Nothing was written; a new arena starts again."""

    def __init__(self) -> None:
        super().__init__("the arena has used up its generations", retry=False)


class Header(Struct, frozen=True, gc=False):
    """What stands in front of a blob."""

    generation: int
    epoch: int
    length: int
    checksum: int


class Place(Struct, frozen=True, gc=False):
    """Where a blob goes."""

    offset: int
    """Of its header."""
    end: int
    cursor: int
    """Where the next one may go."""


def check_capacity(capacity: int) -> None:
    """Raise ``CapacityTooSmall`` unless an arena of that size can hold anything."""
    if capacity < CAPACITY_MIN:
        raise CapacityTooSmall(f"an arena of {capacity} bytes: at least {CAPACITY_MIN} are needed")


def next_generation(last: int) -> int:
    """The generation of the next blob."""
    if last >= GENERATION_MAX:
        raise GenerationOverflow
    return last + 1


def place(cursor: int, length: int, capacity: int) -> Place:
    """Where a blob of some length goes when the last one ended at ``cursor``."""
    size = HEADER_BYTES + length
    if size > capacity:
        raise BlobTooLarge(f"a blob of {length} bytes: the arena holds {capacity - HEADER_BYTES}")
    offset = cursor if cursor + size <= capacity else 0
    end = offset + size
    return Place(offset, end, 0 if end == capacity else end)


def pack(header: Header) -> bytes:
    """The bytes of a header."""
    return _LAYOUT.pack(MAGIC, VERSION, HEADER_BYTES, header.generation, header.epoch, header.length, header.checksum)


def check_bounds(blob: BlobRef, capacity: int) -> None:
    """Raise ``DescriptorOutOfBounds`` unless header and bytes lie in the arena."""
    if blob.offset + HEADER_BYTES + blob.length > capacity:
        raise DescriptorOutOfBounds(
            f"{blob.length} bytes behind a header at {blob.offset}: the arena ends at {capacity}"
        )


def check(raw: bytes, blob: BlobRef) -> None:
    """Raise ``HeaderMismatch`` unless the header is the one that the descriptor was made from."""
    magic, version, size, generation, epoch, length, checksum = _LAYOUT.unpack(raw)
    for field, found, expected in (
        ("magic", magic, MAGIC),
        ("version", version, VERSION),
        ("header_length", size, HEADER_BYTES),
        ("generation", generation, blob.generation),
        ("epoch", epoch, blob.epoch),
        ("length", length, blob.length),
        ("checksum", checksum, blob.checksum),
    ):
        if found != expected:
            raise HeaderMismatch(field, f"the header at {blob.offset} has {field} {found}, not {expected}")
