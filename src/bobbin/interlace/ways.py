"""What a way to find the difference of two sets of claims has to be able to do.

There are two roles. The responder *tells*: something made from its claims alone. The initiator *finds*: it takes that
together with its own claims, and knows what only one of the two has. What it found is ids, and no proof of anything:
whoever uses it compares count and root when all is done.
"""

from typing import Protocol

from msgspec import Struct

from bobbin.interlace.reconciliation import More, Ranged, Sketched
from bobbin.reconcile import Ids


class Found(Struct, frozen=True, eq=False):
    """What only one side has."""

    missing: Ids
    """Of the peer's claims, those that this side does not have."""
    extra: Ids
    """Of this side's, those that the peer does not have."""


class Unusable(Exception):
    """What was told leads nowhere; its text says why. Both sides go on plainly."""


class Telling(Protocol):
    """The responder's part."""

    def tell(self) -> Sketched | Ranged:
        """What to say first."""
        ...

    def tell_more(self, more: More) -> Sketched | Ranged:
        """What to say when that was not enough. Raises ``Unusable``."""
        ...


class Finding(Protocol):
    """The initiator's part."""

    def hear(self, part: Sketched | Ranged) -> Found | None:
        """What was found; None if it is not enough yet. Raises ``Unusable``."""
        ...

    def ask(self) -> More:
        """How much more is needed. Raises ``Unusable``."""
        ...
