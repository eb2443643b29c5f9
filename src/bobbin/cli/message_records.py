"""A record in the place of a message: say so where nobody here can vouch for it."""

from typing import TYPE_CHECKING

from bobbin.records.coordinate import Address, Coordinate

if TYPE_CHECKING:
    from bobbin.cli.output import Output
    from bobbin.lace import Lace
    from bobbin.records.record import Record


def warn_unaccepted(out: "Output", lace: "Lace", wanted: Address | Coordinate, record: "Record") -> None:
    """Warn of what was found at the coordinate of a message, and is not the record of one that is proven here."""
    from bobbin.runtime.tangle_records import is_accepted, is_of_messages

    if not isinstance(wanted, Coordinate) or not is_of_messages(wanted):
        return
    if not is_accepted(lace.store, record):
        out.warn(
            f"{record.hash} says what the message of this name says, but nothing here proves that {wanted.group} has "
            f"written it; `bobbin tangle show {lace.path} {wanted.name.rpartition('/')[2]}` looks again"
        )
