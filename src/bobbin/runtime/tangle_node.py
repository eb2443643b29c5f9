"""Tangle sessions with any number of peers over one keeper of messages: dial them, and be dialled by them.

A peer that dials opens ``sync.connect``, and from there on both sides speak the nine phases. Two nodes of this project
may speak the modern mode instead. The dialling side finds out by the peer's manifest, a question that every real peer
answers; only where the manifest has ``tangles.connect`` is that opened. So a real peer never sees anything of it.

What one session stores, all sessions hear of, and tell their peers.

A peer that dials gets a place (``tangle_places``). It loses it if it opens no call for a while, or leaves a frame half
said; a peer with a call may be silent as long as nobody else needs the place.
"""

import asyncio
from collections.abc import Callable
from secrets import token_bytes
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.errors import BobbinError, PeerError
from bobbin.runtime.exchange import Work
from bobbin.runtime.introduction import NotAdmitted
from bobbin.runtime.tangle_link import QUIET_SECONDS, Keeper, Machine, QuietPeer, TangleLink, Traffic, at_once
from bobbin.runtime.tangle_places import PlaceBounds, Places
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern import ModernConfig, ModernSession
from bobbin.tangles.session import Session, SessionConfig
from bobbin.tangles.session_effects import Notice
from bobbin.transport import pzp
from bobbin.transport.base import TransportError
from bobbin.transport.muxrpc import CallFailed, Duplex, Link, Serve
from bobbin.transport.pzp import PeerListener, RefusedPeer
from bobbin.transport.secret_stream import SecretStream
from bobbin.wire.address import Address
from bobbin.wire.pzp import manifest
from bobbin.wire.pzp.address import PeerAddress
from bobbin.wire.pzp.faults import WireFault
from bobbin.wire.pzp.handshake import NETWORK_KEY

PHASES_CALL: Final = ("sync", "connect")
MODERN_CALL: Final = ("tangles", "connect")

CALLS_MAX: Final = 8
"""Calls that a peer which has dialled may have open at once. A real peer opens one."""

_SECRET_BYTES: Final = 32

WatchPeer: TypeAlias = Callable[[bytes, Notice], None]
"""Hears what happens in a session, with the key of the peer."""
LostPeer: TypeAlias = Callable[[bytes, BobbinError], None]
"""Hears why a session with a peer that had dialled is over, if not by anybody's wish."""


class Report(Struct, frozen=True, kw_only=True):
    """What came of a session that this side has dialled."""

    peer: bytes
    modern: bool
    notices: tuple[Notice, ...]
    traffic: dict[str, Traffic]
    """By phase, or frame of the modern mode: what the frames held, without what carried them."""
    bytes_in: int
    """Before encryption, with the heads of frames."""
    bytes_out: int


