"""The phases of a machine, and which message may come in each of them (Lace-050, drivers).

The table is the protocol: a message of the peer that its row does not name aborts the round, and the diagram in the
documentation is drawn from it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bobbin.interlace.messages import Advertise, Hello, Message, Request, Setup, Transfer


class Phase(StrEnum):
    """Where a machine stands."""

    READY = "ready"
    """The link is not up yet."""
    SETUP = "setup"
    """Our operand is sent."""
    HELLO = "hello"
    """Our hello is sent."""
    ADVERTISE = "advertise"
    """Our block is sent."""
    REQUEST = "request"
    """Our request list is sent."""
    TRANSFER = "transfer"
    """Requests of either side are being answered."""
    IDLE = "idle"
    """At a fixed point, and staying."""
    SETUP_AGAIN = "setup-again"
    """Our new operand is sent from the loop; a block of the old epoch may still be on its way."""
    ENDING = "ending"
    """Nothing more is said; received bytes are still being stored."""
    ENDED = "ended"


class Awaits(StrEnum):
    """What a decoder has to expect. The text of some messages can be told apart only by their phase."""

    SETUP = "setup"
    HELLO = "hello"
    ADVERTISE = "advertise"
    """Or a new setup, instead of the first block of an iteration."""
    REQUEST = "request"
    TRANSFER = "transfer"
    NOTHING = "nothing"
    """Do not decode anything now: this side has something to finish first."""


AWAITS: Final[Mapping[Phase, Awaits]] = MappingProxyType(
    {
        Phase.READY: Awaits.NOTHING,
        Phase.SETUP: Awaits.SETUP,
        Phase.HELLO: Awaits.HELLO,
        Phase.ADVERTISE: Awaits.ADVERTISE,
        Phase.REQUEST: Awaits.REQUEST,
        Phase.TRANSFER: Awaits.TRANSFER,
        Phase.IDLE: Awaits.ADVERTISE,
        Phase.SETUP_AGAIN: Awaits.ADVERTISE,
        Phase.ENDING: Awaits.NOTHING,
        Phase.ENDED: Awaits.NOTHING,
    }
)

MAY_COME: Final[Mapping[Phase, tuple[type[Message], ...]]] = MappingProxyType(
    {
        Phase.READY: (),
        Phase.SETUP: (Setup,),
        Phase.HELLO: (Hello,),
        Phase.ADVERTISE: (Advertise, Setup),
        Phase.REQUEST: (Request,),
        Phase.TRANSFER: (Transfer,),
        Phase.IDLE: (Advertise, Setup),
        Phase.SETUP_AGAIN: (Advertise, Setup),
        Phase.ENDING: (),
        Phase.ENDED: (),
    }
)

NEXT: Final[Mapping[Phase, tuple[Phase, ...]]] = MappingProxyType(
    {
        Phase.READY: (Phase.SETUP,),
        Phase.SETUP: (Phase.HELLO,),
        Phase.HELLO: (Phase.HELLO, Phase.ADVERTISE, Phase.SETUP_AGAIN),
        Phase.ADVERTISE: (Phase.ADVERTISE, Phase.REQUEST, Phase.IDLE, Phase.HELLO, Phase.SETUP_AGAIN),
        Phase.REQUEST: (Phase.TRANSFER, Phase.ADVERTISE, Phase.SETUP_AGAIN),
        Phase.TRANSFER: (Phase.ADVERTISE, Phase.SETUP_AGAIN),
        Phase.IDLE: (Phase.ADVERTISE, Phase.HELLO, Phase.SETUP_AGAIN),
        Phase.SETUP_AGAIN: (Phase.HELLO,),
        Phase.ENDING: (),
        Phase.ENDED: (),
    }
)
"""Besides these, every phase but the last can end: in ``ENDING`` while something is being stored, else in ``ENDED``."""


def may_follow(old: Phase, new: Phase) -> bool:
    """Whether a machine may go from one phase to another."""
    if new is Phase.ENDED:
        return old is not Phase.ENDED
    return new in NEXT[old] or (new is Phase.ENDING and old not in (Phase.ENDING, Phase.ENDED))
