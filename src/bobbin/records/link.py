"""Record links: headers by which one record names another.

A header whose name ends in ``+Link`` and whose value is ``<data> <target>``, split at the last space, is a link. A
header of that name with another shape is an ordinary header. Targets of an unsupported suffix are kept unchecked,
since a link may name a record that only another implementation can read.
"""

import re
from typing import Final

from msgspec import Struct

from bobbin.records import ids

NAME_SUFFIX: Final = "+Link"
_TARGET: Final = re.compile(r"([BPS])\.([0-9A-Z_a-z~]+)\.([A-Z][A-Z0-9]*)", re.ASCII)


class Link(Struct, frozen=True, kw_only=True):
    """What one link header says: author's words about the link, and the hash text that it names."""

    data: str
    target: str


def parse(name: str, value: str) -> Link | None:
    """The link that a header makes, or None when the header is not a well-formed link."""
    if not name.endswith(NAME_SUFFIX):
        return None
    data, space, target = value.rpartition(" ")
    match = _TARGET.fullmatch(target)
    if not space or not data or match is None:
        return None
    if match[3] == ids.SUFFIX:
        try:
            ids.parse_hash(target)
        except ids.IdentifierError:
            return None
    return Link(data=data, target=target)
