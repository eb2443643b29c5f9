"""The small texts inside control facts: decimals, hash texts, prefixes, roots (Lace-050).

Each has one spelling. The questions are asked once or more for each line of a block, so each is one regular expression
or one comparison. What is wrong with a line is said by whoever reads the block, who knows which line it is.
"""

import re
from typing import Final

from bobbin import profile
from bobbin.errors import IntegrityError
from bobbin.interlace.limits import VALUE_MAX
from bobbin.records import b64a, ids

_SYMBOL: Final = b64a.PATTERN.decode()
_DIGITS_MAX: Final = 20
_DECIMAL: Final = re.compile(rf"0|[1-9][0-9]{{0,{_DIGITS_MAX - 1}}}", re.ASCII)
# The last of 43 symbols spells four bits of a digest and two zeros.
_DIGEST: Final = rf"{_SYMBOL}{{42}}[{b64a.ALPHABET[::4]}]"
_SUFFIX: Final = r"[A-Z][A-Z0-9]*"

RECORD: Final = re.compile(rf"[BPS]\.(?:{_DIGEST}\.{ids.SUFFIX}|{_SYMBOL}++\.(?!{ids.SUFFIX}\Z){_SUFFIX})")
"""The hash text of a record. One of a format that is not known here may have any number of symbols."""

FORMAT: Final = re.compile(_SUFFIX)
"""The suffix of hash texts of one record format."""

PLAN: Final = re.compile(rf"E\.{_DIGEST}")
PREFIX: Final = re.compile(rf"{_SYMBOL}{{1,{profile.PARTITION_PREFIX_LENGTH_MAX}}}")

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def decimal(text: str) -> int | None:
    """The number that a text spells: at most 20 digits, below 2^64, no sign and no leading zero. None for any other."""
    number = int(text) if _DECIMAL.fullmatch(text) else VALUE_MAX + 1
    return number if number <= VALUE_MAX else None


def digest(text: str) -> bytes | None:
    """The 32 bytes that 43 symbols spell; None where a text is no such spelling."""
    try:
        data = b64a.decode(text)
    except IntegrityError:
        return None
    return data if len(data) == ids.DIGEST_SIZE else None


def is_said_by_records(text: str) -> bool:
    """Whether a name or value, taken from a fact block, is one that a field of a record can have."""
    return bool(text) and _CONTROL.search(text) is None
