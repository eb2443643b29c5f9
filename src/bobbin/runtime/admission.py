"""Who may have a link, how many, and how fast: the door of a node.

A link passes the door twice. When its stream comes up, nothing is known but where it comes from: there are bounds on
links in all, on links per address, on new links per address and minute, and on streams whose peer has not said who it
is. When the peer has proven itself (or has not), the roster decides, and there is a bound on links per peer.

Whoever has not said who it is cannot keep others from saying it. When there is no place for another such stream, the
newcomer gets one all the same, and the oldest stream of the origin that has most of them goes. One origin has a share
of these places; all of this machine is one origin, with a larger share.

A known peer that has all its links and opens another gets it, in place of the one that has been silent longest, if that
one has been silent for a while. A peer whose network failed comes back before this side has noticed, and must not be
locked out by its own dead link; but links that are alive do not give way, or a peer with one too many would replace its
own links for ever. Without proof there is no telling whose link would be taken away, so an unproven peer beyond the
bound is refused.

Everything here is computed from what is passed in, the time included. Memory is bounded: addresses are forgotten when
their rate is as good as new, and beyond ``ADDRESSES_MAX`` of them all new ones share one rate.
"""

from collections import Counter, OrderedDict
from enum import StrEnum
from typing import Final, Protocol

from bobbin.interlace.limits import SECOND_NS
from bobbin.records.ids import Verifier
from bobbin.runtime.introduction import Introduction, NotAdmitted
from bobbin.runtime.node_settings import LinkBounds
from bobbin.runtime.roster import KnownPeer, Roster

MINUTE_NS: Final = 60 * SECOND_NS
ADDRESSES_MAX: Final = 4_096
"""Addresses whose rates are counted one by one."""
_SHARE: Final = 1, 8
"""Of the streams that have not said who they are, one address has at most this part."""
_SHARE_OF_THIS_MACHINE: Final = 3, 4
"""More, since whatever passes streams on from elsewhere to this node runs on this machine, too."""
_THIS_MACHINE: Final = "this machine"
_OTHERS: Final = "others"
_UNPROVEN: Final = "unproven"


class Refusal(StrEnum):
    """Why a link was not let in. It is the label of a metric, a word in the log and in the status.

    A greeting that fails has the code of its own error: of ``introduction.Refusal``, or of ``interlace.reasons``.
    """

    STOPPING = "node-stopping"
    TOO_MANY = "too-many-links"
    TOO_MANY_ADDRESS = "too-many-links-of-address"
    TOO_FAST_ADDRESS = "too-many-new-links-of-address"
    TOO_MANY_INTRODUCING = "too-many-introductions"
    """It had not said who it is, and gave way to another stream."""
    TOO_MANY_PEER = "too-many-links-of-peer"
    """The peer has all its links, and none of them has been silent for long."""
    TOO_MANY_ANONYMOUS = "too-many-anonymous-links"
    NO_PROOF = "no-proof"
    """The peer proved nothing, or nothing that counts on this route, and there are no terms for such peers."""
    UNKNOWN_KEY = "unknown-key"
    NOT_SERVED = "peer-not-served"
    """The key is known, and its links are not taken."""
    INSECURE = "insecure-route"
    """Off this machine a link is encrypted and its peer proven, unless the settings say otherwise."""
    WRONG_PEER = "wrong-peer"
    """Another key answers than the one that belongs to the dialled peer."""


class Bucket:
    """Lets so many through at once, and so many a minute after that."""

    __slots__ = ("_at_ns", "_burst", "_left", "_per_ns")

    def __init__(self, *, per_minute: int, burst: int, now_ns: int) -> None:
        self._per_ns: Final = per_minute / MINUTE_NS
        self._burst: Final = burst
        self._left: float = burst
        self._at_ns = now_ns

    def take(self, now_ns: int) -> bool:
        """Whether one more may pass now; if so, it has."""
        self._refill(now_ns)
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def charge(self, now_ns: int, count: int) -> None:
        """So many have passed, whether there was room for them or not. Nobody owes more than a whole burst."""
        self._refill(now_ns)
        self._left = max(self._left - count, -float(self._burst))

    def delay_ns(self, now_ns: int) -> int:
        """How long the next one has to wait until there is room for it."""
        self._refill(now_ns)
        return 0 if self._left >= 1.0 else int((1.0 - self._left) / self._per_ns) + 1

    def is_full(self, now_ns: int) -> bool:
        """Whether nothing is remembered here that a new one would not know."""
        self._refill(now_ns)
        return self._left >= self._burst

    def _refill(self, now_ns: int) -> None:
        # The clock only goes forward. Should it not, nothing is given and nothing is lost.
        passed = max(now_ns - self._at_ns, 0)
        self._at_ns = max(now_ns, self._at_ns)
        self._left = min(float(self._burst), self._left + passed * self._per_ns)


