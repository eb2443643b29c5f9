"""Who is known: the peers of a lace, by key and by name, and the terms on which each of them is served.

A roster is a value. It is made in one piece from files that were read and checked before, and a change of the files
makes another one; whoever holds one never sees half of a change. Nothing of a lace is shown to anyone who is not in it.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.limits import Limits
from bobbin.policy.modules import Query, Selector
from bobbin.records.ids import Verifier
from bobbin.wire.address import Address

ANONYMOUS: Final = "anonymous"
"""The name of the terms for peers that have proven nothing. No peer has it."""


class Way(Struct, frozen=True, kw_only=True):
    """One address of a peer."""

    address: Address
    certificate: bytes | None = None
    """SHA-256 of the only certificate that may be shown there; None where the peer's key vouches for it."""


class KnownPeer(Struct, frozen=True, kw_only=True):
    """One peer, and the terms of every exchange with it."""

    name: str
    """What its owner is called here. Never sent to anyone."""
    selector: Selector
    """Our policy towards it."""
    verifier: Verifier | None = None
    """The key that it proves itself with; None for whoever is at its address."""
    ways: tuple[Way, ...] = ()
    """Where it is dialled, in the order in which that is tried; empty if only it dials us.

    More than one only where there is a key: it is what makes whoever answers at each of them the same peer.
    """
    query: Query | None = None
    """What its rules may see here; None for the default query policy."""
    limits: Limits = Limits()
    follow: bool = False
    """Whether the node keeps an open link to it."""
    admit: bool = True
    """Whether a link that it opens to us is taken."""
    strategy: Strategy = Strategy.AUTO
    """How the two sides find out what the other offers, as far as that is for us to say."""


class Change(StrEnum):
    """What a new roster means for a link that is open under an old one."""

    NONE = "none"
    POLICY = "policy"
    """Only our policy is another: the link goes on under the new one, in a new epoch."""
    TERMS = "terms"
    """Something else is another that holds for a whole link: it ends, and comes back under the new terms."""
    GONE = "gone"
    """The peer is not known, or not served this way, any more: the link ends."""


class Roster:
    """The known peers, in the order of their file."""

    __slots__ = ("_by_name", "_by_verifier", "anonymous")

    def __init__(self, peers: Iterable[KnownPeer] = (), *, anonymous: KnownPeer | None = None) -> None:
        """``anonymous`` has the terms for peers that have proven nothing; without it they are turned away."""
        self._by_name: Final[dict[str, KnownPeer]] = {}
        self._by_verifier: Final[dict[Verifier, KnownPeer]] = {}
        self.anonymous: Final = anonymous
        if anonymous is not None and anonymous.verifier is not None:
            raise UsageError("the terms for peers that have proven nothing name no key")
        for peer in peers:
            if peer.name == ANONYMOUS:
                raise UsageError(f"no peer is called {ANONYMOUS!r}: that is the name for those who prove nothing")
            if peer.follow and not peer.ways:
                raise UsageError(f"{peer.name} is followed and has no address")
            if peer.verifier is None and len(peer.ways) > 1:
                raise UsageError(f"{peer.name} has several addresses and no key that makes them one peer")
            if peer.name in self._by_name:
                raise UsageError(f"two peers are called {peer.name!r}")
            self._by_name[peer.name] = peer
            if peer.verifier is not None and (other := self._by_verifier.setdefault(peer.verifier, peer)) is not peer:
                raise UsageError(f"the peers {other.name!r} and {peer.name!r} have the same key")

    def find(self, verifier: Verifier) -> KnownPeer | None:
        """The peer that has proven this key, if it is known."""
        return self._by_verifier.get(verifier)

    def named(self, name: str) -> KnownPeer | None:
        """The peer of this name, if there is one."""
        return self._by_name.get(name)

    def followed(self) -> Iterator[KnownPeer]:
        """The peers to which the node keeps an open link."""
        return (peer for peer in self if peer.follow)

    def __iter__(self) -> Iterator[KnownPeer]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def successor(old: KnownPeer, roster: Roster) -> KnownPeer | None:
    """The same peer in another roster: by its key, whatever its name is there; by its name where it has no key."""
    if old.verifier is not None:
        return roster.find(old.verifier)
    if old.name == ANONYMOUS:
        return roster.anonymous
    same = roster.named(old.name)
    return same if same is not None and same.verifier is None else None


def change(old: KnownPeer, new: KnownPeer | None, *, dialled: bool, way: Way | None = None) -> Change:
    """What must become of a link under ``old`` now that ``new`` holds.

    ``dialled`` says that we opened it, by ``way``: it may stay as long as that is still a way to the peer.
    """
    if new is None or (not new.follow and old.follow if dialled else not new.admit):
        return Change.GONE
    if _identifier(old.query) != _identifier(new.query):
        return Change.TERMS
    if (old.limits, old.strategy) != (new.limits, new.strategy):
        return Change.TERMS
    if dialled and way is not None and way not in new.ways:
        return Change.TERMS
    return Change.NONE if old.selector.identifier == new.selector.identifier else Change.POLICY


def _identifier(query: Query | None) -> str | None:
    return None if query is None else query.identifier
