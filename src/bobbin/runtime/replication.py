"""Driving one replica: its plane, and a link to each peer that has another one.

A link begins with both handshakes, which must name this feature; then each side runs a ``SyncSession``. What is written
here, or comes from one peer, goes to all others as soon as their links take it: what piles up meanwhile goes in one
frame. A peer that is no member, and may write some cells all the same, speaks for itself alone (``Guest``). A single
operation that is too long for a frame of a link is left out there, and told; all others go on. Everything here is for
one event loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from time import time_ns
from typing import Final, assert_never

from msgspec import Struct

from bobbin.errors import PeerError
from bobbin.reactive.crdt.guests import Guest
from bobbin.reactive.crdt.plane import CellName, Merged, Plane
from bobbin.reactive.crdt.session import OPERATIONS_MAX, SessionConfig, SessionEffect, SyncSession, Wrote
from bobbin.reactive.handshake import Agreed, Capabilities, Feature, agree
from bobbin.reactive.link_effects import Close, Send
from bobbin.reactive.link_events import Lost, Opened, PermissionsChanged, Received
from bobbin.reactive.messages import CrdtOperation, CrdtSync, Message, PeerId, ResyncRequest
from bobbin.runtime.graph_channel import Channel
from bobbin.transport.base import TransportError
from bobbin.wire.lazily import handshake
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.faults import FRAME_BYTES_MAX, Fault, FrameFault, OversizedFrame
from bobbin.wire.lazily.forms import Form

FEATURE: Final = "crdt-cell-plane"
WRONG_PEER: Final = "wrong-peer"
BEHIND: Final = "behind"
STALLED: Final = "stalled"
CROSSED: Final = "crossed"
WAITING_MAX: Final = 256
"""Frames that wait for one peer. Who makes more of them than it takes is let go, and may come back."""


_FRAME_SPARE: Final = 512
"""Of a frame with one operation, what is neither its key nor its state."""
_ESCAPED_MAX: Final = 6
"""Bytes of JSON for one byte of a key."""
_SEEN_SPARE: Final = 160
"""For what is said of how far each peer was seen."""


def now_us() -> int:
    """The clock of this machine, as stamps count."""
    return time_ns() // 1_000


class ReplicationSettings(Struct, frozen=True, kw_only=True):
    """How links are held, and their bounds."""

    session: str = "cells"
    """The name of what is replicated. Both sides must have the same."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    """No more than what the channels take, or a frame that was agreed on would end the link."""
    operations_max: int = OPERATIONS_MAX
    handshake_seconds: float = 10.0
    stalled_seconds: float = 60.0
    """How long a frame may wait to be taken by the peer's socket."""