class Visitor(Protocol):
    """A stream that has a place, and has not said who it is."""

    def give_way(self) -> None:
        """End now, without having been let in: the place is another's."""
        ...


class Tenant(Protocol):
    """A link that has been let in."""

    @property
    def heard_ns(self) -> int:
        """When the peer last said anything, by a clock that only goes forward."""
        ...

    def make_room(self) -> None:
        """End soon: another link of the same peer has come."""
        ...


class Place:
    """One link's place among the links of a node, from the moment that its stream is up or dialled."""

    __slots__ = ("number", "origin", "owner", "tenant", "visitor")

    def __init__(self, *, number: int, origin: str | None) -> None:
        self.number: Final = number
        """Counts up: the oldest has the least."""
        self.origin: Final = origin
        """The address that bounds count it for, or ``_THIS_MACHINE``; None for one that this node dialled."""
        self.visitor: Visitor | None = None
        """Who has to go if the place is needed before anybody is let in."""
        self.owner: str | None = None
        """The peer that it counts for; None as long as nobody has been let in."""
        self.tenant: Tenant | None = None
        """Who was let in."""

    @property
    def is_introducing(self) -> bool:
        """Whether somebody else opened it and has not been let in yet."""
        return self.owner is None and not self.dialled

    @property
    def dialled(self) -> bool:
        return self.origin is None


