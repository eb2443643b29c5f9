"""Mirroring a graph that is served elsewhere, over links that come and go.

::

    async with connect_graph("unix:/…/notes.lace/graph.sock") as mirror:
        async for update in mirror.updates():
            print(update.epoch, mirror.values())

Entering waits for the first snapshot, and raises what keeps it from coming. From then on a link that is lost is dialled
again, later after each failure; what was known stays readable meanwhile, and the next snapshot replaces it. Everything
here is for one event loop.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from secrets import token_hex
from types import TracebackType
from typing import Final, Self, TypeAlias, assert_never
from weakref import WeakSet

from msgspec import structs

from bobbin.errors import BobbinError, IntegrityError, PeerError, UsageError
from bobbin.reactive.handshake import Agreed, Capabilities, Codec, Feature
from bobbin.reactive.link_effects import (
    Ask,
    Close,
    Deliver,
    Greet,
    MirrorEffect,
    Notify,
    Refused,
    Send,
    Updated,
    Wake,
)
from bobbin.reactive.link_events import (
    Greeted,
    Lost,
    MirrorEvent,
    Opened,
    Received,
    TooLong,
    Trigger,
    Undecodable,
    Woke,
    WriteCells,
)
from bobbin.reactive.messages import SAFE_INTEGER_MAX, CellSet, Delta, Message, Node, NodeId, PeerId
from bobbin.reactive.mirror import LOST_WRITE, Mirror, MirrorConfig, MirrorPhase
from bobbin.reactive.type_tags import TypeTags
from bobbin.records.ids import Verifier
from bobbin.records.signing import SigningKey
from bobbin.runtime import reconnect
from bobbin.runtime.arena import ArenaReader
from bobbin.runtime.graph_channel import Channel
from bobbin.runtime.graph_dial import ClientSettings, dial_graph
from bobbin.runtime.graph_greeting import OWN_SCHEMES
from bobbin.runtime.graph_link import FEATURES
from bobbin.runtime.graph_peers import Credentials
from bobbin.runtime.reconnect import Backoff, Once
from bobbin.runtime.spilling import named_in, resolve
from bobbin.transport.base import TransportError
from bobbin.transport.tls import TlsClient
from bobbin.wire import address as addresses
from bobbin.wire.address import Address, Scheme
from bobbin.wire.lazily import handshake, remote_op
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.forms import Form

CLOSED_EARLY: Final = "closed-before-handshake"
UPDATES_MAX: Final = 1_024
"""Updates that wait for one reader. Beyond them it is told once that anything may be different."""
LONGEST_SECONDS: Final = 10.0
"""Between two attempts. Somebody looks at what a mirror shows, so it comes back sooner than an exchange would."""
_UNSENT_MAX: Final = 256
"""Messages that may wait before a writer has to."""

_LOST_MAX: Final = 1_024
"""Writes that were given up, and whose writer has not asked yet."""
_VALUE_GROWTH: Final = 4
"""Bytes of a frame for each byte of a value, at most: bytes as numbers, and a comma."""
_WRITE_BYTES: Final = 256
"""Of a frame for each write apart from its value, at most, and for what is around them."""

Name: TypeAlias = str | NodeId
"""Of a node: its key, or its id."""
TellLost: TypeAlias = Callable[[reconnect.Lost], None]
Dial: TypeAlias = Callable[[], Awaitable[Channel]]
"""Opens a channel on which frames can go. Raises ``PeerError`` or ``TransportError``."""


class WritesLost(PeerError):
    """What was written was not taken there, as far as anybody can know: no cell of it, or nobody can say."""

    def __init__(self, writes: tuple[str, ...]) -> None:
        super().__init__(LOST_WRITE, "; ".join(writes))
        self.writes = writes
        """Of each write the names of its nodes, and what became of it."""


class Updates(AsyncIterator[Updated]):
    """What changes in a mirror, from now on. The first update says what is there."""

    def __init__(self, owner: "GraphMirror", *, waiting_max: int = UPDATES_MAX) -> None:
        self._owner: Final = owner
        self._waiting_max: Final = waiting_max
        self._waiting: Final[deque[Updated]] = deque()
        self._owes_all = owner.epoch is not None
        """Whether what waits is not all there is to tell."""
        self._news: Final = asyncio.Event()

    def put(self, update: Updated) -> None:
        """Something has changed."""
        if update.replaced or len(self._waiting) >= self._waiting_max:
            self._waiting.clear()
            self._owes_all = True
        else:
            self._waiting.append(update)
        self._news.set()

    def skip(self) -> None:
        """Forget what waits: for whoever looks at the mirror itself and only wants to know when."""
        self._waiting.clear()
        self._owes_all = False

    def stir(self) -> None:
        """Let whoever waits look again whether it is over."""
        self._news.set()

    async def __anext__(self) -> Updated:
        while True:
            if self._owes_all:
                # What waits came before this moment, and is part of it.
                self._owes_all = False
                self._waiting.clear()
                epoch, nodes = self._owner.epoch, tuple(self._owner.nodes)
                assert epoch is not None
                return Updated(epoch=epoch, nodes=nodes, structure=True, replaced=True)
            if self._waiting:
                return self._waiting.popleft()
            if self._owner.is_over:
                self._owner.raise_failure()
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()


class GraphMirror(AbstractAsyncContextManager["GraphMirror"]):
    """A mirror, and the link that feeds it. Get one from ``connect_graph``."""

    def __init__(
        self,
        dial: Dial,
        peer: PeerId,
        settings: ClientSettings,
        *,
        tags: TypeTags,
        backoff: Backoff,
        lost: TellLost = lambda _: None,
    ) -> None:
        """``peer``: who we are on what ``dial`` opens."""
        self._dial: Final = dial
        self._peer: Final = peer
        self._settings: Final = settings
        self._tags: Final = tags
        self._backoff: Final = backoff
        self._tell_lost: Final = lost
        self._mirror: Final = Mirror(
            MirrorConfig(
                capabilities=self._capabilities(),
                source=settings.source,
                outbox=token_hex(16),
                retry_ms=int(settings.answer_seconds * 1_000),
            )
        )
        self._updates: Final[WeakSet[Updates]] = WeakSet()
        """Of those that somebody still holds."""
        self._outgoing: Final[deque[bytes | Message]] = deque()
        self._news: Final = asyncio.Event()
        """There is something to send, or something to look at for whoever waits for it to be sent."""
        self._stepped: Final = asyncio.Event()
        self._timers: Final[list[asyncio.TimerHandle]] = []
        self._conversation: Conversation | None = None
        """On this link, once there is an agreement."""
        self._agreed: Agreed | None = None
        """On the last link that had an agreement."""
        self._lost: Final[deque[str]] = deque(maxlen=_LOST_MAX)
        self._arena: ArenaReader | None = None
        """Where large values are, on this link."""
        self._closing: Close | None = None
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None

    # ---- reading --------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[NodeId, Node]:
        """What is known, node by node."""
        return self._mirror.replica.nodes

    @property
    def machine(self) -> Mirror:
        """The mirror itself, to be read: edges, roots, who reads whom."""
        return self._mirror

    @property
    def epoch(self) -> int | None:
        """The last one that was applied; None before the first snapshot."""
        return self._mirror.epoch

    @property
    def is_current(self) -> bool:
        """Whether there is a link, and the mirror follows the graph over it."""
        return self._mirror.is_current

    @property
    def is_over(self) -> bool:
        """Whether it is left, or has failed in a way that dialling again does not mend."""
        return self._task is None or self._task.done()

    def find(self, name: Name) -> Node:
        """A node by key or id. Raises ``UsageError`` where there is none, for all that is known here."""
        node = self._mirror.replica.find(name) if isinstance(name, str) else self.nodes.get(name)
        if node is None:
            raise UsageError(f"there is no node {name!r}, or it is not for us to see")
        return node

    def value(self, name: Name) -> object:
        """The value of a node, as its type tag says; None where it has none. A stale one is the last that was told."""
        node = self.find(name)
        return self._tags.decode(node.tag, node.value) if isinstance(node.value, bytes) else None

    def values(self) -> dict[str, object]:
        """All values, by key; by id, as text, where there is no key."""
        return {node.key or str(id): self.value(id) for id, node in self.nodes.items()}

    def updates(self) -> Updates:
        """What changes, to be iterated over with ``async for``."""
        updates = Updates(self)
        self._updates.add(updates)
        return updates

    # ---- writing --------------------------------------------------------------------------------------------------

    async def write(self, values: Mapping[Name, object]) -> None:
        """Write cells, all at once for whoever sees them. What is not allowed is dropped there, without a word.

        Raises ``UsageError`` for a value that its tag does not allow, and for what is longer than a frame may be;
        nothing is kept or sent then. Where the other side acknowledges writes, they outlive the link: see
        ``acknowledged``.
        """
        writes = tuple(
            CellSet(node.id, self._tags.encode(node.tag, value))
            for node, value in [(self.find(name), value) for name, value in values.items()]
        )
        self._check_length(writes)
        self._step(WriteCells(writes))
        await self._room()

    async def trigger(self, name: Name) -> None:
        """Run the effect of a node, where that is allowed. Raises ``UsageError`` while there is no link."""
        self._step(Trigger(self.find(name).id))
        await self._room()

    async def acknowledged(self) -> None:
        """Wait until all that was written has been taken there.

        Raises ``WritesLost``, once, for what was given up since this was last asked: its node is not there any more,
        or it was sent to a server that has been started anew since, and may have done it or not.
        """
        while self._mirror.unacknowledged:
            self.raise_failure()
            self._stepped.clear()
            await self._stepped.wait()
        if self._lost:
            lost = tuple(self._lost)
            self._lost.clear()
            raise WritesLost(lost)

    def _check_length(self, writes: tuple[CellSet, ...]) -> None:
        """A frame that no link would take must not be kept: everything behind it would wait for ever."""
        agreed = self._agreed
        sizes = [len(write.value) for write in writes if isinstance(write.value, bytes)]
        if agreed is None or _VALUE_GROWTH * sum(sizes) + _WRITE_BYTES * (len(writes) + 1) <= agreed.frame_bytes_max:
            return
        # The largest numbers that it could go out with.
        _converse(agreed).write(Delta(SAFE_INTEGER_MAX - 1, SAFE_INTEGER_MAX, writes))

    async def _room(self) -> None:
        while len(self._outgoing) > _UNSENT_MAX and not self.is_over:
            self._stepped.clear()
            await self._stepped.wait()

    # ---- its life -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._first = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep())
        self._task.add_done_callback(lambda _: self._stir())
        try:
            await asyncio.wait({self._first, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if self._first.done():
                self._first.result()
            self.raise_failure()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self._stop()

    def raise_failure(self) -> None:
        """Raise what has ended it, if anything has."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def _stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        self._stir()

    def _stir(self) -> None:
        self._stepped.set()
        for updates in tuple(self._updates):
            updates.stir()

    async def _keep(self) -> None:
        def tell(lost: reconnect.Lost) -> None:
            # What fails before the first snapshot is raised by entering, and was no link.
            if self.epoch is not None or self._settings.patient:
                self._tell_lost(lost)

        await reconnect.keep(self._once, backoff=self._backoff, tell=tell)

    async def _once(self) -> Once:
        """One link."""
        loop = asyncio.get_running_loop()
        try:
            channel = await self._dial()
            since = loop.time()
            why = await self._drive(channel)
        except BobbinError as error:
            self._settle(error)
            raise
        return Once(was_good=True, why=why, seconds=loop.time() - since)

    def _settle(self, error: BobbinError | None) -> None:
        """The first attempt has led to something, or not."""
        if self._first is None or self._first.done():
            return
        if error is None:
            self._first.set_result(None)
        elif not self._settings.patient:
            self._first.set_exception(error)

    async def _drive(self, channel: Channel) -> str:
        """Until the link is over; returns why. Raises ``PeerError`` if it never was of use."""
        self._closing = self._conversation = None
        self._outgoing.clear()
        tasks: set[asyncio.Task[str]] = set()
        try:
            self._step(Opened())
            tasks = {asyncio.create_task(self._read(channel)), asyncio.create_task(self._write(channel))}
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            why = next(iter(done)).result()
            self._check_end(why)
            return why
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for timer in self._timers:
                timer.cancel()
            self._timers.clear()
            self._step(Lost())
            if self._arena is not None:
                self._arena.close()
                self._arena = None
            await channel.close()

    def _check_end(self, why: str) -> None:
        phase, closing = self._mirror.phase, self._closing
        if closing is not None:
            raise PeerError(closing.code, closing.detail)
        if phase is MirrorPhase.GREETING:
            known = "what we have shown is not known there, or goes with another id than ours"
            why = f"{why}, before its handshake: {known}, or it takes no more links now"
            raise PeerError(CLOSED_EARLY, why)
        if phase is MirrorPhase.AWAITING:
            raise PeerError(CLOSED_EARLY, f"{why} before its snapshot")

    # ---- frames ---------------------------------------------------------------------------------------------------

    async def _read(self, channel: Channel) -> str:
        while self._closing is None:
            try:
                raw = await channel.receive()
            except TransportError as error:
                return str(error)
            except FrameFault as fault:
                # Where the next frame would begin, nobody knows. The next link has a snapshot.
                return str(fault)
            event = self._heard(raw)
            if event is not None:
                self._step(event)
            # What is there already would be read without a pause, and others want to see it.
            await asyncio.sleep(0)
        return self._closing.detail

    def _heard(self, raw: bytes) -> MirrorEvent | None:
        """What a frame is to the mirror; None for a piece of one."""
        try:
            if self._conversation is None:
                return Greeted(handshake.decode(raw))
            message = self._conversation.read(raw)
            if message is not None and self._arena is not None:
                message = resolve(message, self._arena)
        except FrameFault as fault:
            return Undecodable(fault.code, str(fault))
        except IntegrityError as error:
            # It came too late, and other values are there by now. There is a snapshot for the asking.
            return Undecodable(Fault.BLOB.value, str(error))
        return None if message is None else Received(message)

    async def _write(self, channel: Channel) -> str:
        while self._closing is None:
            self._news.clear()
            while self._outgoing:
                next_one = self._outgoing.popleft()
                try:
                    for frame in self._frames(next_one):
                        await channel.send(frame)
                except TransportError as error:
                    return str(error)
                self._stepped.set()
            await self._news.wait()
        return self._closing.detail

    def _frames(self, outgoing: bytes | Message) -> tuple[bytes, ...]:
        if isinstance(outgoing, bytes):
            return (outgoing,)
        assert self._conversation is not None, "nothing is sent before there is an agreement"
        try:
            return self._conversation.write(outgoing)
        except UsageError as error:
            if not isinstance(outgoing, Delta) or not outgoing.operations:
                raise PeerError("oversized", str(error)) from error
            # A write from a link with longer frames. Sent again, it would be no shorter: its number goes without it.
            frames = self._conversation.write(structs.replace(outgoing, operations=()))
            self._step(TooLong(outgoing.epoch, str(error)))
            return frames

    # ---- the machine ----------------------------------------------------------------------------------------------

    def _step(self, event: MirrorEvent) -> None:
        for effect in self._mirror.step(event):
            self._perform(effect)
        agreed = self._mirror.agreed
        if isinstance(event, Greeted) and agreed is not None and self._conversation is None:
            self._agreed = agreed
            self._conversation = _converse(agreed)
            self._arena = self._open_arena(agreed, event.capabilities)
        self._stepped.set()

    def _open_arena(self, agreed: Agreed, theirs: Capabilities) -> ArenaReader | None:
        """Where the values are that are not in frames. Raises ``BobbinError`` where that cannot be seen from here."""
        name = named_in(theirs.features) if agreed.shared_blob else None
        return None if name is None else ArenaReader(name)

    def _perform(self, effect: MirrorEffect) -> None:
        match effect:
            case Greet(capabilities):
                self._put(handshake.encode(capabilities))
            case Send(message):
                self._put(message)
            case Ask(op):
                self._put(remote_op.encode(op))
            case Wake(token, after_ms):
                self._timers.append(asyncio.get_running_loop().call_later(after_ms / 1_000, self._woke, token))
            case Updated():
                self._settle(None)
                for updates in tuple(self._updates):
                    updates.put(effect)
            case Close():
                self._closing = effect
                self._news.set()
            case Notify(Refused(code, detail)) if code == LOST_WRITE:
                self._lost.append(detail)
            case Deliver() | Notify():
                pass
            case _:
                assert_never(effect)

    def _woke(self, token: int) -> None:
        now = asyncio.get_running_loop().time()
        self._timers[:] = [timer for timer in self._timers if timer.when() > now]
        self._step(Woke(token))

    def _put(self, outgoing: bytes | Message) -> None:
        self._outgoing.append(outgoing)
        self._news.set()

    def _capabilities(self) -> Capabilities:
        settings = self._settings
        return Capabilities(
            peer=self._peer,
            session=settings.session,
            codec=settings.codec.value,
            frame_bytes_max=settings.frame_bytes_max,
            fragmentation=settings.fragmentation,
            features=(*FEATURES, Feature.SHARED_BLOB.value) if settings.shares_memory else FEATURES,
        )


