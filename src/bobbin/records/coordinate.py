"""Where a record lives: group, app and name (Lace-110), and the texts by which people ask for records.

Three texts address records::

    ////P.ty….H3                one record, by its hash
    //u//ding//links/1          every record at one coordinate (coordinates are not unique)
    //u//ding//links/           a prefix: everything below it

Hash addresses are tried first, since both forms begin with ``//``. A prefix ends in ``/``; it may stop after the
group (``//u//``), after the app (``//u//ding//``) or after any segment of the name. The *tip* of a coordinate is its
record with the highest (TAI, hash text).
"""

import re
import unicodedata
from typing import Final

from msgspec import Struct

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.records import ids
from bobbin.records.ids import IdentifierError

_FORBIDDEN: Final = re.escape(profile.SEGMENT_FORBIDDEN)
SEGMENT_PATTERN: Final = rb"(?!\.{1,2}(?:/|\n|\Z))[^\x00-\x1f\x7f" + _FORBIDDEN.encode() + rb"]+"
PATH_PATTERN: Final = (
    rb"(?! )" + SEGMENT_PATTERN + rb"(?:/" + SEGMENT_PATTERN + rb"){0,%d}" % (profile.HEADER_LINE_BYTES_MAX // 2)
)
"""A regular expression for a path on a header line. Its length limits are checked apart; that on the number of segments
is above what fits on a line, and keeps the matcher's memory small."""

_PATH: Final = re.compile(PATH_PATTERN)
_LIMITS: Final = {
    "group": profile.GROUP_BYTES_MAX,
    "app": profile.APP_BYTES_MAX,
    "name": profile.HEADER_LINE_BYTES_MAX - len("Name: "),
}


class CoordinateError(UsageError):
    """A text does not address records."""


class Address(Struct, frozen=True, kw_only=True):
    """One record, by its hash."""

    hash: ids.HashText


class Coordinate(Struct, frozen=True, kw_only=True):
    """Every record at this group, app and name."""

    group: str
    app: str
    name: str

    def __str__(self) -> str:
        return f"//{self.group}//{self.app}//{self.name}"


class Prefix(Struct, frozen=True, kw_only=True):
    """Every record below this place. ``app`` None: the whole group. ``name`` is empty or ends in ``/``."""

    group: str
    app: str | None = None
    name: str = ""

    def __str__(self) -> str:
        return f"//{self.group}//" if self.app is None else f"//{self.group}//{self.app}//{self.name}"


def parse(text: str) -> Address | Coordinate | Prefix:
    """Read an address, a coordinate or a prefix."""
    if text.startswith("////"):
        try:
            ids.parse_hash(text[4:])
        except IdentifierError as error:
            raise CoordinateError(str(error)) from error
        return Address(hash=ids.HashText(text[4:]))
    if not text.startswith("//"):
        raise CoordinateError(f"a coordinate begins with // (as in //group//app//name): {text!r}")
    if "|" in text:
        raise CoordinateError(f"version selectors are not supported: {text!r}")
    group, *rest = text[2:].split("//")
    _check("group", group)
    match rest:
        case [""]:
            return Prefix(group=group)
        case [app, name]:
            _check("app", app)
            if name == "" or name.endswith("/"):
                if name:
                    _check("name", name[:-1])
                return Prefix(group=group, app=app, name=name)
            _check("name", name)
            return Coordinate(group=group, app=app, name=name)
        case _:
            forms = "a coordinate is //group//app//name; prefixes are //group//, //group//app// and //group//app//name/"
            raise CoordinateError(f"{forms}: {text!r}")


def fault(role: str, path: str) -> str | None:
    """What is wrong with one path of a coordinate, as a sentence; None when nothing is."""
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return f"the {role} is not Unicode text"
    limit = _LIMITS[role]
    if len(raw) > limit:
        return f"the {role} is longer than {limit} bytes"
    if not unicodedata.is_normalized("NFC", path):
        return f"the {role} {path!r} is not in normalization form NFC"
    if not _PATH.fullmatch(raw):
        return (
            f"the {role} {path!r} is not a path: segments joined by single slashes, none empty, '.' or '..', "
            f"without control characters and without any of {profile.SEGMENT_FORBIDDEN[1:]}"
        )
    if any(len(segment) > profile.SEGMENT_BYTES_MAX for segment in raw.split(b"/")):
        return f"a segment of the {role} is longer than {profile.SEGMENT_BYTES_MAX} bytes"
    return None


def _check(role: str, path: str) -> None:
    if sentence := fault(role, path):
        raise CoordinateError(sentence)
