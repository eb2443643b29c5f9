"""A node: one lace on the network, with many links at once.

Every link has a machine of its own; all of them share one store. Streams are read and written in the event loop, and
everything that touches the store is done in one thread (``steps``), where links take turns. A new record wakes every
link once, however many commits there were in between.

What always holds: nobody learns anything of this lace before the door has let it in; every link ends with a reason that
has a name; whatever goes wrong on one link leaves the others and the node as they are.
"""

import asyncio
from collections import Counter, deque
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from importlib import metadata
from time import monotonic_ns
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from bobbin.errors import BobbinError, UsageError
from bobbin.interlace.events import PersistFailed
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.reasons import Reason
from bobbin.records import tai
from bobbin.runtime.admission import Door, Refusal
from bobbin.runtime.clock import tai_now
from bobbin.runtime.follows import Attempt, Dial, Follow, Lost, dial_known, ended_by
from bobbin.runtime.health import Condition, Health, Writable, judge
from bobbin.runtime.introduction import NotAdmitted, proof_counts
from bobbin.runtime.log import Repeats
from bobbin.runtime.node_link import NodeLink
from bobbin.runtime.node_settings import LinkBounds, NodeSettings
from bobbin.runtime.roster import Change, KnownPeer, Roster, Way, change, successor
from bobbin.runtime.serving import Serving
from bobbin.runtime.status import Direction, End, Ended, NodeStatus, PastLink
from bobbin.transport.base import Accept, ByteStream, Listener
from bobbin.transport.listen import Handshakes, Refused, Turned, listen
from bobbin.transport.tls import TlsServer
from bobbin.wire.address import Address, Scheme
from bobbin.wire.proof import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from bobbin.store.base import Stat

PAST_MAX: Final = 50
"""Links that are over and still shown."""
_CLOSE_SECONDS: Final = 10.0
"""How long links may take to let go of their streams once they are to end."""
_REFRESH_SECONDS: Final = 2.0
_TIDY_SECONDS: Final = 5.0
_OUR_DOING: Final = frozenset({End.PEER_CHANGED.value, End.PEER_REMOVED.value})


class Listen(Protocol):
    """Takes streams at an address. Raises ``TransportError``, or ``UsageError`` for unusable files."""

    async def __call__(
        self, address: Address, accept: Accept, /, *, handshakes: Handshakes, refused: Refused
    ) -> Listener: ...


def listen_with(tls: TlsServer | None) -> Listen:
    """Listening on real addresses, with this certificate where an address is encrypted."""

    async def take(address: Address, accept: Accept, *, handshakes: Handshakes, refused: Refused) -> Listener:
        secure = tls if address.scheme in (Scheme.TLS, Scheme.WSS) else None
        return await listen(address, accept, tls=secure, handshakes=handshakes, refused=refused)

    return take


