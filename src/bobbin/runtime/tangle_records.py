"""Records in the place of messages: which one is meant, where anybody can write others there.

The Plex of a message stands at ``//account//pzp//domain/id``, and its time is its depth, long ago. Nothing keeps others
from writing newer records there, and exchanges bring them. What tells the one from the others:

* the record of a message that is held and proven here is known to the tangles (``is_accepted``), and a listing of the
  store puts it first;
* of a message that is not held, the name of the place holds the id, which covers metadata and data. So a record that
  is, byte for byte, the Plex of the message that its place names says what that message says, whoever has signed it
  (``says_its_name``). Whether the account has really said so is another question, and not answered.

Anything else in such a place is no message.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bobbin import profile
from bobbin.records.coordinate import Coordinate
from bobbin.records.ids import HashText
from bobbin.records.record import Plex, Record, Seal
from bobbin.store.base import Store

if TYPE_CHECKING:
    from bobbin.store.tangles import TangleTables

PLACE_RECORDS_MAX: Final = 256
"""Records in the place of a message that are read to find the one of the message."""


def meant(store: Store, place: Coordinate, load: Callable[[HashText], Record | None]) -> Record | None:
    """The record that is meant by its coordinate: the newest, or, in the place of a message, that of the message.

    Of a message that is proven here it comes first in the listing, so nothing hides it. Of any other, it is looked for
    among the newest ``PLACE_RECORDS_MAX`` records; where it is none of them, nothing is found.
    """
    listed = store.list(place, tips=not is_of_messages(place), limit=PLACE_RECORDS_MAX)
    records = (load(one.hash) for one in listed)
    return next((record for record in records if record is None or is_meant(place, record)), None)


def is_of_messages(place: Coordinate) -> bool:
    """Whether a place is one where records of messages stand."""
    return place.app == profile.TANGLE_APP


def is_meant(place: Coordinate, record: Record) -> bool:
    """Whether a record may be taken for what stands at its coordinate. In the place of a message, not any may."""
    return not is_of_messages(place) or says_its_name(record)


def says_its_name(record: Record) -> bool:
    """Whether a record is the Plex of the message that its place names, or a Seal of that, with the data it names."""
    from bobbin.tangles.errors import InvalidMessage  # noqa: PLC0415 -- most records are no messages
    from bobbin.tangles.plex import message_of  # noqa: PLC0415 -- as above
    from bobbin.tangles.validation import check_data  # noqa: PLC0415 -- as above

    plex = record.inner() if isinstance(record, Seal) else record
    message = message_of(plex) if isinstance(plex, Plex) else None
    if message is None:
        return False
    try:
        check_data(message)
    except InvalidMessage:
        return False
    return True


def is_accepted(store: Store, record: Record) -> bool:
    """Whether a record is the one of a message that is held here and proven."""
    from bobbin.tangles.message import decode  # noqa: PLC0415 -- as above
    from bobbin.tangles.plex import message_of, plex_of  # noqa: PLC0415 -- as above

    tables: TangleTables | None = getattr(store, "tangles", None)
    message = message_of(record) if isinstance(record, Plex) else None
    if tables is None or message is None:
        return False
    with tables.reading() as view:
        held = view.find((message.id,)).get(message.id)
    if held is None or held.record is None:
        return False
    derived = plex_of(decode(held.raw))
    return derived is not None and derived.hash == record.hash
