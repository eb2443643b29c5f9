"""The core of a signaling room: who is in it, and who may say what to whom.

A room passes on what clients need to find each other, and reads none of it. It knows its clients by their connections.
The id that a frame is forwarded under is that of the connection it came by; nothing that a client says can change it.
Where the connection was authenticated, its id was fixed by that, and a join under another one is refused; so is a join
of anybody else under an id that somebody can be authenticated for.

In an *open* room everybody may join and signal everybody. With an *allowlist* nothing is allowed that was not granted:
who is not listed cannot join, a frame goes only to those whom its sender was granted, and who may exchange nothing with
a client does not appear to it at all, neither in its roster nor by the error that a frame to it would give.

``step`` takes an event and gives effects; the time, in nanoseconds, comes in with it. Each connection has a budget of
frames and bytes, and one that overdraws it is dropped.
"""

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final, NewType, TypeAlias, assert_never

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.reactive.messages import SAFE_INTEGER_MAX, PeerId
from bobbin.reactive.signaling_frames import (
    FRAME_BYTES_MAX,
    Answer,
    ClientFrame,
    Code,
    DirectedFrame,
    ForwardedAnswer,
    ForwardedFrame,
    ForwardedIce,
    ForwardedOffer,
    ForwardedRelay,
    Ice,
    Join,
    Leave,
    Offer,
    PeerJoined,
    PeerLeft,
    Refusal,
    Relay,
    ServerFrame,
    Welcome,
)

ConnectionId = NewType("ConnectionId", int)
"""Given by the driver, never used twice in a room."""

SECOND_NS: Final = 1_000_000_000


@unique
class Mode(StrEnum):
    """What is allowed where nothing was granted."""

    OPEN = "open"
    ALLOWLIST = "allowlist"


class Access(Struct, frozen=True, kw_only=True):
    """Who may join, and signal whom."""

    mode: Mode = Mode.ALLOWLIST
    grants: Mapping[PeerId, frozenset[PeerId]] = MappingProxyType({})
    """Who may join, and the peers that each of them may signal. An open room does not look at it."""
    reserved: frozenset[PeerId] = frozenset()
    """Ids that only a connection may have that was authenticated for them."""

    def may_join(self, peer: PeerId) -> bool:
        return self.mode is Mode.OPEN or peer in self.grants

    def may_signal(self, sender: PeerId, target: PeerId) -> bool:
        return self.mode is Mode.OPEN or target in self.grants.get(sender, frozenset())

    def may_meet(self, one: PeerId, other: PeerId) -> bool:
        """Whether either may signal the other. Those who may not do not hear of each other."""
        return self.may_signal(one, other) or self.may_signal(other, one)


OPEN: Final = Access(mode=Mode.OPEN)


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of one room."""

    members_max: int = 64
    peer_max: int = SAFE_INTEGER_MAX
    """The greatest id. Rosters go to everybody, and a member that is a browser would round a greater one."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    frames_per_second: int = 50
    frames_burst: int = 500
    """Descriptions come with dozens of ways each, to every member at once."""
    bytes_per_second: int = 256 * 1024
    bytes_burst: int = 4 * FRAME_BYTES_MAX


# ---- events ---------------------------------------------------------------------------------------------------------


class Opened(Struct, frozen=True, kw_only=True):
    """A connection came up."""

    connection: ConnectionId
    bound: PeerId | None = None
    """The only id it may join under, if it was authenticated."""


class Heard(Struct, frozen=True, kw_only=True):
    """A frame of a client."""

    connection: ConnectionId
    frame: ClientFrame
    size: int
    """In bytes, as it came."""


class Garbled(Struct, frozen=True, kw_only=True):
    """Something of a client that is no frame."""

    connection: ConnectionId
    reason: str
    size: int


class Lost(Struct, frozen=True, kw_only=True):
    """A connection is gone, by whatever cause."""

    connection: ConnectionId


Event: TypeAlias = Opened | Heard | Garbled | Lost

# ---- effects --------------------------------------------------------------------------------------------------------


