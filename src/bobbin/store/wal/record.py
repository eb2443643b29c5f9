"""A record in a file: the length of its payload, a checksum of its payload, its payload.

::

    length   u32, little-endian
    CRC-32   u32, little-endian, of the payload alone; every value of it is checked, 0 like any other
    payload  so many bytes, at least one and at most ``PAYLOAD_BYTES_MAX``

An empty payload does not exist, since its record would be eight zeros, which is what a hole in a file reads as.
"""

from struct import Struct
from typing import Final
from zlib import crc32

PAYLOAD_BYTES_MAX: Final = 64 * 1_048_576
"""Checked before anything of that length is read or allocated."""

HEAD: Final = Struct("<II")


def frame(*parts: bytes) -> bytes:
    """A record whose payload is these parts, one after the other, as one buffer."""
    checksum = 0
    length = 0
    for part in parts:
        checksum = crc32(part, checksum)
        length += len(part)
    assert 0 < length <= PAYLOAD_BYTES_MAX, length
    return b"".join((HEAD.pack(length, checksum), *parts))


def payload_at(buffer: bytes, offset: int) -> bytes | None:
    """The payload of the record that begins there and lies wholly in the buffer; None if none does."""
    start = offset + HEAD.size
    if start > len(buffer):
        return None
    length, checksum = HEAD.unpack_from(buffer, offset)
    if not 0 < length <= PAYLOAD_BYTES_MAX or start + length > len(buffer):
        return None
    payload = buffer[start : start + length]
    return payload if crc32(payload) == checksum else None