class Replication:
    """One replica, and the links to others.

    ``merge`` takes frames in, as ``Plane.ingest`` does; a graph that shows the cells has its own. ``reads`` and
    ``writes`` say what a peer may; by default a member may everything, and others nothing. ``skipped`` is told of an
    operation that does not fit into one frame to a peer, which so does not get it.
    """

    def __init__(
        self,
        plane: Plane,
        *,
        merge: Callable[[CrdtSync, PeerId, int], Merged] | None = None,
        reads: Callable[[PeerId, CrdtOperation], bool] | None = None,
        writes: Callable[[PeerId, CrdtOperation], bool] | None = None,
        skipped: Callable[[PeerId, CrdtOperation], None] = lambda peer, operation: None,  # noqa: ARG005
        settings: ReplicationSettings = ReplicationSettings(),  # noqa: B008 (a frozen value)
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        self.plane: Final = plane
        self._merge: Final = merge or self._ingest
        self._reads: Final = reads or self._is_member
        self._writes: Final = writes or self._is_member
        self._skipped: Final = skipped
        self._settings: Final = settings
        self._clock_us: Final = clock_us
        self._links: Final[dict[PeerId, _Link]] = {}
        self._watchers: Final[list[Callable[[tuple[CellName, ...]], None]]] = []

    @property
    def peers(self) -> frozenset[PeerId]:
        """To whom there are links."""
        return frozenset(self._links)

    def fits(self, key: str, state: bytes) -> bool:
        """Whether a write goes into one frame, on links as long as they can be agreed on here."""
        base64 = -(-len(state) // 3) * 4
        around = _FRAME_SPARE + _ESCAPED_MAX * len(key.encode()) + _SEEN_SPARE * len(self.plane.frontier)
        return base64 + around <= self._settings.frame_bytes_max

    async def apart(self, peer: PeerId) -> None:
        """Wait until there is no link to a peer."""
        while (link := self._links.get(peer)) is not None:
            await link.over.wait()

    def on_change(self, watcher: Callable[[tuple[CellName, ...]], None]) -> None:
        """Call ``watcher`` with the cells that peers have changed, frame by frame."""
        self._watchers.append(watcher)

    def wrote(self) -> None:
        """Something was written here: tell all peers, when their links take it."""
        for link in self._links.values():
            link.stir()

    def permissions_changed(self, peer: PeerId) -> None:
        """A peer may read what it could not. It gets everything that it may read."""
        link = self._links.get(peer)
        if link is not None:
            link.perform(link.session.step(PermissionsChanged(), now_us=self._clock_us()))

    async def run(self, channel: Channel, peer: PeerId, *, answers: bool = False) -> str:
        """Keep a peer in step until the link ends; returns why, in a word. ``peer``: as it was authenticated.

        ``answers``: the peer has dialled, and speaks first. It may still be reading a proof, and would take what comes
        right behind it for a part of that.

        A second link to the same peer takes the place of the first: it has come back before this side noticed. But
        where both have dialled at the same time, the link of the lesser id stands, or each would end the other's.
        """
        try:
            agreed = await self._agree(channel, peer, answers=answers)
            dialler = peer if answers else self.plane.own
            while (former := self._links.get(peer)) is not None:
                if former.dialler < dialler and former.seconds < 2 * self._settings.handshake_seconds:
                    # The other side does the same. One that is older is dead: who has a link does not dial (``apart``).
                    return CROSSED
                del self._links[peer]
                await former.end()
            link = self._links[peer] = self._open(channel, peer, agreed, dialler)
            try:
                return await link.run()
            finally:
                if self._links.get(peer) is link:
                    del self._links[peer]
                link.over.set()
        except TransportError:
            return "closed"
        except PeerError as error:
            return error.code
        finally:
            await channel.close()

    async def _agree(self, channel: Channel, peer: PeerId, *, answers: bool) -> Agreed:
        local = Capabilities(
            peer=self.plane.own,
            session=self._settings.session,
            frame_bytes_max=self._settings.frame_bytes_max,
            features=(FEATURE, Feature.JSON_BASE64.value),
        )
        try:
            async with asyncio.timeout(self._settings.handshake_seconds):
                if not answers:
                    await channel.send(handshake.encode(local))
                remote = handshake.decode(await channel.receive())
                if answers:
                    await channel.send(handshake.encode(local))
        except TimeoutError as error:
            raise PeerError("handshake-timeout", "there is no handshake") from error
        if remote.peer != peer:
            raise PeerError(WRONG_PEER, f"peer {peer} calls itself {remote.peer}")
        return agree(local, remote, frozenset({FEATURE}))

    def _open(self, channel: Channel, peer: PeerId, agreed: Agreed, dialler: PeerId) -> "_Link":
        config = SessionConfig(
            is_member=self._is_member(self.plane.own),
            reads=lambda operation: self._reads(peer, operation),
            operations_max=self._settings.operations_max,
        )
        session = SyncSession(self.plane, peer, self._take, config)
        guest = None if self._is_member(peer) else Guest(self.plane, peer)
        conversation = Conversation(agreed, form=Form.CANONICAL_JSON)
        return _Link(
            session,
            channel,
            conversation,
            self._clock_us,
            guest,
            self._settings.stalled_seconds,
            dialler=dialler,
            skipped=lambda operation: self._skipped(peer, operation),
        )

    def _take(self, sync: CrdtSync, peer: PeerId, now: int) -> Merged:
        """A frame of a peer, and then what has waited for it."""
        guest = self._links[peer].guest
        merged = self._merge_one(sync if guest is None else guest.admit(sync), peer, now)
        if merged.applied:
            self._release(now)
        return merged

    def _release(self, now: int) -> None:
        """Somebody may have vouched for what a guest has said."""
        waiting = [(peer, link.guest) for peer, link in self._links.items() if link.guest is not None]
        is_new = True
        while is_new:
            is_new = False
            for peer, guest in waiting:
                if guest.held and (freed := guest.release()).operations:
                    self._merge_one(freed, peer, now)
                    is_new = True

    def _merge_one(self, sync: CrdtSync, peer: PeerId, now: int) -> Merged:
        merged = self._merge(sync, peer, now)
        if merged.applied:
            for other, link in self._links.items():
                if other != peer:
                    link.stir()
        if merged.changed:
            for watcher in self._watchers:
                watcher(merged.changed)
        return merged

    def _ingest(self, sync: CrdtSync, peer: PeerId, now: int) -> Merged:
        return self.plane.ingest(sync, sender=peer, now_us=now, allows=lambda one: self._writes(peer, one))

    def _is_member(self, peer: PeerId, operation: CrdtOperation | None = None) -> bool:
        del operation
        return peer in self.plane.members


class _Link:
    """One peer."""

    def __init__(
        self,
        session: SyncSession,
        channel: Channel,
        conversation: Conversation,
        clock_us: Callable[[], int],
        guest: Guest | None,
        stalled_seconds: float,
        *,
        dialler: PeerId,
        skipped: Callable[[CrdtOperation], None],
    ) -> None:
        self.session: Final = session
        self.dialler: Final = dialler
        self.over: Final = asyncio.Event()
        """Set when it has ended, and nobody finds it any more."""
        self._skipped: Final = skipped
        self._since: Final = asyncio.get_running_loop().time()
        self.guest: Final = guest
        """Looks at what the peer says, where it speaks for itself alone."""
        self._channel: Final = channel
        self._conversation: Final = conversation
        self._clock_us: Final = clock_us
        self._stalled_seconds: Final = stalled_seconds
        self._waiting: Final[deque[SessionEffect]] = deque()
        self._news: Final = asyncio.Event()
        self._is_stirred = False
        self._asks_all: ResyncRequest | None = None
        """The peer has asked for everything. However often it does, it gets that once when it takes it."""
        self._tasks: tuple[asyncio.Task[str], ...] = ()

    @property
    def seconds(self) -> float:
        """How long it has been there."""
        return asyncio.get_running_loop().time() - self._since

    def stir(self) -> None:
        """There may be something to send."""
        self._is_stirred = True
        self._news.set()

    def perform(self, effects: tuple[SessionEffect, ...]) -> None:
        """Let effects wait for the writer. Of reports that wait, the last says it all."""
        for effect in effects:
            if _is_report(effect) and self._waiting and _is_report(self._waiting[-1]):
                self._waiting.pop()
            self._waiting.append(effect)
        self._news.set()

    async def run(self) -> str:
        self.perform(self.session.step(Opened(), now_us=self._clock_us()))
        self._tasks = asyncio.create_task(self._read()), asyncio.create_task(self._write())
        try:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            # Where this side ends it, the writer says why.
            return self._tasks[1].result() if self._tasks[1] in done else next(iter(done)).result()
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is not None and own.cancelling():
                raise
            # Nobody has cancelled this: its tasks were, by ``end``.
            return "replaced"
        finally:
            await self.end()
            self.session.step(Lost(), now_us=self._clock_us())

    async def end(self) -> None:
        """Let go. May be called again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self) -> str:
        while True:
            try:
                message = self._conversation.read(await self._channel.receive())
            except TransportError:
                return "closed"
            except FrameFault as fault:
                return fault.code
            if isinstance(message, ResyncRequest):
                self._asks_all = message
                self._news.set()
            elif message is not None:
                self.perform(self.session.step(Received(message), now_us=self._clock_us()))
            if len(self._waiting) > WAITING_MAX:
                return BEHIND

    async def _write(self) -> str:
        while True:
            if not self._waiting and self._asks_all is not None:
                asked, self._asks_all = self._asks_all, None
                self.perform(self.session.step(Received(asked), now_us=self._clock_us()))
            if not self._waiting and self._is_stirred:
                self._is_stirred = False
                self.perform(self.session.step(Wrote(), now_us=self._clock_us()))
            if not self._waiting:
                self._news.clear()
                if self._is_stirred or self._asks_all is not None:
                    continue
                await self._news.wait()
                continue
            effect = self._waiting.popleft()
            match effect:
                case Send(message):
                    try:
                        for frame in self._frames(message):
                            async with asyncio.timeout(self._stalled_seconds):
                                await self._channel.send(frame)
                    except TimeoutError:
                        return STALLED
                    except TransportError:
                        return "closed"
                    except OversizedFrame:
                        return Fault.OVERSIZED.value
                case Close(code, _):
                    return code
                case _:
                    assert_never(effect)

    def _frames(self, message: Message) -> Iterator[bytes]:
        """The frames of a message. What is too long for one goes in several; the last of them has the frontier.

        Nothing is lost on a link, so whoever takes that one has taken the others. An operation that is too long by
        itself is left out.
        """
        try:
            yield from self._conversation.write(message)
        except OversizedFrame:
            if not isinstance(message, CrdtSync) or not message.operations:
                raise
            if len(message.operations) == 1:
                self._skipped(message.operations[0])
                # There may be no answer now, and what comes behind it is not to wait for one.
                self.stir()
                if message.frontier:
                    yield from self._conversation.write(CrdtSync((), message.frontier))
                return
            half = len(message.operations) // 2
            yield from self._frames(CrdtSync(message.operations[:half]))
            yield from self._frames(CrdtSync(message.operations[half:], message.frontier))


def _is_report(effect: SessionEffect) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, CrdtSync) and not effect.message.operations
