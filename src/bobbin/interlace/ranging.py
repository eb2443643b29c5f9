"""Finding the difference where it is recent: by what the older claims of both sides add up to (``reconcile.Ordered``).

The initiator says for some moments what its older claims add up to. The responder finds the youngest of them before
which its own add up to the same, and tells the ids of everything from there on. All claims of one moment are on the
same side of it. Claims without a moment are the oldest.
"""

from typing import Final

import numpy as np

from bobbin.interlace.choice import ID_BYTES
from bobbin.interlace.claim_index import Keyed
from bobbin.interlace.reconciliation import Cut, More, Ranged, Sketched
from bobbin.interlace.ways import Found, Unusable
from bobbin.reconcile import Ids, Interval
from bobbin.reconcile.ranges import KEY_MAX
from bobbin.reconcile.short_ids import find

_STRETCHES: Final = tuple(2**power for power in range(14, 6, -1))
"""The youngest so many claims: where the cuts are made."""


def cuts_of(keyed: Keyed) -> tuple[Cut, ...]:
    """What the claims before some moments add up to, by moment."""
    ordered = keyed.ordered()
    younger = ordered.recent(_STRETCHES)[1:]
    return tuple(
        Cut(moment=one.low, sum=ordered.fingerprint(Interval(0, one.low - 1)).sum) for one in younger if one.low
    )


def recent_from(keyed: Keyed, cuts: tuple[Cut, ...]) -> int | None:
    """The youngest of some moments before which the own claims add up to the same; None if there is none."""
    ordered = keyed.ordered()
    # The oldest first: what is sorted for it serves all others.
    oldest = min((cut.moment for cut in cuts if cut.moment), default=KEY_MAX)
    ordered.fingerprint(Interval(oldest))
    for cut in reversed(cuts):
        if cut.moment and ordered.fingerprint(Interval(0, cut.moment - 1)).sum == cut.sum:
            return cut.moment
    return None


def count_from(keyed: Keyed, moment: int) -> int:
    """How many claims are of a moment or later."""
    return keyed.ordered().fingerprint(Interval(moment)).count


class RangeTelling:
    """The responder's stretch."""

    def __init__(self, keyed: Keyed, moment: int) -> None:
        self._keyed: Final = keyed
        self._moment: Final = moment

    def tell(self) -> Ranged:
        """The ids of the stretch."""
        return Ranged(moment=self._moment, ids=ids_bytes(self._keyed.ordered().ids(Interval(self._moment))))

    def tell_more(self, more: More) -> Ranged:
        """A stretch is told whole."""
        raise Unusable(f"{more.symbols} symbols were asked for where a stretch was told")


class RangeFinding:
    """What the initiator makes of it."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed: Final = keyed

    def hear(self, part: Sketched | Ranged) -> Found | None:
        """Compare with the own stretch."""
        if not isinstance(part, Ranged):
            raise Unusable("symbols came where a stretch was told")
        theirs, ours = ids_of(part.ids), self._keyed.ordered().ids(Interval(part.moment))
        missing = np.setdiff1d(theirs, ours)
        if len(find(self._keyed.ids, missing)):
            raise Unusable("a stretch has ids of claims that are older than it")
        return Found(missing, np.setdiff1d(ours, theirs))

    def ask(self) -> More:
        """A stretch is told whole."""
        raise Unusable("a stretch was not enough")


def ids_bytes(ids: Ids) -> bytes:
    """Short ids as they are told: eight bytes each, little end first."""
    return ids.astype("<u8").tobytes()


def ids_of(raw: bytes) -> Ids:
    """The short ids that were told."""
    if len(raw) % ID_BYTES:
        raise Unusable(f"{len(raw)} bytes are no whole number of short ids")
    return np.frombuffer(raw, "<u8").astype(np.uint64)
