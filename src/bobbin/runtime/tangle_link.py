"""One tangle session over one call of a peer: moves frames, commits, and says what happened.

The session itself is a pure machine (``bobbin.tangles``). Here everything that happens to it is put into one queue and
taken out of it one by one: the peer's frames, the ends of our own commits, and what came into the store by other ways.
What the session wants said goes into an outbox with a task of its own, so that reading never waits for writing: two
sides that both wait until the other reads would wait for ever. Where the outbox has grown too long, nothing more is
read until it is shorter; and a peer that takes nothing, or says nothing while a run of ours waits for it, is given up.

A session of the nine phases speaks JSON and one of the modern mode speaks bytes. What is neither is reported to the
session, and the stream goes on.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from bobbin.errors import PeerError, ResourceError
from bobbin.runtime.exchange import Work
from bobbin.tangles import modern_frames, phases
from bobbin.tangles.exchange import Library
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern_frames import ModernFrame, ModernLimits
from bobbin.tangles.modern_turns import ModernLibrary
from bobbin.tangles.phases import Frame, FrameLimits
from bobbin.tangles.session_effects import Commit, Effect, Finished, Notice, Notify, Send
from bobbin.tangles.session_events import Added, Committed, Event, OpenRuns, Received, Undecodable
from bobbin.transport.muxrpc import Body
from bobbin.wire.pzp.frames import BODY_BYTES_MAX, Kind

QUIET_SECONDS: Final = 60.0
"""How long a peer may say nothing, or take nothing, while it is its turn."""
OUTBOX_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait to be sent before the peer is no longer read."""
INBOX_BYTES_MAX: Final = 8 * 1024 * 1024
"""What may wait for the session before no more is taken; one frame may be larger than that."""
INBOX_FRAMES_MAX: Final = 64

NOT_A_FRAME: Final = "not-a-frame"

T = TypeVar("T")