class Tell(Struct, frozen=True, kw_only=True):
    """Send a frame."""

    connection: ConnectionId
    frame: ServerFrame


class Drop(Struct, frozen=True, kw_only=True):
    """Close a connection after what was sent to it. The room has forgotten it."""

    connection: ConnectionId
    why: str


Effect: TypeAlias = Tell | Drop


# ---- the room -------------------------------------------------------------------------------------------------------


class _Budget:
    """An amount that is spent, and grows back with time up to a bound."""

    __slots__ = ("_burst", "_left", "_now_ns", "_per_second")

    def __init__(self, per_second: int, burst: int, now_ns: int) -> None:
        self._per_second: Final = per_second
        self._burst: Final = burst
        self._left = burst * SECOND_NS
        """In parts of a second's worth, so that nothing is rounded."""
        self._now_ns = now_ns

    def spend(self, amount: int, now_ns: int) -> bool:
        """Returns whether there was as much."""
        grown = self._left + max(0, now_ns - self._now_ns) * self._per_second
        self._left = min(grown, self._burst * SECOND_NS) - amount * SECOND_NS
        self._now_ns = max(now_ns, self._now_ns)
        return self._left >= 0


class _Client:
    """One connection."""

    __slots__ = ("bound", "bytes", "frames", "peer")

    def __init__(self, bound: PeerId | None, limits: Limits, now_ns: int) -> None:
        self.bound: Final = bound
        self.peer: PeerId | None = None
        """As it joined."""
        self.frames: Final = _Budget(limits.frames_per_second, limits.frames_burst, now_ns)
        self.bytes: Final = _Budget(limits.bytes_per_second, limits.bytes_burst, now_ns)