def _converse(agreed: Agreed) -> Conversation:
    published = agreed.base64 and agreed.codec is Codec.JSON
    return Conversation(agreed, form=Form.CANONICAL_JSON if published else None)


def connect_graph(
    address: str | Address,
    *,
    peer: int | None = None,
    token: str | None = None,
    key: SigningKey | None = None,
    verifier: Verifier | None = None,
    settings: ClientSettings = ClientSettings(),  # noqa: B008 (a frozen value)
    tls: TlsClient | None = None,
    allow_insecure: bool = False,
    tags: TypeTags | None = None,
    backoff: Backoff | None = None,
    lost: TellLost = lambda _: None,
) -> GraphMirror:
    """A mirror of the graph that is served at an address, for ``async with``. Nothing is dialled yet.

    An observer shows a token, with the id that goes with it, or proves a key, and then may demand that the server
    proves ``verifier``; or it shows nothing. ``lost`` hears of every link that is lost, before it is dialled again.
    Off this machine the link must be encrypted, unless ``allow_insecure``.
    """
    place = addresses.parse(address) if isinstance(address, str) else address
    credentials = Credentials(peer=None if peer is None else PeerId(peer), token=token, key=key, verifier=verifier)
    is_insecure = allow_insecure or settings.allow_insecure
    shares = settings.shares_memory and place.scheme is Scheme.UNIX
    chosen = structs.replace(settings, tls=tls or settings.tls, allow_insecure=is_insecure, shares_memory=shares)
    return GraphMirror(
        lambda: dial_graph(place, credentials, chosen),
        credentials.claims(is_own=place.scheme in OWN_SCHEMES),
        chosen,
        tags=tags or TypeTags.standard(),
        backoff=backoff or Backoff(longest_seconds=LONGEST_SECONDS),
        lost=lost,
    )
