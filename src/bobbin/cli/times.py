"""Times as people type them: TAI as records hold it, or UTC as in RFC 3339.

TAI runs ahead of UTC by the leap seconds so far, so a text in UTC is converted and never merely rewritten. Leap seconds
that are announced after this version was made are not known to it.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from bobbin.errors import UsageError
from bobbin.records import tai

FORMS: Final = "TAI as in 1640995200:000000000, or UTC as in 2021-12-31T23:59:23Z"

_UTC: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<clock>[0-9]{2}:[0-9]{2}):(?P<second>[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]{1,9}))?(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_WITHOUT_ZONE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_LEAP_SECOND: Final = 60


def parse_time(text: str) -> str:
    """The TAI text of an instant that is given in TAI or in UTC."""
    if found := _UTC.fullmatch(text):
        return tai.render(_from_utc(text, found))
    try:
        tai.parse(text)
    except tai.TaiError as error:
        raise UsageError(f"not a time: {text!r}. {_advice(text)}") from error
    return text


def _from_utc(text: str, found: re.Match[str]) -> int:
    leap = int(found["second"]) == _LEAP_SECOND
    second = "59" if leap else found["second"]
    try:
        moment = datetime.fromisoformat(f"{found['date']}T{found['clock']}:{second}").replace(tzinfo=_zone(found))
    except ValueError as error:
        raise UsageError(f"no calendar has this time: {text!r}") from error
    seconds = (moment - datetime.fromtimestamp(0, UTC)) // timedelta(seconds=1)
    if leap and tai.offset_seconds(seconds + 1) == tai.offset_seconds(seconds):
        raise UsageError(f"there was no leap second at this time: {text!r}")
    nanoseconds = int((found["fraction"] or "").ljust(9, "0"))
    instant = tai.from_utc(seconds * tai.NANOSECONDS) + leap * tai.NANOSECONDS + nanoseconds
    if not 0 <= instant <= tai.TAI_MAX:
        raise UsageError(f"outside the range of TAI times: {text!r}")
    return instant


def _zone(found: re.Match[str]) -> timezone:
    if found["zone"] in "Zz":
        return UTC
    hours, minutes = int(found["zone"][1:3]), int(found["zone"][4:6])
    if minutes > 59:
        raise ValueError("an hour has sixty minutes")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if found["zone"][0] == "-" else offset)


def _advice(text: str) -> str:
    if _WITHOUT_ZONE.fullmatch(text):
        return f"Add Z for UTC: {text}Z"
    if _DATE.fullmatch(text):
        return f"Add the time of day: {text}T00:00:00Z"
    return f"Expected {FORMS}"