class Room:
    """One session."""

    def __init__(self, access: Access, limits: Limits = Limits()) -> None:  # noqa: B008 (a frozen value)
        self.access: Final = access
        self.limits: Final = limits
        self._clients: Final[dict[ConnectionId, _Client]] = {}
        self._members: Final[dict[PeerId, ConnectionId]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no connection is left."""
        return not self._clients

    @property
    def members(self) -> tuple[PeerId, ...]:
        """Who has joined, ascending."""
        return tuple(sorted(self._members))

    def has_joined(self, connection: ConnectionId) -> bool:
        """Whether a connection is that of a member."""
        client = self._clients.get(connection)
        return client is not None and client.peer is not None

    def step(self, event: Event, *, now_ns: int) -> tuple[Effect, ...]:
        """What is to be done about an event, in order. Raises ``UsageError`` for a connection that is not known."""
        if isinstance(event, Opened):
            if event.connection in self._clients:
                raise UsageError(f"connection {event.connection} is open already")
            self._clients[event.connection] = _Client(event.bound, self.limits, now_ns)
            return ()
        client = self._clients.get(event.connection)
        if isinstance(event, Lost):
            # It may have been dropped before the driver saw it end.
            return () if client is None else tuple(self._depart(event.connection))
        if client is None:
            raise UsageError(f"connection {event.connection} is not open")
        affordable = client.bytes.spend(event.size, now_ns) and client.frames.spend(1, now_ns)
        if not affordable:
            return self._drop(event.connection, Code.PERMISSION_DENIED, "too much was said in too short a time")
        if event.size > self.limits.frame_bytes_max:
            return self._drop(event.connection, Code.BAD_MESSAGE, f"a frame has {self.limits.frame_bytes_max} bytes")
        if isinstance(event, Garbled):
            return (_refuse(event.connection, Code.BAD_MESSAGE, event.reason),)
        return self._hear(event.connection, client, event.frame)

    def check(self) -> None:
        """Assert what always holds."""
        joined = {client.peer: one for one, client in self._clients.items() if client.peer is not None}
        assert joined == self._members, "members are exactly the connections that joined, each under its own id"
        assert len(joined) <= self.limits.members_max, "a room has its bound"
        assert all(self.access.may_join(peer) for peer in joined), "nobody is in without a grant"
        for client in self._clients.values():
            assert client.peer is None or client.bound in (None, client.peer), "what was authenticated has no other id"
            assert client.peer not in self.access.reserved or client.bound == client.peer, "nobody else has its id"

    def _hear(self, connection: ConnectionId, client: _Client, frame: ClientFrame) -> tuple[Effect, ...]:
        match frame:
            case Join():
                return self._join(connection, client, frame)
            case Leave():
                if client.peer is None:
                    return (_refuse(connection, Code.NOT_JOINED, "there is nothing to leave"),)
                return (*self._depart(connection), Drop(connection=connection, why="it left"))
            case Offer() | Answer() | Ice() | Relay():
                return (self._direct(connection, client, frame),)
            case _:
                assert_never(frame)

    def _join(self, connection: ConnectionId, client: _Client, frame: Join) -> tuple[Effect, ...]:
        peer = frame.peer
        if client.peer is not None:
            return (_refuse(connection, Code.ALREADY_JOINED, f"this connection has joined as peer {client.peer}"),)
        if peer > self.limits.peer_max:
            return (_refuse(connection, Code.BAD_MESSAGE, f"ids are at most {self.limits.peer_max} here"),)
        if peer != client.bound and (client.bound is not None or peer in self.access.reserved):
            return (_refuse(connection, Code.PERMISSION_DENIED, f"this connection is not that of peer {peer}"),)
        if not self.access.may_join(peer):
            return (_refuse(connection, Code.PERMISSION_DENIED, f"peer {peer} may not join"),)
        if peer in self._members:
            return (_refuse(connection, Code.DUPLICATE_PEER, f"peer {peer} is here already"),)
        if len(self._members) >= self.limits.members_max:
            return (_refuse(connection, Code.PERMISSION_DENIED, "the room is full"),)
        others = self._company(peer)
        client.peer = peer
        self._members[peer] = connection
        welcome = Welcome(peer=peer, peers=others)
        joined = PeerJoined(peer=peer)
        return (
            Tell(connection=connection, frame=welcome),
            *(Tell(connection=self._members[other], frame=joined) for other in others),
        )

    def _direct(self, connection: ConnectionId, client: _Client, frame: DirectedFrame) -> Effect:
        if client.peer is None:
            return _refuse(connection, Code.NOT_JOINED, "join first")
        # Asked before it is looked whether the target is there: the answer tells nothing about that.
        if not self.access.may_signal(client.peer, frame.to):
            return _refuse(connection, Code.PERMISSION_DENIED, f"peer {client.peer} may not signal peer {frame.to}")
        target = self._members.get(frame.to)
        if target is None:
            return _refuse(connection, Code.UNKNOWN_TARGET, f"peer {frame.to} is not here")
        return Tell(connection=target, frame=_forward(frame, client.peer))

    def _depart(self, connection: ConnectionId) -> list[Effect]:
        """Forget a connection, and tell the others if it had joined."""
        peer = self._clients.pop(connection).peer
        if peer is None:
            return []
        del self._members[peer]
        left = PeerLeft(peer=peer)
        return [Tell(connection=self._members[other], frame=left) for other in self._company(peer)]

    def _drop(self, connection: ConnectionId, code: Code, message: str) -> tuple[Effect, ...]:
        told = self._depart(connection)
        return (_refuse(connection, code, message), Drop(connection=connection, why=message), *told)

    def _company(self, peer: PeerId) -> tuple[PeerId, ...]:
        """The other members that a peer hears of, ascending."""
        return tuple(other for other in self.members if other != peer and self.access.may_meet(peer, other))


def _refuse(connection: ConnectionId, code: Code, message: str) -> Tell:
    return Tell(connection=connection, frame=Refusal(code=code, message=message))


def _forward(frame: DirectedFrame, sender: PeerId) -> ForwardedFrame:
    match frame:
        case Offer():
            return ForwardedOffer(sender=sender, sdp=frame.sdp)
        case Answer():
            return ForwardedAnswer(sender=sender, sdp=frame.sdp)
        case Ice():
            return ForwardedIce(sender=sender, candidate=frame.candidate)
        case Relay():
            return ForwardedRelay(sender=sender, payload=frame.payload)
        case _:
            assert_never(frame)
