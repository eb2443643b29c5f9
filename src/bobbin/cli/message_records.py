"""Records that may be messages: taken in when they have come, and told of where nobody here can vouch for them."""

from contextlib import suppress
from typing import TYPE_CHECKING

from bobbin import profile
from bobbin.records.coordinate import Address, Coordinate

if TYPE_CHECKING:
    from bobbin.cli.output import Output
    from bobbin.lace import Lace
    from bobbin.records.record import Record


def take_in(lace: "Lace") -> None:
    """Let records that have come become messages, or wait to be, if they are messages in form.

    Where the store is not to be had right now, the next command that looks at tangles does it.
    """
    from bobbin.facts.relations import FIELD
    from bobbin.store.base import StoreError

    if getattr(lace.store, "tangles", None) is None:
        return
    if next(iter(lace.facts.match(FIELD, (None, "App", None, profile.TANGLE_APP))), None) is not None:
        with suppress(StoreError):
            lace.tangles.refresh()


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