class QuietPeer(ResourceError):
    """A peer said nothing, or took nothing, for too long. What was committed stays."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, retry=True)


class TooMuchAtOnce(ResourceError):
    """What a peer lacks does not fit into the one frame that the nine phases have for it. What was committed stays."""

    def __init__(self, size: int) -> None:
        detail = (
            f"what the peer lacks has {size:,} bytes, and the nine phases send it in one frame of {BODY_BYTES_MAX:,}"
        )
        super().__init__(
            f"{detail}; the modern mode sends parcels, and a peer that wants newest-N gets less", retry=False
        )


class Machine(Protocol):
    """A session, of either mode."""

    def step(self, event: Event) -> Sequence[Effect]: ...

    @property
    def is_idle(self) -> bool: ...


class Call(Protocol):
    """What a session runs over: the part of ``Duplex`` that it needs."""

    async def receive(self) -> Body | None: ...

    async def send(self, data: bytes, kind: Kind = Kind.JSON) -> None: ...


class Keeper(Protocol):
    """Whoever keeps the messages. Everything here is used where the store may be used."""

    @property
    def library(self) -> Library:
        """What sessions of the nine phases read."""
        ...

    @property
    def modern_library(self) -> ModernLibrary | None:
        """What sessions of the modern mode read; None where there are none."""
        ...

    def commit(self, commit: Commit) -> Committed:
        """Validate messages one by one and store what is valid, at once; returns when it is durable."""
        ...


class Traffic(Struct, kw_only=True):
    """What went both ways, in frames of one kind."""

    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


Watch: TypeAlias = Callable[[Notice], None]
Spread: TypeAlias = Callable[[tuple[MessageId, ...]], None]
"""Tells every session of a store, this one included, what has come into it."""


async def at_once(job: Callable[[], T], /) -> T:
    """Do a job here and now: for a keeper that belongs to the thread of the event loop."""
    return job()


class _Backlog:
    """What waits in a queue: how much it is, and whether there is room for more."""

    def __init__(self, bytes_max: int, count_max: int | None = None) -> None:
        self.bytes = 0
        self.room: Final = asyncio.Event()
        self.empty: Final = asyncio.Event()
        self._sizes: Final[deque[int]] = deque()
        self._bytes_max: Final = bytes_max
        self._count_max: Final = count_max
        self._tell()

    def put(self, size: int) -> None:
        self._sizes.append(size)
        self.bytes += size
        self._tell()

    def take(self) -> None:
        """The oldest is done with."""
        self.bytes -= self._sizes.popleft()
        self._tell()

    def _tell(self) -> None:
        has_room = self.bytes < self._bytes_max and (self._count_max is None or len(self._sizes) < self._count_max)
        for event, is_so in ((self.room, has_room), (self.empty, not self._sizes)):
            if is_so:
                event.set()
            else:
                event.clear()


class TangleLink:
    """One session, running."""

    def __init__(
        self,
        call: Call,
        machine: Machine,
        keeper: Keeper,
        *,
        work: Work,
        spread: Spread,
        watch: Watch = lambda notice: None,  # noqa: ARG005 - nobody watches
        modern: bool = False,
        quiet_seconds: float = QUIET_SECONDS,
        frame_limits: FrameLimits = FrameLimits(),  # noqa: B008 - a value that nobody can change
        modern_limits: ModernLimits = ModernLimits(),  # noqa: B008
    ) -> None:
        """``work`` runs every step and every commit. ``spread`` is told what a commit has added."""
        self.modern: Final = modern
        self.traffic: Final[dict[str, Traffic]] = {}
        """By the name of the phase, or of the frame of the modern mode."""
        self._call: Final = call
        self._machine: Final = machine
        self._keeper: Final = keeper
        self._work: Final = work
        self._spread: Final = spread
        self._watch: Final = watch
        self._quiet_seconds: Final = quiet_seconds
        self._frame_limits: Final = frame_limits
        self._modern_limits: Final = modern_limits
        self._events: Final[asyncio.Queue[Event]] = asyncio.Queue()
        self._inbox: Final = _Backlog(INBOX_BYTES_MAX, INBOX_FRAMES_MAX)
        """The peer's frames among the events."""
        self._outgoing: Final[asyncio.Queue[bytes]] = asyncio.Queue()
        self._outbox: Final = _Backlog(OUTBOX_BYTES_MAX)
        """The same, and what is being sent."""
        self._opened: Final[set[MessageId]] = set()
        """Tangles on which this side has asked for a run, and none has been finished since."""
        self._has_opened = False
        self._committing: Final[set[asyncio.Task[None]]] = set()
        self._settled: Final = asyncio.Event()
        self._settled.set()
        self._busy = 0
        """Events that have been put in and not been dealt with."""

    # ---- what others say ------------------------------------------------------------------------------------------

    def open_runs(self, tangles: tuple[MessageId, ...]) -> None:
        """Begin a run on each of these tangles."""
        self._opened.update(tangles)
        self._has_opened = True
        self._put(OpenRuns(tangles))

    def added(self, messages: tuple[MessageId, ...]) -> None:
        """Messages have come into the store."""
        self._put(Added(messages))

    async def settled(self) -> None:
        """Wait until every run that this side asked for is finished, nothing is under way, and all is sent."""
        while True:
            await self._settled.wait()
            await self._outbox.empty.wait()
            if self._settled.is_set():
                return

    # ---- life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Go on until the peer ends the call. Raises what its ``receive`` raises, and ``QuietPeer``."""
        tasks: tuple[asyncio.Task[None], ...]
        receiving, stepping, _ = tasks = (
            asyncio.create_task(self._receive_all()),
            asyncio.create_task(self._step_all()),
            asyncio.create_task(self._send_all()),
        )
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                # However it ended: what came before is still dealt with, and what it leads to is stored.
                joining = asyncio.create_task(self._events.join())
                tasks += (joining,)
                await asyncio.wait((joining, stepping), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive_all(self) -> None:
        while True:
            await self._outbox.room.wait()
            await self._inbox.room.wait()
            try:
                async with asyncio.timeout(self._quiet_seconds):
                    body = await self._call.receive()
            except TimeoutError:
                if self._busy or self._outbox.bytes or not self._has_opened or self._machine.is_idle:
                    continue
                raise QuietPeer(f"the peer has said nothing for {self._quiet_seconds:g} seconds") from None
            if body is None:
                return
            self._inbox.put(len(body.data))
            self._put(self._read(body))

    def _put(self, event: Event) -> None:
        self._busy += 1
        self._settled.clear()
        self._events.put_nowait(event)

    async def _step_all(self) -> None:
        while True:
            event = await self._events.get()
            try:
                await self._step(event)
            finally:
                self._busy -= 1
                self._events.task_done()
                if isinstance(event, Received | Undecodable):
                    self._inbox.take()
            if not self._busy and not self._opened and self._machine.is_idle:
                self._settled.set()

    async def _step(self, event: Event) -> None:
        for effect in await self._work(lambda: self._machine.step(event)):
            match effect:
                case Commit():
                    await self._commit(effect)
                case Send(frame):
                    self._say(frame)
                case Notify(notice):
                    self._notice(notice)

    async def _commit(self, commit: Commit) -> None:
        """A commit that was begun is seen through, though nobody waits for it: the other sessions are to hear of it."""
        task = asyncio.create_task(self._commit_whole(commit))
        self._committing.add(task)
        task.add_done_callback(self._committing.discard)
        await asyncio.shield(task)

    async def _commit_whole(self, commit: Commit) -> None:
        committed = await self._work(lambda: self._keeper.commit(commit))
        self._put(committed)
        if committed.added:
            self._spread(committed.added)

    def _notice(self, notice: Notice) -> None:
        if isinstance(notice, Finished):
            self._opened.discard(notice.tangle)
        self._watch(notice)

    # ---- bytes ----------------------------------------------------------------------------------------------------

    def _read(self, body: Body) -> Event:
        if body.kind is not (Kind.BYTES if self.modern else Kind.JSON):
            return Undecodable(NOT_A_FRAME, f"a body of the kind {body.kind.name}")
        frame: Frame | ModernFrame
        try:
            if self.modern:
                frame = modern_frames.decode(body.data, self._modern_limits)
            else:
                frame = phases.decode(body.data, self._frame_limits)
        except PeerError as error:
            return Undecodable(error.code, str(error))
        traffic = self._traffic(frame)
        traffic.frames_in += 1
        traffic.bytes_in += len(body.data)
        return Received(frame)

    def _say(self, frame: Frame | ModernFrame) -> None:
        data = modern_frames.encode(frame) if isinstance(frame, ModernFrame) else phases.encode(frame)
        if len(data) > BODY_BYTES_MAX:
            raise TooMuchAtOnce(len(data))
        traffic = self._traffic(frame)
        traffic.frames_out += 1
        traffic.bytes_out += len(data)
        self._outbox.put(len(data))
        self._outgoing.put_nowait(data)

    def _traffic(self, frame: Frame | ModernFrame) -> Traffic:
        phase = getattr(frame, "phase", None)
        name = type(frame).__name__.lower() if phase is None else f"phase {phase}"
        return self.traffic.setdefault(name, Traffic())

    async def _send_all(self) -> None:
        kind = Kind.BYTES if self.modern else Kind.JSON
        while True:
            data = await self._outgoing.get()
            try:
                async with asyncio.timeout(self._quiet_seconds):
                    await self._call.send(data, kind)
            except TimeoutError:
                raise QuietPeer(f"the peer has taken nothing for {self._quiet_seconds:g} seconds") from None
            self._outbox.take()