class TangleNode:
    """One party that speaks with PZP peers."""

    def __init__(
        self,
        own: Keypair,
        keeper: Keeper,
        *,
        work: Work = at_once,
        modern: bool = True,
        config: SessionConfig = SessionConfig(),  # noqa: B008 - a value that nobody can change
        watch: WatchPeer = lambda peer, notice: None,  # noqa: ARG005 - nobody watches
        lost: LostPeer = lambda peer, error: None,  # noqa: ARG005
        turned: RefusedPeer = lambda code, remote: None,  # noqa: ARG005
        network_key: bytes = NETWORK_KEY,
        quiet_seconds: float = QUIET_SECONDS,
        bounds: PlaceBounds = PlaceBounds(),  # noqa: B008
    ) -> None:
        """Without ``modern``, and with a keeper that has nothing for it, there are the nine phases alone.

        ``config``: how these behave. ``bounds``: of peers that dial. ``turned`` hears of those that were not let in.
        """
        self._own: Final = own
        self._keeper: Final = keeper
        self._work: Final = work
        self._modern: Final = modern and keeper.modern_library is not None
        self._config: Final = config
        self._watch: Final = watch
        self._lost: Final = lost
        self._turned: Final = turned
        self._network_key: Final = network_key
        self._quiet_seconds: Final = quiet_seconds
        self._places: Final = Places(bounds)
        self._sessions: Final[set[TangleLink]] = set()
        self._links: Final[set[Link]] = set()
        self._listeners: Final[list[PeerListener]] = []

    @property
    def sessions(self) -> int:
        """How many are under way."""
        return len(self._sessions)

    # ---- news -----------------------------------------------------------------------------------------------------

    def added(self, messages: tuple[MessageId, ...]) -> None:
        """Messages have come into the store: every session hears of them. Called in the event loop."""
        for session in tuple(self._sessions):
            session.added(messages)

    def open_runs(self, tangles: tuple[MessageId, ...]) -> None:
        """A goal was set while sessions are under way: each begins a run."""
        for session in tuple(self._sessions):
            session.open_runs(tangles)

    # ---- dialling -------------------------------------------------------------------------------------------------

    async def sync(
        self, address: PeerAddress, tangles: tuple[MessageId, ...], *, stop: asyncio.Event | None = None
    ) -> Report:
        """Dial a peer and bring these tangles up to date, and go on until ``stop`` is set, if there is one.

        Raises ``TransportError``, ``PeerError`` and ``QuietPeer``; what was committed stays.
        """
        stream = await self._dial(address)
        link = Link(stream)
        self._links.add(link)
        reading = asyncio.create_task(link.run())
        try:
            report = await self._sync_over(link, stream, tangles, stop)
            await link.close()
        except BaseException:
            # There is nobody to be polite to, or no time for it.
            link.abort()
            raise
        finally:
            self._links.discard(link)
            await asyncio.gather(reading, return_exceptions=True)
        return report

    async def _dial(self, address: PeerAddress) -> SecretStream:
        try:
            return await pzp.dial(address, self._own, network_key=self._network_key)
        except WireFault as fault:
            # Whoever does not have the key, or does not want ours, hangs up without a word.
            likely = "perhaps another key listens there than the address says, or it does not admit ours"
            raise WireFault(fault.fault, f"{fault}; {likely}") from fault

    async def _sync_over(
        self, link: Link, stream: SecretStream, tangles: tuple[MessageId, ...], stop: asyncio.Event | None
    ) -> Report:
        modern = self._modern and await self._understands_modern(link)
        duplex = await link.open(MODERN_CALL if modern else PHASES_CALL)
        notices: list[Notice] = []
        session = self._session(stream.peer, duplex, modern=modern, notices=notices)
        session.open_runs(tangles)
        self._sessions.add(session)
        running = asyncio.create_task(session.run())
        waiting = asyncio.create_task(_until_done(session, stop))
        try:
            await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                await running
                raise TransportError("the peer has ended the session before it was done", retry=True)
            await duplex.end()
        finally:
            self._sessions.discard(session)
            running.cancel()
            waiting.cancel()
            await asyncio.gather(running, waiting, return_exceptions=True)
            duplex.leave()
        return Report(
            peer=stream.peer,
            modern=modern,
            notices=tuple(notices),
            traffic=session.traffic,
            bytes_in=link.bytes_in,
            bytes_out=link.bytes_out,
        )

    async def _understands_modern(self, link: Link) -> bool:
        try:
            async with asyncio.timeout(self._quiet_seconds):
                said = await link.ask(manifest.NAME)
        except CallFailed:
            return False
        except TimeoutError:
            raise QuietPeer(f"the peer has said nothing for {self._quiet_seconds:g} seconds") from None
        return manifest.offers(said, MODERN_CALL)

    # ---- being dialled --------------------------------------------------------------------------------------------

    async def listen(self, place: Address, *, admits: Callable[[bytes], bool] = lambda peer: True) -> PeerListener:  # noqa: ARG005
        """Take peers at a place, until this node is closed."""
        listener = await pzp.listen(
            place, self._own, self._accept, admits=admits, network_key=self._network_key, refused=self._turned
        )
        self._listeners.append(listener)
        return listener

    async def _accept(self, stream: SecretStream) -> None:
        link = self._served(stream)
        route = stream.route
        try:
            place = self._places.take(stream.peer, route.origin, link, loopback=route.loopback)
        except NotAdmitted as error:
            stream.abort()
            self._lost(stream.peer, error)
            return
        self._links.add(link)
        ending = asyncio.create_task(self._end_when_silent(stream.peer, link))
        failure: BobbinError | None = None
        try:
            await link.run()
        except (PeerError, TransportError) as error:
            failure = error
        finally:
            self._places.leave(place)
            self._links.discard(link)
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
        failure = place.why or failure
        if failure is not None:
            self._lost(stream.peer, failure)

    def _served(self, stream: SecretStream) -> Link:
        async def speak_phases(duplex: Duplex) -> None:
            await self._serve(stream.peer, duplex, modern=False)

        async def speak_modern(duplex: Duplex) -> None:
            await self._serve(stream.peer, duplex, modern=True)

        def failed(error: Exception) -> None:
            if isinstance(error, BobbinError):
                self._lost(stream.peer, error)
            else:
                # A mistake of ours, told as the event loop tells those of tasks.
                words = "a session with a PZP peer failed"
                asyncio.get_running_loop().call_exception_handler({"message": words, "exception": error})

        serves: dict[tuple[str, ...], Serve] = {PHASES_CALL: speak_phases}
        if self._modern:
            serves[MODERN_CALL] = speak_modern
        return Link(stream, serves=serves, failed=failed, grew=self._places.check_unfinished, open_calls_max=CALLS_MAX)

    async def _end_when_silent(self, peer: bytes, link: Link) -> None:
        """Let go of a link that has nothing to wait for, or only the rest of a frame that does not come."""
        bound = self._quiet_seconds
        while True:
            await asyncio.sleep(max(bound - link.silent_seconds, bound / 8))
            is_pointless = not link.is_answering or link.unfinished_bytes > 0
            if is_pointless and link.silent_seconds >= bound:
                self._lost(peer, QuietPeer(f"the peer has said nothing for {bound:g} seconds"))
                await link.close()
                return

    async def _serve(self, peer: bytes, duplex: Duplex, *, modern: bool) -> None:
        session = self._session(peer, duplex, modern=modern, notices=None)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    def _session(self, peer: bytes, duplex: Duplex, *, modern: bool, notices: list[Notice] | None) -> TangleLink:
        """``notices`` is given by the side that dials, to have a report in the end."""

        def watch(notice: Notice) -> None:
            if notices is not None:
                notices.append(notice)
            self._watch(peer, notice)

        machine = self._machine(modern=modern, dialler=notices is not None)
        return TangleLink(
            duplex,
            machine,
            self._keeper,
            work=self._work,
            spread=self.added,
            watch=watch,
            modern=modern,
            quiet_seconds=self._quiet_seconds,
        )

    def _machine(self, *, modern: bool, dialler: bool) -> Machine:
        if not modern:
            return Session(self._config, self._keeper.library)
        library = self._keeper.modern_library
        assert library is not None, "the modern mode is offered where there is something for it"
        return ModernSession(ModernConfig(secret=token_bytes(_SECRET_BYTES), dialler=dialler), library)

    # ---- end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Take no more peers, and say goodbye to those that are there."""
        for listener in self._listeners:
            await listener.close()
        await asyncio.gather(*(link.close() for link in tuple(self._links)))


async def _until_done(session: TangleLink, stop: asyncio.Event | None) -> None:
    if stop is None:
        await session.settled()
    else:
        await stop.wait()
