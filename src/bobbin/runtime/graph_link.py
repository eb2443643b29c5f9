"""Driving one observer's link, at the side of the graph: frames in, frames out, until either side ends it.

The first frame is the observer's handshake; until it has come, the observer has a few seconds and a few kilobytes.
Then one task reads and one writes. What the publisher wants sent is encoded only when the channel takes it, so nothing
piles up here: an observer that does not read gets behind, and has a snapshot when it reads again. One that takes
nothing at all for a while is let go. One that asks for snapshots again and again waits longer for each than it took to
make, so that there is time for the others.

Where the observer is on this machine and takes values in shared memory, large ones go that way, in an arena of the
link's own: what is in it has passed the permissions of this peer.

Which form of messages is spoken follows from the handshake: MessagePack where that is the codec, the form of published
peers where the observer can read its bytes as base64 (that form has the keys of nodes), else what the settings say.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import time_ns
from typing import Final, assert_never

from msgspec import Struct
from websockets.frames import CloseCode

from bobbin.errors import ResourceError, UsageError
from bobbin.reactive.handshake import Capabilities, Codec, Feature
from bobbin.reactive.link_effects import Close, Greet, Send
from bobbin.reactive.link_events import Asked, Greeted, Lost, Opened, PublisherEvent, Received, Sent, Undecodable
from bobbin.reactive.messages import SAFE_INTEGER_MAX, U64_MAX, PeerId, ResyncRequest, Snapshot
from bobbin.reactive.mirror import RUN
from bobbin.reactive.outbox import ACKED_WRITES
from bobbin.reactive.publisher import PublisherConfig
from bobbin.runtime.arena import Arena
from bobbin.runtime.graph_channel import Channel, SocketChannel
from bobbin.runtime.graph_host import GraphHost, HostedLink
from bobbin.runtime.graph_peers import SOURCE
from bobbin.runtime.spilling import arena_feature, spill
from bobbin.transport.base import TransportError
from bobbin.wire.lazily import handshake, remote_op
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.faults import FrameFault
from bobbin.wire.lazily.forms import Form

ARENA_BYTES: Final = 16 * 1024 * 1024
"""Of shared memory, where nobody says how much. The system gives what is written to, no more."""
SESSION: Final = "graph"
"""The name of the graph that a server has, where it is given no other."""
EXACT_IDS: Final = "bobbin-u64"
"""The feature: this side holds ids of 64 bits exactly, though it came the way that browsers come."""
FEATURES: Final = (Feature.JSON_BASE64.value, ACKED_WRITES, EXACT_IDS)
"""What both sides have, of those that the other may do without."""


SNAPSHOT_REST: Final = 10.0
"""For each second that a snapshot took, so many pass before the same observer has another one for the asking."""
SNAPSHOT_REST_SECONDS_MAX: Final = 1.0


class Pace:
    """When an observer may have another snapshot. A request is a few bytes, and a snapshot may be megabytes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._due = clock()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Make a snapshot."""
        began = self._clock()
        yield
        now = self._clock()
        self._due = now + min(SNAPSHOT_REST * (now - began), SNAPSHOT_REST_SECONDS_MAX)

    @property
    def seconds(self) -> float:
        """From now on."""
        return max(self._due - self._clock(), 0.0)


class LinkSettings(Struct, frozen=True, kw_only=True):
    """How every link of a server is held, and its bounds."""

    session: str = SESSION
    frame_bytes_max: int = 4 * 1024 * 1024
    handshake_seconds: float = 10.0
    """For everything up to and with the observer's handshake."""
    stalled_seconds: float = 60.0
    """How long a frame may wait to be taken by the observer's socket."""
    outbox_frames_max: int = 256
    outbox_bytes_max: int = 4 * 1024 * 1024
    fragmentation: bool = False
    """Whether messages that are longer than a frame go in pieces, to observers that can take them."""
    form: Form = Form.SEED_JSON
    """Of JSON, for observers that do not say that they read base64."""
    required: frozenset[str] = frozenset()
    """Features without which there is no link."""
    arena_bytes: int = 0
    """Of shared memory for large values, for each link over a Unix socket whose observer takes them so; 0: none."""


