"""What two sides say to each other about their claims as a whole: the parts of blocks that need the capability.

One such part stands in a block at most. The two sides take turns: each part is an answer to what was said before, and
whoever has nothing to say sends a block without one (``dialogue``). All of it is made from what a side offers, or from
what the other has told: nothing else shows in a count, a root, a counter, a symbol or an id.

=============  ======================================================================================================
``Standing``   how many claims, and their root; what is held of the peer's
``Probe``      what the initiator's claims look like: counters, and what its older stretches add up to
``Sketched``   symbols of the responder's claims
``Ranged``     the short ids of the responder's claims from some moment on
``More``       the symbols were too few
``Lacking``    short ids of the responder's claims that the initiator lacks; the records of the block are the others
``Supplied``   the records of the block are those that were lacking
``Changed``    what has come and gone since what the peer holds; the records of the block came too
``Compared``   what the peer offers and this side does not; the records of the block are what only this side offers
``Plain``      the block opens what follows in the way of Lace-050: listing or partitions
``Fallback``   it did not work; both sides go on plainly
=============  ======================================================================================================
"""

from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.interlace.choice import Strategy

HELD_BYTES: Final = 16
"""Of a root: enough to tell whether it is the same."""
NAME_SYMBOLS: Final = 11
"""Of the digest text of a record: 66 bits, enough to tell it from all others that are offered."""


class Standing(Struct, frozen=True, kw_only=True):
    """One side's claims as a whole."""

    count: int
    root: bytes
    held: bytes
    """The beginning of the root of what this side holds of the peer's claims."""
    wish: Strategy = Strategy.AUTO


class Cut(Struct, frozen=True, kw_only=True):
    """What the claims that are older than a moment add up to."""

    moment: int
    sum: int


class Probe(Struct, frozen=True, kw_only=True):
    """What a side's claims look like under the key of the link."""

    bulk: bytes
    """``reconcile.Bulk``, encoded."""
    cuts: tuple[Cut, ...]
    """By moment, ascending."""


class Sketched(Struct, frozen=True, kw_only=True):
    """The next symbols of a stream."""

    first: int
    raw: bytes
    """``reconcile.Symbols``, encoded."""


class Ranged(Struct, frozen=True, kw_only=True):
    """The ids of all claims of a moment or later."""

    moment: int
    ids: bytes
    """Eight bytes each, little end first."""


class More(Struct, frozen=True, kw_only=True):
    """So many further symbols are wanted."""

    symbols: int


class Lacking(Struct, frozen=True, kw_only=True):
    """What this side offers is what the peer offers, without these and with the records of the block."""

    ids: bytes


class Supplied(Struct, frozen=True, kw_only=True):
    """The records of the block are those whose ids were lacking."""


class Changed(Struct, frozen=True, kw_only=True):
    """What this side offers is what the peer holds of it, without some, with others and with the records of the block.

    Records are named by the beginning of their digest text.
    """

    added: tuple[str, ...] = ()
    """What the peer offers too, with the same fields."""
    removed: tuple[str, ...] = ()


class Compared(Struct, frozen=True, kw_only=True):
    """What this side offers is what the peer offers, without these and with the records of the block."""

    removed: tuple[str, ...] = ()


class Plain(Struct, frozen=True, kw_only=True):
    """The rest of the block is a first block of the plain way, and complete."""

    root: bytes | None = None
    """After a fallback: that of what is offered, where the one of the standing was not true."""


class Fallback(Struct, frozen=True, kw_only=True):
    """What was said last is of no use. The next block of either side is ``Plain``."""

    why: str


Part: TypeAlias = (
    Standing | Probe | Sketched | Ranged | More | Lacking | Supplied | Changed | Compared | Plain | Fallback
)
