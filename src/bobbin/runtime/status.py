"""What a node says about itself and its links: the values behind ``bobbin links``, ``bobbin top`` and ``/links``.

These are values of one moment, made for people and for JSON. Times are TAI texts; ages are seconds by a clock that only
goes forward, so a wall clock that is set does not make a link younger.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

FORMAT: Final = 1
"""Of the JSON. It rises when a field changes its meaning or goes; a new field does not change it."""


class Direction(StrEnum):
    """Who opened a link."""

    IN = "in"
    OUT = "out"


class LinkState(StrEnum):
    """Where a link stands, as an operator sees it."""

    CONNECTING = "connecting"
    """An address is being dialled."""
    INTRODUCING = "introducing"
    """The stream is up, and nobody has been let in yet."""
    EXCHANGING = "exchanging"
    IDLE = "idle"
    """At a fixed point. The link stays, and goes on when anything changes."""
    WAITING = "waiting"
    """There is no stream; the next attempt comes by itself."""
    ENDING = "ending"


class End(StrEnum):
    """Why a node ends a link or lets one go, besides the reasons of the exchange itself (``interlace.reasons``)."""

    FIXED_POINT = "fixed-point"
    """The peer closed when neither side had anything more for the other: the good end."""
    REPLACED = "replaced-by-newer-link"
    PEER_REMOVED = "peer-removed"
    PEER_CHANGED = "peer-changed"
    """What is configured for the peer has changed in a way that needs a new link."""
    NODE_STOPPED = "node-stopped"
    CONNECT_FAILED = "connect-failed"
    """The address could not be reached, or its certificate is not the right one."""
    CRASHED = "internal-error"
    """A mistake of this program. The link is gone, the node goes on, and the log has the place."""


class Ended(Struct, frozen=True, kw_only=True):
    """How a link ended."""

    at: str
    """TAI."""
    reason: str
    """A value of ``End``, of ``admission.Refusal`` or of ``interlace.reasons.Reason``."""
    detail: str = ""
    limit: str | None = None
    """The limit that was reached, by name."""


class LinkStatus(Struct, frozen=True, kw_only=True):
    """One link, or one peer that the node keeps trying to reach."""

    id: int
    """Counts up from 1 while the node runs."""
    direction: Direction
    state: LinkState
    address: str
    """What was dialled, or where the node listens."""
    remote: str = ""
    """The other end as its socket names it."""
    peer: str | None = None
    """The name of the known peer; None before one is proven."""
    verifier: str | None = None
    """Only with proof that counts."""
    encrypted: bool = False
    since: str
    """When the stream came up, or the last attempt began. TAI."""
    age_seconds: float
    heard_seconds: float | None = None
    """How long ago the peer last said anything; None before it has."""
    phase: str | None = None
    """Of the exchange; None while there is none."""
    waits: str = ""
    """In words: what has to happen before the link goes on."""
    plan: str | None = None
    fixed_point: str | None = None
    """When the last one was reached. TAI."""
    still_since: str | None = None
    """The first fixed point since which nothing has moved. TAI."""
    rounds: int = 0
    """Fixed points that were reached on this stream."""
    iterations: int = 0
    """Of the present round, or of the last one."""
    records_in: int = 0
    """Stored from this link; what was here already is not counted."""
    records_out: int = 0
    bytes_in: int = 0
    """On the stream, whatever they were for."""
    bytes_out: int = 0
    bytes_by_phase: dict[str, int] = {}
    """Both directions together."""
    offered: int = 0
    """Records that this side offers to the peer."""
    claimed: int = 0
    """Records that the peer offers."""
    missing: int = 0
    """Records that were asked for on this link, and are not here."""
    missing_why: dict[str, int] = {}
    """How many of them came as something else or not at all, by reason code; the rest is on its way or deferred."""
    slowed: int = 0
    """How often the peer had to wait because it began too much in a short time."""
    attempts: int = 0
    """Since the last good link, to a peer that is dialled."""
    last_end: Ended | None = None
    """Of the link before this one to the same peer, where this node dials it."""


class PastLink(Struct, frozen=True, kw_only=True):
    """A link that is over."""

    id: int
    direction: Direction
    remote: str
    peer: str | None
    verifier: str | None
    seconds: float
    rounds: int
    """Fixed points that it reached."""
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    end: Ended


class NodeStatus(Struct, frozen=True, kw_only=True):
    """A node at one moment."""

    format: int = FORMAT
    version: str
    verifier: str | None
    """Of the key that the node proves itself with."""
    at: str
    """This moment. TAI."""
    since: str
    age_seconds: float
    stopping: bool
    health: str
    """``ok``, or what is wrong."""
    condition: str = "ok"
    """A value of ``health.Condition``."""
    reload_failure: str | None = None
    """Why the files on disk are not in force; None if they are, or if the node has no files."""
    peers_file: str | None = None
    """Where the known peers are read from; None for a node without files."""
    listening: tuple[str, ...]
    records: int
    """In the store."""
    peers: int
    """Known ones."""
    links: tuple[LinkStatus, ...]
    past: tuple[PastLink, ...]
    """The last few that are over, the newest first."""
    ended: dict[str, int]
    """Links that are over, by reason, since the node started."""
    refused: dict[str, int]
    """Links that were never let in, by reason, since the node started."""


def encode_status(status: NodeStatus) -> bytes:
    """As JSON."""
    return msgspec.json.encode(status)


def decode_status(raw: bytes) -> NodeStatus:
    """From JSON. Fields that a newer node adds are passed over; raises ``msgspec.MsgspecError`` for anything else."""
    return msgspec.json.decode(raw, type=NodeStatus)
