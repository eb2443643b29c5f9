"""What to say when a record is not there: often it is, inside another one."""

from pathlib import Path
from typing import TYPE_CHECKING

from bobbin import profile
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.output import Output, not_found
from bobbin.records.coordinate import Address, Coordinate

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.records.ids import HashText


def record_not_found(
    out: Output, lace: "Lace", wanted: Address | Coordinate, *, also: Path | None = None, asked: str | None = None
) -> ExitCode:
    """Say that a record is not stored, and which stored one holds it, if any does.

    ``also`` is another lace in which a coordinate was looked up; ``asked`` is a peer elsewhere that did not give it.
    """
    gave = "" if asked is None else f", and {asked} gives none"
    if isinstance(wanted, Coordinate):
        where = f"in {lace.path}" if also is None else f"in {lace.path} or in {also}"
        if wanted.app == profile.TANGLE_APP and also is None and next(lace.list(wanted, limit=1), None) is not None:
            gave += f"; what `bobbin list {lace.path} {wanted}` shows there is not the message of this name"
        return not_found(out, f"there is no record at {wanted} {where}{gave}")
    sentence = f"there is no record {wanted.hash} in {lace.path}{gave}"
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
