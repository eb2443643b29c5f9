"""Whether bytes are the beginning of a record that was cut off inside its headers.

The salvage of a damaged bundle asks this where a Seal begins before the headers of a record have ended. If all before
it reads as the lines of a record, each in its place, then the record was cut off and the Seal is the next one. If
anything else stands there, then it may be what is left of a whole header section, and the Seal may be data.

Every whole line must be as a valid record has it. The last line may stop anywhere, but it must be short where any text
would do: shorter than the smallest header section, so that none can be hidden in it.
"""

import re
from typing import Final

from bobbin import profile
from bobbin.records import b64a, tai
from bobbin.records.canonical import MARK, MARKLINE_SIZE, is_canonical_text

HEADERS_BYTES_MIN: Final = MARKLINE_SIZE + len("Data-Length: 0\n\n")
"""The smallest header section: that of a Blob. Fewer damaged bytes than these hide no beginning of data."""

_HASH: Final = rb"[BPSV]\." + b64a.PATTERN + rb"{43}\.H3"
_HASH_PART: Final = rb"(?:[BPSV](?:\.(?:" + b64a.PATTERN + rb"{0,43}|" + b64a.PATTERN + rb"{43}\.(?:H3?)?))?)?"
_TEXT: Final = rb"(?! )[^\x00-\x1f\x7f]+"
_TEXT_PART: Final = rb"[^\x00-\x1f\x7f]{0,%d}" % (HEADERS_BYTES_MIN - 1)
_NAME: Final = re.compile(rb"[^\x00-\x20\x7f:]+(?=: " + _TEXT + rb"\Z)")

_LINES: Final = tuple(
    (opening, re.compile(whole), re.compile(part))
    for opening, whole, part in (
        (MARK + b": S", _HASH[6:], _HASH_PART),
        (b"Signed-By: ", _HASH, _HASH_PART),
        (b"Signature: ", b64a.PATTERN + rb"{86}", b64a.PATTERN + rb"{0,86}"),
        (MARK + b": P", _HASH[6:], _HASH_PART),
        (b"Group: ", _TEXT, _TEXT_PART),
        (b"App: ", _TEXT, _TEXT_PART),
        (b"Name: ", _TEXT, _TEXT_PART),
        (b"TAI: ", tai.PATTERN, rb"[0-9:]{0,20}"),
        (MARK + b": B", _HASH[6:], _HASH_PART),
        (b"Data-Length: ", rb"(?!)", rb"[0-9]{0,8}"),
    )
)
