"""Bloom filters, byte for byte as pzp peers write and read them (bloom-filters 3).

A filter for ``n`` items has so many bits and hashes that one item in 100,000 that is not in it seems to be. An item is
the decimal number of the round followed by a message id: what one round hides by accident, the next one shows.

On the wire a filter is a JSON object, whose keys come in one order. Its numbers decide how much work and memory
reading it takes, so they are bounded before anything is computed: a filter beyond them is refused.
"""

import binascii
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from bobbin.errors import PeerError, UsageError
from bobbin.tangles import bloom_hash

SEED: Final = 78_187_493_520
"""0x1234567890, the library's own."""
_ERROR_RATE: Final = 0.00001
_SEED_MAX: Final = 2**53 - 1
_BATCH: Final = 8192
"""Items at a time: their places take at most some megabytes."""


class MalformedFilter(PeerError):
    """A peer's filter is none, or is beyond the bounds. Nothing was computed with it."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed-filter", message)


class FilterLimits(Struct, frozen=True, kw_only=True):
    """What a filter of a peer may ask of us."""

    bits_max: int = 1 << 24
    """The reference makes 48,000 bits, and 48 more for each id that was promised: this is for 350,000 of those."""
    hashes_max: int = 32
    """The reference has 17, whatever the size."""


class WireBits(Struct, frozen=True):
    """The bits of a filter as they stand in JSON."""

    size: int
    content: str


class WireFilter(Struct, frozen=True):
    """A filter as it stands in JSON, in the order of its keys."""

    type: Literal["BloomFilter"]
    bits: int = field(name="_size")
    hashes: int = field(name="_nbHashes")
    content: WireBits = field(name="_filter")
    seed: int = field(name="_seed")


Places: TypeAlias = NDArray[np.uint64]


def bits_for(capacity: int) -> int:
    """How many bits a filter for so many items has."""
    if capacity <= 0:
        raise UsageError("a filter is for at least one item")
    return math.ceil(-(capacity * math.log(_ERROR_RATE)) / math.log(2) ** 2)


def hashes_for(bits: int, capacity: int) -> int:
    """How many places an item has in such a filter."""
    return math.ceil(bits / capacity * math.log(2))


class Bloom:
    """A filter. It never changes once it has been made or read."""

    def __init__(self, bits: int, hashes: int, content: bytes, seed: int = SEED) -> None:
        if len(content) != -(-bits // 8):
            raise UsageError(f"{bits} bits are not {len(content)} bytes")
        self.bits: Final = bits
        self.hashes: Final = hashes
        self.seed: Final = seed
        self._content: Final = np.frombuffer(content, np.uint8)

    @classmethod
    def create(cls, capacity: int, items: Sequence[bytes]) -> "Bloom":
        """A filter made for ``capacity`` items that holds these. Too many make it say yes to everything."""
        bits = bits_for(capacity)
        hashes = hashes_for(bits, capacity)
        flags = np.zeros(-(-bits // 8) * 8, np.uint8)
        for start in range(0, len(items), _BATCH):
            flags[_places(items[start : start + _BATCH], bits, hashes, SEED)] = 1
        return cls(bits, hashes, np.packbits(flags, bitorder="little").tobytes())

    @property
    def content(self) -> bytes:
        return self._content.tobytes()

    @property
    def bits_set(self) -> int:
        return int(np.unpackbits(self._content).sum())

    def has(self, items: Sequence[bytes]) -> list[bool]:
        """Whether each item seems to be in it."""
        answers: list[bool] = []
        for start in range(0, len(items), _BATCH):
            places = _places(items[start : start + _BATCH], self.bits, self.hashes, self.seed)
            bits = self._content[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8) & np.uint8(1)
            answers += bits.all(axis=1).tolist()
        return answers

    def encode(self) -> bytes:
        """The JSON text of it."""
        return msgspec.json.encode(
            WireFilter(
                "BloomFilter",
                self.bits,
                self.hashes,
                WireBits(8 * len(self._content), b64encode(self._content.tobytes()).decode()),
                self.seed,
            )
        )

    @classmethod
    def read(cls, wire: WireFilter, limits: FilterLimits) -> "Bloom":
        """The filter of a peer. Raises ``MalformedFilter`` where it is inconsistent or beyond the bounds."""
        if not 0 < wire.bits <= limits.bits_max:
            raise MalformedFilter(f"a filter has 1 to {limits.bits_max} bits, not {wire.bits}")
        if not 0 < wire.hashes <= limits.hashes_max:
            raise MalformedFilter(f"a filter has 1 to {limits.hashes_max} hashes, not {wire.hashes}")
        if not 0 <= wire.seed <= _SEED_MAX:
            raise MalformedFilter("the seed of a filter is a whole number below 2**53")
        size = -(-wire.bits // 8)
        if wire.content.size != 8 * size or len(wire.content.content) != 4 * -(-size // 3):
            raise MalformedFilter(f"the content of a filter of {wire.bits} bits has another length")
        try:
            content = b64decode(wire.content.content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise MalformedFilter("the content of a filter is not base64") from error
        if len(content) != size:
            raise MalformedFilter(f"the content of a filter of {wire.bits} bits has another length")
        return cls(wire.bits, wire.hashes, content, wire.seed)


def items_of(round_number: int, ids: Iterable[str]) -> list[bytes]:
    """The items of a round: its number, directly followed by the id."""
    return [f"{round_number}{message}".encode() for message in ids]


def _places(items: Sequence[bytes], bits: int, hashes: int, seed: int) -> Places:
    """Where each item has its bits, a row for each. All sums stay far below 2**64."""
    first, second = bloom_hash.pairs(items, seed)
    numbers = np.arange(hashes, dtype=np.uint64)
    extra = (numbers**3 - numbers) // np.uint64(6)
    places: Places = first[:, None] + numbers[None, :] * second[:, None] + extra[None, :]
    places %= np.uint64(bits)
    return places
