"""TAI time (Lace-010): ten digits of seconds, a colon, nine digits of nanoseconds.

Seconds are International Atomic Time counted from 1970 like Unix seconds, so TAI = UTC + the leap-second offset in
force at that instant. The widths are fixed, so text order, byte order and number order are one. Inside the program
a time is its whole number of nanoseconds; nothing here reads a clock.
"""

import re
from bisect import bisect_right
from typing import Final

from bobbin.errors import UsageError

NANOSECONDS: Final = 1_000_000_000
TAI_MAX: Final = 10_000_000_000 * NANOSECONDS - 1
"""The last instant that the text form can say."""

PATTERN: Final = rb"[0-9]{10}:[0-9]{9}"
_TEXT: Final = re.compile(PATTERN.decode(), re.ASCII)

# Each row: the first UTC second (Unix time) at which the offset TAI - UTC holds. Before 1972 UTC drifted against TAI
# in fractions; instants before the first row get ten seconds.
_OFFSETS: Final = (
    (63072000, 10),
    (78796800, 11),
    (94694400, 12),
    (126230400, 13),
    (157766400, 14),
    (189302400, 15),
    (220924800, 16),
    (252460800, 17),
    (283996800, 18),
    (315532800, 19),
    (362793600, 20),
    (394329600, 21),
    (425865600, 22),
    (489024000, 23),
    (567993600, 24),
    (631152000, 25),
    (662688000, 26),
    (709948800, 27),
    (741484800, 28),
    (773020800, 29),
    (820454400, 30),
    (867715200, 31),
    (915148800, 32),
    (1136073600, 33),
    (1230768000, 34),
    (1341100800, 35),
    (1435708800, 36),
    (1483228800, 37),
)
_STARTS: Final = tuple(start for start, _ in _OFFSETS)


class TaiError(UsageError):
    """A text is not a TAI time, or arithmetic left the range that the text form can say."""


def parse(text: str) -> int:
    """The nanoseconds that ``text`` says."""
    if not _TEXT.fullmatch(text):
        raise TaiError(f"not a TAI time (ten digits, a colon, nine digits): {text!r}")
    return int(text[:10]) * NANOSECONDS + int(text[11:])


def render(nanoseconds: int) -> str:
    """The text of an instant."""
    if not 0 <= nanoseconds <= TAI_MAX:
        raise TaiError(f"outside the range of TAI times: {nanoseconds} ns")
    seconds, fraction = divmod(nanoseconds, NANOSECONDS)
    return f"{seconds:010d}:{fraction:09d}"


def add(text: str, nanoseconds: int) -> str:
    """The time ``nanoseconds`` after ``text`` (before it, when negative); an error outside the range."""
    return render(parse(text) + nanoseconds)


def offset_seconds(utc_seconds: int) -> int:
    """TAI - UTC at a UTC instant given as Unix seconds."""
    row = bisect_right(_STARTS, utc_seconds)
    return _OFFSETS[max(row - 1, 0)][1]


def from_utc(utc_nanoseconds: int) -> int:
    """TAI nanoseconds of a UTC instant given as Unix nanoseconds."""
    return utc_nanoseconds + offset_seconds(utc_nanoseconds // NANOSECONDS) * NANOSECONDS


def to_utc(tai_nanoseconds: int) -> int:
    """Unix nanoseconds of a TAI instant. Inside an inserted leap second the answer is the second after it."""
    seconds = tai_nanoseconds // NANOSECONDS
    row = bisect_right(tuple(start + offset for start, offset in _OFFSETS), seconds)
    return tai_nanoseconds - _OFFSETS[max(row - 1, 0)][1] * NANOSECONDS
