"""Cells of a served graph that peers write, and that other servers have, too: they are kept in step.

A cell has a key, a tag, and the zero of its tag until somebody has written it. Where there are replicas, a write of an
observer goes into a plane of replicated cells (``reactive.crdt``), and from there to every other member; what comes
from them is shown in the graph, in one batch for each frame. Of two writes that did not know of each other the later
one holds, everywhere alike. A value that is too long for one frame stays at this server, which is told.

Members are believed what they pass on, so a link to one counts only if both sides have proven their keys. The cells
live in memory: a server that is started again has them from the others. Everything here is for one event loop.
"""

import asyncio
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from bobbin.errors import IntegrityError, PeerError, ResourceError, UsageError
from bobbin.reactive.crdt import Merged, Plane, ReplicatedCells
from bobbin.reactive.crdt.plane import TOMBSTONE
from bobbin.reactive.graph import Cell
from bobbin.reactive.messages import CrdtOperation, CrdtSync, PeerId
from bobbin.reactive.type_tags import ValueFault
from bobbin.runtime import reconnect
from bobbin.runtime.graph_dial import ClientSettings, dial_graph
from bobbin.runtime.graph_host import GraphHost
from bobbin.runtime.graph_link import LinkSettings
from bobbin.runtime.graph_peers import Credentials, signer_peer
from bobbin.runtime.reconnect import Backoff, Once
from bobbin.runtime.replication import CROSSED, Replication, ReplicationSettings, now_us
from bobbin.wire.address import Address

ZEROS: Final[Mapping[str, object]] = MappingProxyType(
    {"i64": 0, "f64": 0.0, "bool": False, "string": "", "bytes": b"", "json": None}
)
"""What a cell of each tag has before anybody has written it."""
LONGEST_SECONDS: Final = 10.0
"""Between two attempts to reach a replica."""
TOO_LONG: Final = "too-long"
NOT_A_VALUE: Final = "not-a-value"
_BYTES: Final = "bytes"
_ESCAPE: Final = b"\0"


class GraphCells:
    """The cells of one server."""

    def __init__(self, host: GraphHost, tags: Mapping[str, str]) -> None:
        """``tags`` has the tag of each cell by its key. Raises ``UsageError`` for a key that the graph has already."""
        self._host: Final = host
        self._tags: Final = dict(tags)
        self._cells: Final[dict[str, Cell[object]]] = {}
        with host.changing():
            for key, tag in tags.items():
                if host.graph.keyed(key) is not None:
                    raise UsageError(f"the graph has {key} already")
                self._cells[key] = host.graph.cell(ZEROS[tag], tag=tag, key=key)

    def replicate(
        self, own: PeerId, members: Iterable[PeerId], *, frame_bytes_max: int = LinkSettings().frame_bytes_max
    ) -> Replication:
        """Keep the cells in step with those of other members, over the links that the answer is given.

        ``frame_bytes_max``: what the channels of these links take.
        """
        plane = Plane(own, members=members)
        shown = ReplicatedCells(plane, self._host.graph)

        def merge(sync: CrdtSync, sender: PeerId, now: int) -> Merged:
            with self._host.context.entered():
                applied = shown.ingest(sync, sender=sender, now_us=now, allows=lambda _: sender in plane.members)
            for name, error in applied.unread:
                self._refuse(sender, NOT_A_VALUE, f"{name}: {error}")
            return applied.merged

        def skipped(peer: PeerId, operation: CrdtOperation) -> None:
            name = operation.id if operation.key is None else operation.key
            self._refuse(peer, TOO_LONG, f"{name} is too long for a frame to this peer, which does not get it")

        settings = ReplicationSettings(frame_bytes_max=frame_bytes_max)
        replication = Replication(plane, merge=merge, skipped=skipped, settings=settings)
        with self._host.context.entered() as graph:
            for key, cell in self._cells.items():
                shown.bind(key, cell, lambda key=key: self._read(plane, key))  # type: ignore[misc] # one for each key
                graph.effect(lambda key=key, cell=cell: self._wrote(replication, key, cell))  # type: ignore[misc]
        return replication

    def _read(self, plane: Plane, key: str) -> object:
        """The value of a cell in the plane. Raises ``ValueFault``."""
        state, tag = plane.state(key), self._tags[key]
        if not isinstance(state, bytes):
            return ZEROS[tag]
        return self._host.tags.decode(tag, _unescape(state) if tag == _BYTES else state)

    def _wrote(self, replication: Replication, key: str, cell: Cell[object]) -> None:
        """A cell has another value: by an observer, which the others are to hear of, or by a replica."""
        tags, tag, plane = self._host.tags, self._tags[key], replication.plane
        # Compared as bytes: there are values that do not equal themselves.
        value = tags.encode(tag, cell.get())
        try:
            if value == tags.encode(tag, self._read(plane, key)):
                return
        except ValueFault as error:
            # Whatever it is, it is not this value, and would be in the way of every later one.
            stamp = plane.stamp(key)
            assert stamp is not None, "it has a state"
            self._refuse(stamp.peer, NOT_A_VALUE, f"{key} is written over: {error}")
        state = _escape(value) if tag == _BYTES else value
        if not replication.fits(key, state):
            self._refuse(plane.own, TOO_LONG, f"{key} has {len(state)} bytes, too long for a frame: no replica gets it")
            return
        plane.set(cell.id, state, now_us=now_us(), key=key)
        replication.wrote()

    def _refuse(self, peer: PeerId, reason: str, why: str) -> None:
        self._host.tell("refused", {"peer": peer, "reason": reason, "why": why})


def _escape(value: bytes) -> bytes:
    """The state of a value of bytes. None is the tombstone: that, and what this makes of it, has one zero more."""
    return value + _ESCAPE if value.rstrip(_ESCAPE) == TOMBSTONE else value


def _unescape(state: bytes) -> bytes:
    """The value of a state that is not the tombstone."""
    return state[:-1] if state.rstrip(_ESCAPE) == TOMBSTONE else state


async def keep_replica(
    replication: Replication,
    host: GraphHost,
    address: Address,
    credentials: Credentials,
    settings: ClientSettings,
    *,
    backoff: Backoff | None = None,
) -> None:
    """Dial a replica, and again whenever the link is lost, until cancelled. ``credentials`` says what it must prove.

    While the replica has a link here that it has dialled itself, there is nothing to do.
    """
    assert credentials.verifier is not None, "nobody is believed without a proof"
    peer, loop = signer_peer(credentials.verifier), asyncio.get_running_loop()

    async def once() -> Once:
        await replication.apart(peer)
        try:
            channel = await dial_graph(address, credentials, settings)
        except (PeerError, IntegrityError, ResourceError) as error:
            # Whatever answers there: it may be put right, and the graph is served meanwhile.
            return Once(was_good=False, why=str(error))
        host.tell("replica", {"peer": peer, "address": str(address)})
        since = loop.time()
        why = await replication.run(channel, peer)
        return Once(was_good=why != CROSSED, why=why, seconds=loop.time() - since)

    def tell(lost: reconnect.Lost) -> None:
        host.tell("replica-lost", {"peer": peer, "address": str(address), "why": lost.why})

    await reconnect.keep(once, backoff=backoff or Backoff(longest_seconds=LONGEST_SECONDS), tell=tell)
