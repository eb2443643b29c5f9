"""Whether bytes are the beginning of a record that was cut off inside its headers.

The salvage of a damaged bundle asks this where a Seal begins before the headers of a record have ended. If all before
it reads as the lines of a record, each in its place, then the record was cut off and the Seal is the next one. If
anything else stands there, then it may be what is left of a whole header section, and the Seal may be data.

Every whole line must be as a valid record has it. The last line may stop anywhere, but it must be short where any text
would do: shorter than the smallest header section, so that none can be hidden in it.
"""

import codecs
import re
from typing import Final

from bobbin import profile
from bobbin.records import b64a, tai
from bobbin.records.canonical import MARK, MARKLINE_SIZE, is_canonical_text

HEADERS_BYTES_MIN: Final = MARKLINE_SIZE + len("Data-Length: 0\n\n")
"""The smallest header section: that of a Blob. Fewer damaged bytes than these hide no beginning of data."""

_SYMBOLS: Final = b64a.PATTERN + rb"{43}"
_DIGEST: Final = rb"\." + _SYMBOLS + rb"\.H3"
_DIGEST_PART: Final = rb"(?:\.(?:" + b64a.PATTERN + rb"{0,43}|" + _SYMBOLS + rb"\.(?:H3?)?))?"
_TEXT: Final = rb"(?! )[^\x00-\x1f\x7f]+"
_TEXT_PART: Final = rb"[^\x00-\x1f\x7f]{0,%d}" % (HEADERS_BYTES_MIN - 1)
_EXTRA: Final = re.compile(rb"([^\x00-\x20\x7f:]+): " + _TEXT)
_EXTRA_PART: Final = re.compile(_TEXT_PART)

_LINES: Final = tuple(
    (opening, re.compile(whole), re.compile(part))
    for opening, whole, part in (
        (MARK + b": S", _DIGEST, _DIGEST_PART),
        (b"Signed-By: V", _DIGEST, _DIGEST_PART),
        (b"Signature: ", b64a.PATTERN + rb"{86}", b64a.PATTERN + rb"{0,86}"),
        (MARK + b": P", _DIGEST, _DIGEST_PART),
        (b"Group: ", _TEXT, _TEXT_PART),
        (b"App: ", _TEXT, _TEXT_PART),
        (b"Name: ", _TEXT, _TEXT_PART),
        (b"TAI: ", tai.PATTERN, rb"[0-9:]{0,20}"),
        (MARK + b": B", _DIGEST, _DIGEST_PART),
        (b"Data-Length: ", rb"(?!)", rb"[0-9]{0,8}"),
    )
)
"""The lines of a record in order: how each opens, the rest of a whole one, and of one that is cut off.

A whole ``Data-Length`` line is never allowed: the data may begin after it."""

_PLEX, _BLOB = 3, 8
"""Where in ``_LINES`` the kinds begin. Extra headers stand before the Blob's markline."""


def is_cut_off(head: bytes) -> bool:
    """Whether ``head`` is the beginning of a record, and ends before its ``Data-Length`` line does."""
    lines = head.split(b"\n", len(_LINES) + profile.EXTRA_HEADERS_MAX)
    last = lines.pop()
    step = next((kind for kind in (0, _PLEX, _BLOB) if _opens(kind, lines[0] if lines else last)), len(_LINES))
    extra = b""
    for line in lines:
        if len(line) > profile.HEADER_LINE_BYTES_MAX or not is_canonical_text(line) or step == len(_LINES):
            return False
        opening, whole, _ = _LINES[step]
        if line.startswith(opening) and whole.fullmatch(line, len(opening)):
            step += 1
            continue
        match = _EXTRA.fullmatch(line)
        if step != _BLOB or line is lines[0] or not match or not _may_follow(extra, match[1]):
            return False
        extra = match[1]
    if step == len(_LINES) or not _is_text(last):
        return False
    opening, _, part = _LINES[step]
    if opening.startswith(last) or (last.startswith(opening) and part.fullmatch(last, len(opening))):
        return True
    return step == _BLOB and bool(lines) and not last.startswith(MARK) and _EXTRA_PART.fullmatch(last) is not None


def _opens(kind: int, line: bytes) -> bool:
    opening = _LINES[kind][0]
    return line.startswith(opening) or opening.startswith(line)


def _may_follow(before: bytes, name: bytes) -> bool:
    """Whether an extra header of this name may stand after one of the name ``before``."""
    text = name.decode()
    if text in profile.RESERVED_HEADERS or text.startswith(profile.RESERVED_HEADER_PREFIXES):
        return False
    return before <= name or not profile.EXTRA_HEADERS_SORTED


def _is_text(line: bytes) -> bool:
    """Whether a line is UTF-8, save that its last character may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(line)
    except UnicodeDecodeError:
        return False
    return True
