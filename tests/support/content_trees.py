"""What tests of content trees need: names that meet in one bucket, and the hash of a tree worked out from nothing."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from itertools import count, islice
from zlib import crc32

PLACES = 1 << 16
_EMPTY = bytes(32)


@cache
def names_of_place(place: int, number: int) -> tuple[bytes, ...]:
    """So many names that belong to one bucket.

    The checksums of two names that differ in their ends only differ by what depends on the ends alone.
    """
    ends = _ends_by_difference()
    names = (b"name %d " % at for at in count())
    wanted = ((name, (crc32(name + bytes(2)) ^ place) % PLACES) for name in names)
    return tuple(islice((name + ends[difference] for name, difference in wanted if difference in ends), number))


@cache
def _ends_by_difference() -> dict[int, bytes]:
    """Of two bytes, by what they make of the place of a name that ends with zeros."""
    zeros = crc32(bytes(2))
    return {(crc32(end) ^ zeros) % PLACES: end for end in (at.to_bytes(2, "big") for at in range(1 << 16))}


def slow_top(contents: Mapping[bytes, bytes]) -> bytes:
    """Every bucket and every branch is hashed, as ``bobbin.cluster.content_tree`` says it in words."""
    buckets: dict[int, list[bytes]] = {}
    for name, content in contents.items():
        buckets.setdefault(crc32(name) % PLACES, []).append(sha256(b"\x00" + content).digest())
    level = [_EMPTY] * PLACES
    for place, hashes in buckets.items():
        level[place] = hashes[0] if len(hashes) == 1 else sha256(b"\x01" + b"".join(sorted(hashes))).digest()
    for children in (32, 32, 64):
        texts = [b"".join(level[at : at + children]) for at in range(0, len(level), children)]
        level = [sha256(b"\x02" + text).digest() if any(text) else _EMPTY for text in texts]
    (top,) = level
    return top