class Node(AbstractAsyncContextManager["Node"]):
    """One lace on the network.

    ::

        async with Node(Serving(store, key, log=log), roster, settings) as node:
            ...

    ``stop`` and ``reload`` are for signals and watchers; both may be called at any time.
    """

    def __init__(
        self,
        serving: Serving,
        roster: Roster,
        settings: NodeSettings = NodeSettings(),  # noqa: B008 (a frozen value)
        *,
        take: Listen | None = None,
        dial: Dial | None = None,
    ) -> None:
        """``take`` and ``dial`` open streams; without them, those of the network are opened, ``take`` without TLS."""
        self.serving: Final = serving
        self.roster = roster
        self.settings = settings
        self._listen: Final = listen_with(None) if take is None else take
        self._dial: Final = self._dial_known if dial is None else dial
        self._door: Final = Door(settings.links, allow_insecure=settings.allow_insecure)
        self._listeners: Final[dict[Address, Listener]] = {}
        self._links: Final[dict[int, NodeLink]] = {}
        self._link_over: Final = asyncio.Event()
        self._follows: Final[dict[str, Follow]] = {}
        self._tasks: Final[dict[Follow, asyncio.Task[None]]] = {}
        """Of everybody who is dialled, and of those who are not to be dialled again and still have a link."""
        self._numbers = 0
        self._turn: Final = serving.steps.turn()
        self._repeats: Final = Repeats(serving.log)
        self._since_ns: Final = monotonic_ns()
        self._since: Final = tai.render(tai_now())
        self._stat: Stat | None = None
        self._past: Final[deque[PastLink]] = deque(maxlen=PAST_MAX)
        self._ended: Final[Counter[str]] = Counter()
        self._refused: Final[Counter[str]] = Counter()
        self._writable: Final = Writable(serving.store, serving.steps.turn())
        self._reloading: Final = asyncio.Lock()
        self.reload_failure: str | None = None
        """Why what was to be in force by now is not."""
        self.peers_file: str | None = None
        """Where the roster is read from, as whoever reads it says."""
        self._asking: asyncio.Future[Stat] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._stopping: asyncio.Task[None] | None = None

    # ---- starting and stopping --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.stop()

    async def start(self) -> None:
        """Listen, and dial those who are followed. What cannot be listened on is raised, and nothing is served."""
        await self.serving.start()
        self._unsubscribe = self.serving.wakes.subscribe(self._writable.note_success)
        try:
            await self._open_listeners(self.settings.listen, self.settings.links)
        except BaseException:
            await self.stop()
            raise
        self._follow_all()
        self._tidying = asyncio.create_task(self._tidy())
        self.serving.meter.peers.set(len(self.roster))
        addresses = [str(one.address) for one in self._listeners.values()]
        verifier = None if self.serving.key is None else self.serving.key.verifier
        self.serving.log.info("node-started", listening=addresses, peers=len(self.roster), verifier=verifier)

    async def stop(self, seconds: float | None = None) -> None:
        """Take no more links, let those that are up come to a fixed point, end the others, and let go of everything.

        ``seconds``: how long to wait for fixed points, instead of what the settings say. May be called again; every
        call returns when the node has stopped.
        """
        if self._stopping is None:
            grace = self.settings.links.stop_seconds_max if seconds is None else seconds
            self._stopping = asyncio.create_task(self._stop(grace))
        await asyncio.shield(self._stopping)

    async def _stop(self, seconds: float) -> None:
        self._door.is_closed = True
        self.serving.log.info("node-stopping", links=len(self._links))
        async with self._reloading:  # a change that is being taken up may be opening more of them
            for listener in self._listeners.values():
                await listener.close()
        for follow, task in self._tasks.items():
            if follow.link is None:
                task.cancel()
        for link in list(self._links.values()):
            link.leave(End.NODE_STOPPED, "the node stops")
        await self._until_empty(seconds)
        for link in list(self._links.values()):
            link.end(End.NODE_STOPPED, "the node stops; what had not come by then is left for the next link")
        await self._until_empty(_CLOSE_SECONDS)
        for link in list(self._links.values()):
            link.abort()
        await self._until_empty(_CLOSE_SECONDS)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.wait({self._tidying})
        self._unsubscribe()
        await self.serving.stop()
        await self._turn(self.serving.flush)
        await self.serving.steps.close()
        self._repeats.flush()
        self.serving.log.info("node-stopped", ended=dict(self._ended), refused=dict(self._refused))
        await asyncio.to_thread(self.serving.tracing.close)

    async def _tidy(self) -> None:
        """What can wait is done link by link, so that nobody else waits for it."""
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            await self._look_at_store()
            for link in list(self._links.values()):
                try:
                    await link.tidy()
                except BobbinError as error:
                    self._repeats.info("tidy-failed", type(error).__name__, detail=str(error), link=link.number)
                except Exception:  # a mistake of ours, which must not keep other links from being tidied
                    self.serving.log.exception("tidy-crashed", link=link.number)

    async def _look_at_store(self) -> None:
        try:
            await self._writable.look()
        except Exception:  # a mistake of ours, which must not keep links from being tidied
            self.serving.log.exception("probe-crashed")

    async def until_empty(self) -> None:
        """Wait until there is no link. For a node whose only stream is its standard input and output."""
        while self._links:
            self._link_over.clear()
            await self._link_over.wait()

    async def _until_empty(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.until_empty()

    # ---- links that peers open --------------------------------------------------------------------------------------

    async def _accept(self, stream: ByteStream) -> None:
        route = stream.route
        place = self._door.knock(route.origin, loopback=route.loopback, now_ns=monotonic_ns())
        if isinstance(place, Refusal):
            stream.abort()
            self._count_refusal(place.value, "", route.remote)
            return
        link = place.visitor = self._make_link(Direction.IN, route.address)
        try:
            ended = await link.run(
                stream,
                Role.RESPONDER,
                lambda introduction: self._door.admit(place, introduction, self.roster, link, now_ns=monotonic_ns()),
            )
            self._enter(link, ended, route.remote)
        finally:
            self._door.leave(place)
            self._forget(link)

    def _make_link(self, direction: Direction, address: Address, way: Way | None = None) -> NodeLink:
        self._numbers += 1
        bounds = self.settings.links
        link = NodeLink(self._numbers, self.serving, direction, address=str(address), bounds=bounds, way=way)
        self._links[link.number] = link
        return link

    def _forget(self, link: NodeLink) -> None:
        del self._links[link.number]
        self._link_over.set()

    def _enter(self, link: NodeLink, ended: Ended, remote: str) -> None:
        """A link is over: it goes into the books."""
        if ended.reason == Reason.STORE:
            failure = link.store_failure or PersistFailed(ended.detail)
            self._writable.note_failure(failure.detail, may_pass=failure.may_pass)
        if link.past is None:
            self._count_refusal(ended.reason, ended.detail, remote)
            return
        self._ended[ended.reason] += 1
        self._past.appendleft(link.past)

    def _turned_away(self, reason: Turned, remote: str) -> None:
        self._count_refusal(reason.value, "", remote)

    def _count_refusal(self, reason: str, detail: str, remote: str) -> None:
        self._refused[reason] += 1
        self.serving.meter.refused.labels(reason).inc()
        self._repeats.info("link-refused", reason, detail=detail, remote=remote)

    # ---- links that this node opens ---------------------------------------------------------------------------------

    def _follow_all(self) -> None:
        for known in self.roster.followed():
            if known.name not in self._follows:
                self._numbers += 1
                follow = Follow(self._numbers, known, self._attempt, self.settings.reconnect, tell=self._say_lost)
                self._follows[known.name] = follow
                task = self._tasks[follow] = asyncio.create_task(follow.run())
                task.add_done_callback(partial(self._forget_follow, follow))

    def _forget_follow(self, follow: Follow, task: asyncio.Task[None]) -> None:
        del task
        self._tasks.pop(follow, None)

    def _say_lost(self, lost: Lost) -> None:
        if self._stopping is not None:
            return
        # That something here was changed is told where it happens, and needs nobody's attention.
        tell = self._repeats.info if lost.ended.reason in _OUR_DOING else self._repeats.warning
        tell(
            "followed-peer-lost" if lost.was_up else "followed-peer-unreached",
            lost.ended.reason,
            peer=lost.known.name,
            address=str(lost.way.address),
            detail=lost.ended.detail,
            attempts=lost.attempts,
            next_attempt_seconds=lost.next_seconds,
        )

    async def _attempt(self, follow: Follow) -> Attempt:
        known, way = follow.known, follow.way
        place = self._door.dial()
        if isinstance(place, Refusal):
            return Attempt(Ended(at=tai.render(tai_now()), reason=place.value), was_good=False)
        link: NodeLink | None = None
        try:
            try:
                stream = await self._dial(known, way)
                self._check_way(stream)
            except NotAdmitted as error:
                self._count_refusal(error.code, str(error), str(way.address))
                return Attempt(ended_by(error.code, str(error)), was_good=False)
            except BobbinError as error:
                self.serving.meter.connects_failed.inc()
                return Attempt(ended_by(End.CONNECT_FAILED.value, str(error)), was_good=False)
            except Exception as error:  # a mistake of ours, which must not end the following
                self.serving.log.exception("connect-crashed", peer=known.name)
                detail = f"a mistake of this program ({type(error).__name__})"
                return Attempt(ended_by(End.CONNECT_FAILED.value, detail), was_good=False)
            if not follow.leads_by(way, known):
                await stream.close()
                return Attempt(_moved(known), was_good=True)
            link = follow.link = self._make_link(Direction.OUT, way.address, way)
            made = link
            ended = await link.run(
                stream,
                Role.INITIATOR,
                lambda introduction: self._door.admit_dialled(place, introduction, follow.known, made),
            )
            self._enter(link, ended, stream.route.remote)
            past = link.past
            if past is None:
                return Attempt(ended, was_good=False)
            return Attempt(ended, was_good=past.rounds > 0, seconds=past.seconds, was_up=True)
        finally:
            follow.link = None
            self._door.leave(place)
            if link is not None:
                self._forget(link)

    async def _dial_known(self, known: KnownPeer, way: Way) -> ByteStream:
        return await dial_known(known, way, allow_insecure=self._door.allow_insecure)

    def _check_way(self, stream: ByteStream) -> None:
        """Where no proof counts, nothing is said, not even that somebody here speaks the protocol."""
        if not (self._door.allow_insecure or proof_counts(stream.route)):
            stream.abort()
            detail = f"{stream.route.address} is not on this machine, and the link is not encrypted"
            raise NotAdmitted(Refusal.INSECURE.value, detail)

    # ---- other peers, other settings --------------------------------------------------------------------------------

    async def reload(self, roster: Roster, settings: NodeSettings | None = None) -> None:
        """From now on these hold: for new links at once, for those that are up as far as they can go on.

        A changed policy begins a new epoch on its links; other changed terms end them, and they come back under the new
        ones; links of peers that are gone end. A new address that cannot be listened on is raised, and then nothing has
        changed. Log, metrics and telemetry are as they were at the start.
        """
        async with self._reloading:
            if self._stopping is not None:
                raise UsageError("the node stops")
            wanted = self.settings if settings is None else settings
            await self._open_listeners(wanted.listen, wanted.links)
            for address in self._listeners.keys() - set(wanted.listen):
                await self._listeners.pop(address).close()
            self.roster, self.settings = roster, wanted
            self._door.change(wanted.links, allow_insecure=wanted.allow_insecure)
            self.serving.forget_but(roster)
            for link in list(self._links.values()):
                self._carry_over(link)
            self._carry_follows_over()
            self._follow_all()
            self.reload_failure = None
            self.serving.meter.reloads.inc()
            self.serving.meter.peers.set(len(roster))
            self.serving.log.info("node-reloaded", peers=len(roster), links=len(self._links))

    def note_failed_reload(self, message: str) -> None:
        """What was to hold from now on cannot: it is said until something else holds."""
        self.reload_failure = message
        self.serving.meter.reloads_failed.inc()

    async def _open_listeners(self, addresses: tuple[Address, ...], links: LinkBounds) -> None:
        opened: dict[Address, Listener] = {}
        handshakes = Handshakes(seconds=links.introduction_seconds_max)
        try:
            for address in addresses:
                if address not in self._listeners:
                    opened[address] = await self._listen(
                        address, self._accept, handshakes=handshakes, refused=self._turned_away
                    )
        except BaseException:
            for listener in opened.values():
                await listener.close()
            raise
        self._listeners.update(opened)

    def _carry_over(self, link: NodeLink) -> None:
        """What becomes of a link under another roster."""
        old = link.known
        if old is None:
            return
        new = successor(old, self.roster)
        match change(old, new, dialled=link.direction is Direction.OUT, way=link.way):
            case Change.GONE:
                link.end(End.PEER_REMOVED, f"{old.name} is not served any more")
            case Change.TERMS:
                link.end(End.PEER_CHANGED, f"the terms for {old.name} have changed")
            case Change.POLICY:
                assert new is not None, "a policy is somebody's"
                link.change_policy(new)
            case Change.NONE:
                link.known = new

    def _carry_follows_over(self) -> None:
        """A peer is its key: one that has another name is followed as before."""
        before = list(self._follows.values())
        self._follows.clear()
        for follow in before:
            new = successor(follow.known, self.roster)
            if new is not None and new.follow:
                self._follows[new.name] = follow
                follow.change(new, self.settings.reconnect)
                continue
            follow.is_over = True
            if follow.link is None:
                self._tasks[follow].cancel()
            else:
                follow.link.end(End.PEER_REMOVED, f"{follow.known.name} is not followed any more")

    # ---- what is told of it -----------------------------------------------------------------------------------------

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where the node really listens."""
        return tuple(listener.address for listener in self._listeners.values())

    @property
    def health(self) -> Health:
        """How the node is, and why."""
        return judge(
            stopping=self._stopping is not None,
            busy_seconds=self.serving.steps.busy_seconds,
            writable=self._writable,
            followed=len(self._follows),
            unlinked=self._unlinked(),
            reload_failed=self.reload_failure is not None,
        )

    def _unlinked(self) -> Counter[str]:
        whys = (follow.why_unlinked for follow in self._follows.values())
        return Counter(why for why in whys if why is not None)

    async def refresh(self) -> None:
        """Bring the figures up to date that the store has to be asked for; leave them if it is busy for long."""
        if self._asking is None or self._asking.done():
            # One question at a time, however many ask while the store is busy.
            self._asking = asyncio.ensure_future(self._turn(self.serving.store.stat))
        await asyncio.wait({self._asking}, timeout=_REFRESH_SECONDS)
        if self._asking.done():
            with suppress(BobbinError):
                self._stat = self._asking.result()
        meter = self.serving.meter
        if self._stat is not None:
            meter.store_records.set(sum(self._stat.records.values()))
            meter.store_bytes.set(self._stat.file_bytes)
            meter.quarantined.set(self._stat.quarantined)
        meter.steps_waiting.set(len(self.serving.steps))
        present = self.health.condition
        for condition in Condition:
            meter.condition.labels(condition.value).set(condition is present)
        meter.followed.set(len(self._follows))
        meter.unlinked.set(self._unlinked().total())
        for link in self._links.values():
            link.count_bytes()

    async def status(self) -> NodeStatus:
        """This moment."""
        await self.refresh()
        numbers = {follow.link.number for follow in self._follows.values() if follow.link is not None}
        links = [link.status() for link in self._links.values() if link.number not in numbers]
        links += [follow.status() for follow in self._follows.values()]
        health = self.health
        return NodeStatus(
            version=metadata.version("bobbin"),
            verifier=None if self.serving.key is None else self.serving.key.verifier,
            at=tai.render(tai_now()),
            since=self._since,
            age_seconds=round((monotonic_ns() - self._since_ns) / SECOND_NS, 3),
            stopping=self._stopping is not None,
            health=health.text,
            condition=health.condition.value,
            reload_failure=self.reload_failure,
            peers_file=self.peers_file,
            listening=tuple(str(address) for address in self.addresses),
            records=0 if self._stat is None else sum(self._stat.records.values()),
            peers=len(self.roster),
            links=tuple(sorted(links, key=lambda one: one.id)),
            past=tuple(self._past),
            ended=dict(self._ended),
            refused=dict(self._refused),
        )


def _moved(known: KnownPeer) -> Ended:
    return Ended(at=tai.render(tai_now()), reason=End.PEER_CHANGED.value, detail=f"{known.name} has moved meanwhile")