class Door:
    """Counts the links of one node, and says who may come in."""

    def __init__(self, bounds: LinkBounds, *, allow_insecure: bool = False) -> None:
        self.bounds = bounds
        self.allow_insecure = allow_insecure
        self.is_closed = False
        """Set when the node stops: nobody comes in any more."""
        self._places: Final[set[Place]] = set()
        self._numbers = 0
        self._rates: Final[OrderedDict[str, Bucket]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    def change(self, bounds: LinkBounds, *, allow_insecure: bool) -> None:
        """From now on these hold. Links that are up stay."""
        self.bounds, self.allow_insecure = bounds, allow_insecure
        self._rates.clear()

    def knock(self, origin: str, *, loopback: bool, now_ns: int) -> Place | Refusal:
        """Somebody has opened a stream from ``origin``. A place, or why there is none.

        Whoever gets it sets ``visitor`` before anybody else can knock.
        """
        bounds = self.bounds
        if self.is_closed:
            return Refusal.STOPPING
        if not loopback:
            if not self._rate(origin, now_ns).take(now_ns):
                return Refusal.TOO_FAST_ADDRESS
            if sum(place.origin == origin for place in self._places) >= bounds.per_address_max:
                return Refusal.TOO_MANY_ADDRESS
        part, whole = _SHARE_OF_THIS_MACHINE if loopback else _SHARE
        counted = _THIS_MACHINE if loopback else origin
        introducing = self._introducing()
        here = [place for place in introducing if place.origin == counted]
        if len(here) >= max(bounds.introducing_max * part // whole, 1):
            self._send_away(here[0])
        elif len(introducing) >= bounds.introducing_max:
            self._send_away(_most_crowded(introducing))
        elif len(self._places) >= bounds.total_max:
            if not introducing:
                return Refusal.TOO_MANY
            self._send_away(_most_crowded(introducing))
        return self._take(counted)

    def dial(self) -> Place | Refusal:
        """This node is about to dial a peer. A place, or why there is none."""
        if self.is_closed:
            return Refusal.STOPPING
        if len(self._places) >= self.bounds.total_max:
            introducing = self._introducing()
            if not introducing:
                return Refusal.TOO_MANY
            self._send_away(_most_crowded(introducing))
        return self._take(None)

    def admit(
        self, place: Place, introduction: Introduction, roster: Roster, tenant: Tenant, *, now_ns: int
    ) -> KnownPeer:
        """The terms for the peer of a stream that it opened; raises ``NotAdmitted``."""
        if place not in self._places:
            raise refused(Refusal.TOO_MANY_INTRODUCING, "its place has been given to another stream")
        peer = introduction.peer
        known = roster.anonymous if peer is None else roster.find(peer)
        if known is None and peer is None:
            raise refused(Refusal.NO_PROOF, "the peer has proven nothing, and there are no terms for such peers")
        if known is None:
            raise refused(Refusal.UNKNOWN_KEY, f"the key {peer} is not known here")
        if not known.admit:
            raise refused(Refusal.NOT_SERVED, f"links of {known.name} are not taken")
        self._check_route(introduction)
        self._own(place, peer, tenant, now_ns)
        return known

    def admit_dialled(self, place: Place, introduction: Introduction, wanted: KnownPeer, tenant: Tenant) -> KnownPeer:
        """The same for a peer that this node has dialled: it must be the one that was wanted."""
        if wanted.verifier is not None and introduction.peer != wanted.verifier:
            found = "nobody has proven anything" if introduction.peer is None else f"{introduction.peer} answers"
            raise refused(Refusal.WRONG_PEER, f"{wanted.name} has the key {wanted.verifier}, and {found}")
        self._check_route(introduction)
        route = introduction.route
        if wanted.verifier is None and not (route.loopback or route.verified or self.allow_insecure):
            raise refused(Refusal.INSECURE, f"neither a key nor a certificate says that this is {wanted.name}")
        # What this node dials it wants, so only what peers open counts against them.
        place.owner, place.tenant = _owner(introduction.peer), tenant
        return wanted

    def leave(self, place: Place) -> None:
        """The link is over. May be called again."""
        self._places.discard(place)

    def _check_route(self, introduction: Introduction) -> None:
        if introduction.route.loopback or self.allow_insecure:
            return
        if not introduction.encrypted or introduction.peer is None:
            detail = "off this machine a link is encrypted and its peer proven; allow_insecure lifts this"
            raise refused(Refusal.INSECURE, detail)

    def _own(self, place: Place, peer: Verifier | None, tenant: Tenant, now_ns: int) -> None:
        assert place.owner is None, "a link is let in once"
        owner = _owner(peer)
        others = [one for one in self._places if one.owner == owner and not one.dialled]
        if peer is None and len(others) >= self.bounds.anonymous_max:
            raise refused(Refusal.TOO_MANY_ANONYMOUS, f"there are {len(others)} links without proof already")
        if peer is not None and len(others) >= self.bounds.per_peer_max:
            self._replace_silent([(one, one.tenant) for one in others if one.tenant is not None], now_ns)
        place.owner, place.tenant = owner, tenant

    def _replace_silent(self, others: list[tuple[Place, Tenant]], now_ns: int) -> None:
        """Take the place of the link that has been silent longest, if it may be dead."""
        place, silent = min(others, key=lambda one: one[1].heard_ns)
        if now_ns - silent.heard_ns < self.bounds.silent_seconds_min * SECOND_NS:
            raise refused(Refusal.TOO_MANY_PEER, f"the peer has {len(others)} links already, and all of them are alive")
        # It no longer counts, however long its end takes.
        self.leave(place)
        silent.make_room()

    def _introducing(self) -> list[Place]:
        """Streams that have not said who they are, the oldest first."""
        return sorted((place for place in self._places if place.is_introducing), key=lambda place: place.number)

    def _send_away(self, place: Place) -> None:
        self.leave(place)
        if place.visitor is not None:
            place.visitor.give_way()

    def _take(self, origin: str | None) -> Place:
        self._numbers += 1
        place = Place(number=self._numbers, origin=origin)
        self._places.add(place)
        return place

    def _rate(self, origin: str, now_ns: int) -> Bucket:
        rate = self._rates.get(origin)
        if rate is not None:
            self._rates.move_to_end(origin)
            return rate
        while self._rates and next(iter(self._rates.values())).is_full(now_ns):
            self._rates.popitem(last=False)
        key = origin if len(self._rates) < ADDRESSES_MAX else _OTHERS
        bounds = self.bounds
        fresh = Bucket(per_minute=bounds.new_per_minute_max, burst=bounds.new_burst_max, now_ns=now_ns)
        return self._rates.setdefault(key, fresh)


def _most_crowded(introducing: list[Place]) -> Place:
    """The oldest stream of the origin that has most of them; of the oldest such origin, if there are several."""
    counts = Counter(place.origin for place in introducing)
    return max(introducing, key=lambda place: counts[place.origin])


def _owner(peer: Verifier | None) -> str:
    return _UNPROVEN if peer is None else str(peer)


def refused(refusal: Refusal, detail: str) -> NotAdmitted:
    """The error that turns a peer away."""
    return NotAdmitted(refusal.value, detail)