class ServedLink:
    """One observer."""

    def __init__(
        self,
        host: GraphHost,
        channel: Channel,
        peer: PeerId,
        settings: LinkSettings,
        *,
        holds_doubles: bool = False,
        shares_memory: bool = False,
    ) -> None:
        """``peer``: as whom the connection was authenticated. ``holds_doubles``: it may be a program in JavaScript.

        ``shares_memory``: it is a program on this machine, of the same user.
        """
        self._host: Final = host
        self._channel: Final = channel
        self._peer: Final = peer
        self._settings: Final = settings
        self._holds_doubles: Final = holds_doubles
        self._shares_memory: Final = shares_memory
        self._arena: Arena | None = None
        self._loop: Final = asyncio.get_running_loop()
        self._news: Final = asyncio.Event()
        self._pace: Final = Pace(self._loop.time)

    async def run(self) -> str:
        """Until it is over; returns why, in a word. Never raises for what the peer does."""
        try:
            return await self._run()
        finally:
            if self._arena is not None:
                self._arena.close()
            await self._channel.close()

    async def _run(self) -> str:
        try:
            async with asyncio.timeout(self._settings.handshake_seconds):
                said = handshake.decode(await self._channel.receive())
        except TimeoutError:
            return self._end("handshake-timeout", "there is no handshake")
        except FrameFault as fault:
            return self._end(fault.code, str(fault))
        except TransportError:
            return "closed"
        link = self._host.open(self._config(said), self._peer, self._wake)
        try:
            link.step(Opened())
            link.step(Greeted(said))
            return await self._converse(link, self._conversation(link, said))
        finally:
            link.step(Lost())
            self._host.forget(link)

    async def _converse(self, link: HostedLink, conversation: Conversation | None) -> str:
        writing = asyncio.create_task(self._write(link, conversation))
        tasks = {writing} if conversation is None else {writing, asyncio.create_task(self._read(link, conversation))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if writing not in done and link.is_over:
                # What the peer did has ended it, and it is to hear why.
                await asyncio.wait({writing}, timeout=self._settings.handshake_seconds)
                done |= {writing} if writing.done() else set()
            return (writing if writing in done else next(iter(done))).result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _config(self, said: Capabilities) -> PublisherConfig:
        settings = self._settings
        self._arena = self._make_arena(said)
        shared = () if self._arena is None else (Feature.SHARED_BLOB.value, arena_feature(self._arena))
        codec = said.codec if said.codec in set(Codec) else Codec.JSON.value
        return PublisherConfig(
            capabilities=Capabilities(
                peer=SOURCE,
                session=settings.session,
                codec=codec,
                frame_bytes_max=settings.frame_bytes_max,
                fragmentation=settings.fragmentation,
                features=(*FEATURES, RUN + self._host.run, *shared),
            ),
            required=settings.required,
            first_epoch=time_ns() // 1_000,
            id_max=SAFE_INTEGER_MAX if self._is_javascript(said) else U64_MAX,
            outbox_frames_max=settings.outbox_frames_max,
            outbox_bytes_max=settings.outbox_bytes_max,
        )

    def _make_arena(self, said: Capabilities) -> Arena | None:
        size = self._settings.arena_bytes
        if not (size and self._shares_memory and Feature.SHARED_BLOB in said.features):
            return None
        try:
            arena = Arena(size)
        except ResourceError as error:
            # There is another way.
            self._host.tell("no-arena", {"peer": self._peer, "why": str(error)})
            return None
        self._host.tell("shares-memory", {"peer": self._peer, "bytes": size})
        return arena

    def _conversation(self, link: HostedLink, said: Capabilities) -> Conversation | None:
        agreed = link.agreed
        if agreed is None:
            return None
        form = Form.CANONICAL_JSON if agreed.base64 else self._settings.form
        packed = agreed.codec is Codec.MESSAGE_PACK
        return Conversation(agreed, form=None if packed else form, javascript=self._is_javascript(said))

    def _is_javascript(self, said: Capabilities) -> bool:
        return self._holds_doubles and EXACT_IDS not in said.features

    # ---- out ------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """There is something to send. In any thread."""
        with suppress(RuntimeError):  # the event loop has been closed
            self._loop.call_soon_threadsafe(self._news.set)

    async def _write(self, link: HostedLink, conversation: Conversation | None) -> str:
        while True:
            self._news.clear()
            while (effect := link.take()) is not None:
                try:
                    async with asyncio.timeout(self._settings.stalled_seconds):
                        ended = await self._perform(effect, link, conversation)
                except TimeoutError:
                    return self._end("stalled", "the observer takes nothing")
                except TransportError:
                    return "closed"
                except UsageError as error:
                    # A snapshot that is longer than a frame may be: there is no smaller one.
                    return self._end("oversized", str(error))
                if ended is not None:
                    return ended
            await self._news.wait()

    async def _perform(
        self, effect: Greet | Send | Close, link: HostedLink, conversation: Conversation | None
    ) -> str | None:
        match effect:
            case Greet(capabilities):
                await self._channel.send(handshake.encode(capabilities))
            case Send(message):
                assert conversation is not None, "nothing is sent before there is an agreement"
                with self._pace.working() if isinstance(message, Snapshot) else nullcontext():
                    frames = conversation.write(message if self._arena is None else spill(message, self._arena))
                for frame in frames:
                    await self._channel.send(frame)
                link.step(Sent())
            case Close(code, detail):
                return self._end(code, detail)
            case _:
                assert_never(effect)
        return None

    def _end(self, code: str, detail: str) -> str:
        self._host.tell("let-go", {"peer": self._peer, "reason": code, "why": detail})
        if isinstance(self._channel, SocketChannel):
            self._channel.explain(CloseCode.POLICY_VIOLATION, code)
        return code

    # ---- in -------------------------------------------------------------------------------------------------------

    async def _read(self, link: HostedLink, conversation: Conversation) -> str:
        while not link.is_over:
            try:
                raw = await self._channel.receive()
            except TransportError:
                return "closed"
            except FrameFault as fault:
                # Where the next frame would begin, nobody knows.
                return self._end(fault.code, str(fault))
            event = heard(raw, conversation)
            # What is there already would be read without a pause, and whoever sends much must not hold up the others.
            await asyncio.sleep(self._pace.seconds if _is_request(event) else 0)
            if event is not None:
                link.step(event)
        return "closed"


def _is_request(event: PublisherEvent | None) -> bool:
    return isinstance(event, Received) and isinstance(event.message, ResyncRequest)


def heard(raw: bytes, conversation: Conversation) -> PublisherEvent | None:
    """What a frame of an observer is to its publisher; None for a piece of one."""
    if len(raw) <= remote_op.REMOTE_OP_BYTES_MAX:
        # No message has these two fields and no other.
        with suppress(FrameFault):
            return Asked(remote_op.decode(raw))
    try:
        message = conversation.read(raw)
    except FrameFault as fault:
        return Undecodable(fault.code, str(fault))
    return None if message is None else Received(message)
