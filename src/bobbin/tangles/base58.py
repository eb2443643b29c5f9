"""Base58 in the alphabet of Bitcoin: how pzp writes every binary value.

A text is a number in base 58; each leading zero byte of the value is one leading ``1``. Every value has one text. The
number of bytes is always known beforehand, so a text that is too long is refused before any work is done on it.
"""

from typing import Final

from bobbin.tangles.errors import MalformedText

ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

_PAIRS: Final = [first + second for first in ALPHABET for second in ALPHABET]
_OF_PAIR: Final = {pair: number for number, pair in enumerate(_PAIRS)}
_PAIR_BASE: Final = len(_PAIRS)
"""Two symbols at a time halve the steps over a large number."""


def encode(data: bytes) -> str:
    """The text of these bytes."""
    number = int.from_bytes(data, "big")
    pairs: list[str] = []
    while number:
        number, pair = divmod(number, _PAIR_BASE)
        pairs.append(_PAIRS[pair])
    pairs.reverse()
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + "".join(pairs).lstrip("1")


def decode(text: str, size: int) -> bytes:
    """The ``size`` bytes that a text stands for. Raises ``MalformedText`` where it stands for none, or for others."""
    if len(text) > _symbols_max(size):
        raise MalformedText(f"no base58 text of {size} bytes has {len(text)} symbols")
    digits = text.lstrip("1")
    zeros = len(text) - len(digits)
    if len(digits) % 2:
        digits = "1" + digits
    number = 0
    try:
        for start in range(0, len(digits), 2):
            number = number * _PAIR_BASE + _OF_PAIR[digits[start : start + 2]]
    except KeyError:
        raise MalformedText("a symbol is outside the base58 alphabet") from None
    length = zeros + (number.bit_length() + 7) // 8
    if length != size:
        raise MalformedText(f"a base58 text stands for {length} bytes, not {size}")
    return number.to_bytes(size, "big")


def is_text_of(text: str, size: int) -> bool:
    """Whether a text stands for ``size`` bytes."""
    try:
        decode(text, size)
    except MalformedText:
        return False
    return True


def _symbols_max(size: int) -> int:
    """log(256) / log(58) is a little below 1.3658."""
    return size * 13658 // 10000 + 1
