"""How the values of records are spelled in the columns of the database.

* A record is found by its *key*: the first eight bytes of its digest as a signed integer. An index over integers is
  a third of the size of one over digests. Keys may collide, by chance or by intent, so whoever finds a row by its key
  compares the whole name before believing it.
* A TAI time is moved down by 2^63: all of 0 … ``TAI_MAX`` then fits into SQLite's signed integers, in order.
* A record's bytes open with its name, so a name is cut out of them rather than computed.

A column that says what no record can say is damage: ``DamagedStore``, like every other damage to the file.
"""

import binascii
import struct
import sys
from array import array
from collections.abc import Iterable
from typing import Final

from bobbin.records import b64a, ids
from bobbin.records.canonical import MARK
from bobbin.records.ids import HashText, Kind
from bobbin.records.tai import TAI_MAX
from bobbin.store.base import DamagedStore

_KEY: Final = struct.Struct(">q")
_KEY_SYMBOLS: Final = slice(2, 14)
"""Twelve symbols, nine bytes: the key and one byte more."""

_COMMON: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_COMMON: Final = bytes.maketrans(b64a.ALPHABET.encode(), _COMMON)

_NAME_AT: Final = len(MARK) + 2
_NAME_SIZE: Final = len("B.") + b64a.length(ids.DIGEST_SIZE) + len(".H3")
NAME: Final = slice(_NAME_AT, _NAME_AT + _NAME_SIZE)
"""Where a record's bytes hold its hash text."""

_TAI_SHIFT: Final = 2**63
_HEADS: Final = ("", *(f"{kind.letter}." for kind in Kind))
_TAIL: Final = f".{ids.SUFFIX}"


def key_of(digest: bytes) -> int:
    """The key of a digest."""
    key: int = _KEY.unpack_from(digest)[0]
    return key


def keys_of(digests: Iterable[bytes]) -> "array[int]":
    """The keys of many digests, cut out of all of them in one go."""
    words = array("q", b"".join(digests))
    keys = words[:: ids.DIGEST_SIZE // words.itemsize]
    if sys.byteorder == "little":
        keys.byteswap()
    return keys


def key_of_hash(hash_text: str) -> int:
    """The key of the record of this name. Cheaper than decoding the name, so a text may pass that is no name."""
    try:
        key: int = _KEY.unpack_from(binascii.a2b_base64(hash_text[_KEY_SYMBOLS].encode().translate(_TO_COMMON)))[0]
    except (ValueError, struct.error):
        # Such a text is no name. The whole parse says what is wrong with it.
        return key_of(ids.parse_hash(hash_text)[1])
    return key


def tai_column(nanoseconds: int) -> int:
    """A TAI time as it is stored."""
    return nanoseconds - _TAI_SHIFT


def tai_of_column(column: int) -> int:
    """The TAI time that a column says."""
    nanoseconds = column + _TAI_SHIFT
    if nanoseconds > TAI_MAX:
        raise DamagedStore("the store is damaged: a stored time is beyond the end of TAI")
    return nanoseconds


def hash_text(kind: int, digest: bytes) -> HashText:
    """The name of a record, from the columns that say its kind and digest."""
    try:
        return HashText(_HEADS[kind] + b64a.encode(digest) + _TAIL)
    except (IndexError, TypeError) as error:
        raise DamagedStore("the store is damaged: a row of facts belongs to no record") from error


def hash_of_raw(raw: bytes) -> HashText:
    """The name that a record's bytes open with."""
    try:
        return HashText(raw[NAME].decode("ascii"))
    except (TypeError, UnicodeDecodeError) as error:
        raise DamagedStore("the store is damaged: a record has lost its name") from error


def after_prefix(prefix: str) -> bytes:
    """The smallest bytes that are greater than every text with this prefix, in the order of UTF-8 bytes.

    They need not be UTF-8 themselves. No byte of UTF-8 is 0xFF, so there is always room for one more.
    """
    raw = prefix.encode()
    return raw[:-1] + bytes([raw[-1] + 1])


def can_be_stored(text: str) -> bool:
    """Whether a text can be in the database at all: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """The text itself; where it holds half a surrogate pair (a file name may), the half spelled as an escape."""
    return text if can_be_stored(text) else text.encode("utf-8", "backslashreplace").decode()
