"""The one record that a command acts upon: by its hash, or by a coordinate that leaves no doubt.

Reading may take the newest record of a coordinate; removing and signing may not guess.
"""

from itertools import islice
from typing import TYPE_CHECKING, Final

from bobbin.errors import UsageError
from bobbin.records.coordinate import Address, Coordinate
from bobbin.records.ids import HashText, Kind, parse_hash

if TYPE_CHECKING:
    from bobbin.lace import Lace

_SHOWN_MAX: Final = 5


def one_record(lace: "Lace", wanted: Address | Coordinate, *, kind: Kind | None = None) -> HashText | None:
    """The hash that a text means, None where nothing is stored at the coordinate. Several records are an error.

    With ``kind``, only records of that kind are looked at. Whether the record of a hash is stored is not asked.
    """
    if isinstance(wanted, Address):
        return wanted.hash
    hashes = (listed.hash for listed in lace.list(wanted) if kind is None or parse_hash(listed.hash)[0] is kind)
    found = list(islice(hashes, _SHOWN_MAX + 1))
    if len(found) > 1:
        what = "records" if kind is None else "Plexes"
        shown = [*found[:_SHOWN_MAX], *(["…"] if len(found) > _SHOWN_MAX else [])]
        lines = "".join(f"\n  {text}" for text in shown)
        raise UsageError(f"{wanted} has several {what}, the newest first; name one by its hash:{lines}")
    return found[0] if found else None
