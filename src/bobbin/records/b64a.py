"""Base64-Ascend (Lace-006): base 64 over an alphabet that ascends in ASCII, most significant bit first, no padding.

Because the alphabet ascends, canonical texts of equal length sort exactly like the bytes they stand for. Decoding is
strict: one spelling per value, everything else is refused.
"""

import binascii
from typing import Final

from bobbin.errors import IntegrityError

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
PATTERN: Final = rb"[0-9A-Z_a-z~]"
"""A regular expression for one symbol, for the readers that match whole lines."""

_COMMON: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FROM_COMMON: Final = bytes.maketrans(_COMMON, ALPHABET.encode())
_TO_COMMON: Final = bytes.maketrans(ALPHABET.encode(), _COMMON)
_SYMBOLS: Final = ALPHABET.encode()
_TO_COMMON_ALONE: Final = bytes(_TO_COMMON[byte] if byte in _SYMBOLS else 0 for byte in range(256))
"""The same for symbols; every other byte becomes one that no decoder takes."""


class B64aError(IntegrityError):
    """A text is not the one canonical B64A spelling of any bytes."""


def length(size: int) -> int:
    """How many symbols ``size`` bytes take."""
    return (size * 8 + 5) // 6


def encode_bytes(data: bytes) -> bytes:
    """The symbols of ``data``, as ASCII bytes. The hot path: the standard encoder and one translation."""
    return binascii.b2a_base64(data, newline=False).translate(_FROM_COMMON)[: (len(data) * 8 + 5) // 6]


def encode(data: bytes) -> str:
    """The symbols of ``data``."""
    return encode_bytes(data).decode("ascii")


_LAST: Final = {0: _SYMBOLS, 2: _SYMBOLS[::16], 3: _SYMBOLS[::4]}
"""By length modulo 4: the symbols that may end a text, since the bits it does not use are zero."""


def decode_counted(symbols: bytes) -> bytes:
    """The same as ``decode`` for bytes in a number that a text can have. In half its time."""
    if symbols[-1] not in _LAST[len(symbols) % 4]:
        raise B64aError("the unused low bits of the last symbol are not zero")
    try:
        return binascii.a2b_base64(symbols.translate(_TO_COMMON_ALONE) + b"=" * (-len(symbols) % 4), strict_mode=True)
    except binascii.Error as error:
        raise B64aError("a symbol is outside the B64A alphabet") from error


def decode(text: str | bytes) -> bytes:
    """The bytes that ``text`` spells; refuses every text but the canonical one."""
    try:
        symbols = text.encode("ascii") if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise B64aError("a symbol is outside the B64A alphabet") from error
    if symbols.translate(None, _SYMBOLS):
        raise B64aError("a symbol is outside the B64A alphabet")
    if len(symbols) % 4 == 1:
        raise B64aError(f"no value has a B64A text of {len(symbols)} symbols")
    data = binascii.a2b_base64(symbols.translate(_TO_COMMON) + b"=" * (-len(symbols) % 4))
    if encode_bytes(data) != symbols:
        raise B64aError("the unused low bits of the last symbol are not zero")
    return data
