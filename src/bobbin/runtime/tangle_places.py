"""The places for links of PZP peers that have dialled: how many, whose, and who gives way.

Every key is let in, and keys cost nothing. So a key has a few places, and an address has a share of them; all of this
machine is one address, with a larger share, as at the door of a node (``admission``). Whoever has no call open is of no
use to anybody: where a place is needed, the oldest such link goes, of the address that has most of them. A link with a
call goes only if it has been silent for a while, since a peer whose network failed comes back before this side has
noticed. Links that are alive stay, and the newcomer is refused.

What has come of frames that are not whole is bounded over all links together. Beyond that the link that holds most of
it goes, however alive it is.
"""

from collections import Counter
from typing import Final, Protocol

from msgspec import Struct

from bobbin.errors import BobbinError, ResourceError
from bobbin.runtime.admission import Refusal, refused

_MEBIBYTE: Final = 1024 * 1024
_THIS_MACHINE: Final = "this machine"


class PlaceBounds(Struct, frozen=True, kw_only=True):
    """How much peers that have dialled may take."""

    total_max: int = 256
    """Links in all."""
    per_peer_max: int = 4
    """Links of one key."""
    per_address_max: int = 32
    """Links from one IP address."""
    this_machine_max: int = 192
    """Links from this machine. More, since whatever passes streams on from elsewhere runs here, too."""
    silent_seconds_min: float = 60.0
    """How long a link with a call is silent before another may take its place."""
    unfinished_bytes_max: int = 256 * _MEBIBYTE
    """Of frames that are not whole, over all links."""


class Tenant(Protocol):
    """A link that has a place."""

    @property
    def is_answering(self) -> bool:
        """Whether a call of the peer is open."""
        ...

    @property
    def silent_seconds(self) -> float:
        """How long the peer has been waited for."""
        ...

    @property
    def unfinished_bytes(self) -> int:
        """What waits for the rest of a frame."""
        ...

    def abort(self) -> None:
        """End at once."""
        ...


class Place:
    """What one link has."""

    __slots__ = ("origin", "peer", "tenant", "why")

    def __init__(self, peer: bytes, origin: str, tenant: Tenant) -> None:
        self.peer: Final = peer
        self.origin: Final = origin
        self.tenant: Final = tenant
        self.why: BobbinError | None = None
        """Why it was taken away; None as long as it is not."""


class Places:
    """The links of one node with peers that have dialled."""

    def __init__(self, bounds: PlaceBounds) -> None:
        self._bounds: Final = bounds
        self._taken: Final[dict[Place, None]] = {}
        """In the order in which they came."""

    def __len__(self) -> int:
        return len(self._taken)

    def take(self, peer: bytes, origin: str, tenant: Tenant, *, loopback: bool) -> Place:
        """A place for a link whose peer has proven a key. Raises ``NotAdmitted``; then nobody has lost a place."""
        bounds = self._bounds
        counted = _THIS_MACHINE if loopback else origin
        per_address_max = bounds.this_machine_max if loopback else bounds.per_address_max
        going: dict[Place, BobbinError] = {}
        for refusal, count_max, places in (
            (Refusal.TOO_MANY_PEER, bounds.per_peer_max, [one for one in self._taken if one.peer == peer]),
            (Refusal.TOO_MANY_ADDRESS, per_address_max, [one for one in self._taken if one.origin == counted]),
            (Refusal.TOO_MANY, bounds.total_max, list(self._taken)),
        ):
            staying = [one for one in places if one not in going]
            if len(staying) >= count_max:
                gone = self._first_to_go(staying, refusal)
                going[gone] = refused(refusal, f"it gave way: there were {len(staying)} links, and it was silent")
        for gone, why in going.items():
            self._take_away(gone, why)
        place = Place(peer, counted, tenant)
        self._taken[place] = None
        return place

    def leave(self, place: Place) -> None:
        """The link is over. May be called again."""
        self._taken.pop(place, None)

    def check_unfinished(self) -> None:
        """More of a frame has come on some link."""
        sizes = {place: place.tenant.unfinished_bytes for place in self._taken}
        while sum(sizes.values()) > self._bounds.unfinished_bytes_max:
            most = max(sizes, key=sizes.__getitem__)
            del sizes[most]
            self._take_away(
                most, ResourceError("too much waits for the rest of frames, and most of it here", retry=True)
            )

    def _first_to_go(self, places: list[Place], refusal: Refusal) -> Place:
        """The one of these that gives way to a newcomer. Raises ``NotAdmitted`` where none has to."""
        idle = [place for place in places if not place.tenant.is_answering]
        if idle:
            counts = Counter(place.origin for place in idle)
            return max(idle, key=lambda place: counts[place.origin])
        silent = max(places, key=lambda place: place.tenant.silent_seconds)
        if silent.tenant.silent_seconds < self._bounds.silent_seconds_min:
            raise refused(refusal, f"there are {len(places)} links already, and all of them are alive")
        return silent

    def _take_away(self, place: Place, why: BobbinError) -> None:
        # It no longer counts, however long its end takes.
        self.leave(place)
        place.why = why
        place.tenant.abort()
