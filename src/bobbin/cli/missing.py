"""What to say when a record is not there: often it is, inside another one."""

from typing import TYPE_CHECKING

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.output import Output, not_found
from bobbin.records.coordinate import Address, Coordinate

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.records.ids import HashText


def record_not_found(out: Output, lace: "Lace", wanted: Address | Coordinate) -> ExitCode:
    """Say that a record is not stored, and which stored one holds it, if any does."""
    if isinstance(wanted, Coordinate):
        return not_found(out, f"there is no record at {wanted} in {lace.path}")
    sentence = f"there is no record {wanted.hash} in {lace.path}"
    holder = _holder(lace, wanted.hash)
    if holder is None:
        return not_found(out, f"{sentence} (a hash has no checksum: with one wrong symbol it names another record)")
    return not_found(out, f"{sentence}; it is not stored by itself, but inside {holder}")


def _holder(lace: "Lace", inner: "HashText") -> str | None:
    from bobbin.facts.relations import BLOB_HASH, PLEX_HASH

    for predicate in (PLEX_HASH, BLOB_HASH):
        for outer, _ in lace.facts.match(predicate, (None, inner)):
            return outer
    return None
