"""A node of a replicated lace: the cluster's node with the lace's machine on its log, and the store over both.

Whoever runs it has one event loop. In it are the node of the cluster and a client of it, which takes commands to
whoever leads. The store is written by the thread of the keeper alone; those who serve the lace read it in a thread of
theirs (``store``).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from msgspec import Struct, structs
from structlog.typing import FilteringBoundLogger

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Why
from bobbin.cluster.raft.entries import Entry
from bobbin.errors import BobbinError
from bobbin.runtime.cluster_attachment import Attachment, Host
from bobbin.runtime.cluster_audit import Audit
from bobbin.runtime.cluster_certificate import Credentials
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_contact import Contact
from bobbin.runtime.cluster_members import KnownMembers
from bobbin.runtime.cluster_node import ClusterNode
from bobbin.runtime.cluster_port import Port
from bobbin.runtime.cluster_requests import INVALID, TIMED_OUT
from bobbin.runtime.cluster_settings import ClusterSettings
from bobbin.runtime.replicated_commands import CLIENT_TAGS, CompareRoot, encode
from bobbin.runtime.replicated_effects import LeaderEffects
from bobbin.runtime.replicated_keeper import LaceKeeper
from bobbin.runtime.replicated_proposing import Proposing
from bobbin.runtime.replicated_store import ReplicatedStore
from bobbin.store.raft_storage import RaftStorage
from bobbin.store.sqlite import open_store
from bobbin.wire.cluster.client import Answer, Done, Rejected, Request, Unknown
from bobbin.wire.cluster.lace import LaceSettle, LaceWrite

SETTLE_SECONDS: Final = 10.0
APPOINT_SECONDS: Final = (1.0, 30.0)
"""Before a leader tries again to take up the right to fire effects: at first, and after a while."""
_ANY_KEY: Final = b"lace"
"""Read to learn how far the leader is; there need not be anything under it."""


class NodeParts(Struct, frozen=True, kw_only=True):
    """What the folder of a node holds."""

    settings: ClusterSettings
    own: Credentials
    operator: Credentials
    node: NodeId
    known: KnownMembers
    storage: RaftStorage
    audit: Path
    socket: Path
    records: Path
    """The database."""
    remember: Callable[[KnownMembers], None]


class _Relay:
    """Gives the answer to a command back under the number that a client gave it."""

    def __init__(self, port: Port, number: int) -> None:
        self._port: Final = port
        self._number: Final = number

    def answer(self, answer: Answer) -> None:
        assert isinstance(answer, Done | Rejected | Unknown)
        self._port.answer(structs.replace(answer, number=self._number))


class _Nobody:
    """Does not wait for an answer."""

    def answer(self, answer: Answer) -> None: ...


class LaceAttachment(Attachment):
    """What a node of a cluster does besides when its log leads a lace."""

    def __init__(self, keeper: LaceKeeper, *, appoint: Callable[[Term], None], dismiss: Callable[[], None]) -> None:
        """``appoint`` and ``dismiss`` hear, in the event loop, when this node leads and when it does not any more."""
        self._keeper: Final = keeper
        self._appoint: Final = appoint
        self._dismiss: Final = dismiss
        self._host: Host | None = None
        self._leads = False
        self._waiting: list[tuple[Index, asyncio.Future[None]]] = []
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self.client: ClusterClient | None = None
        """By which it is learnt how far the leader is."""

    def attach(self, host: Host) -> None:
        self._host = host

    def lead(self, term: Term) -> None:
        self._leads = True
        self._appoint(term)

    def follow(self) -> None:
        self._leads = False
        self._dismiss()

    def applied(self, entries: Sequence[Entry], answers: Sequence[bytes]) -> None:
        del answers
        self._reach(entries[-1].index)

    def restored(self, index: Index) -> None:
        self._reach(index)

    def note_root(self, index: Index, root: bytes) -> None:
        """A root was noted; a leader has the others compare theirs."""
        if self._leads and self._host is not None:
            self._host.requests.propose(_Nobody(), [encode(CompareRoot(index, root))])

    def take(self, port: Port, request: Request) -> bool:
        """A command, or the wish that this node has caught up."""
        if isinstance(request, LaceWrite):
            assert self._host is not None, "a node that is asked is attached"
            if request.command[1] not in CLIENT_TAGS:
                port.answer(Rejected(request.number, INVALID, "this is no command of a lace for a client to give"))
            elif self._keeper.is_crowded:
                port.answer(Rejected(request.number, Why.TOO_MUCH.value, "the store of the leader is behind its log"))
            else:
                self._host.requests.propose(_Relay(port, request.number), [request.command])
            return True
        if isinstance(request, LaceSettle):
            task = asyncio.get_running_loop().create_task(self._settle(port, request.number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return True
        return False

    async def _settle(self, port: Port, number: int) -> None:
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                index = await self._catch_up()
        except (BobbinError, TimeoutError) as error:
            text = str(error) or "this node has not done in time what is committed"
            port.answer(Rejected(number, TIMED_OUT, text[:1_000]))
        else:
            port.answer(Done(number, index))

    async def _catch_up(self) -> Index:
        """Learn from the leader how far it is, and wait until the store of this node is there."""
        client, host = self.client, self._host
        assert client is not None, "it is given before the node starts"
        assert host is not None, "a node that is asked is attached"
        index = Index((await client.get(_ANY_KEY)).index)
        if host.state.index < index:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((index, reached))
            await reached
        await asyncio.wrap_future(self._keeper.after(lambda: None))
        return index

    def _reach(self, index: Index) -> None:
        if not self._waiting:
            return
        for place, reached in self._waiting:
            if place <= index and not reached.done():
                reached.set_result(None)
        self._waiting = [(place, reached) for place, reached in self._waiting if not reached.done()]

    def root(self, index: Index) -> bytes | None:
        """That of the store, once its thread has done all that is applied, and nothing beyond, as after a restart."""
        state, queued = self._keeper.state, self._keeper.queued
        return state.root if queued <= min(state.applied, index) else None

    def gauges(self) -> dict[str, float]:
        state = self._keeper.state
        return {
            "lace_applied_index": state.applied,
            "lace_high_water": state.high_water,
            "lace_waiting_entries": max(0, self._keeper.queued - state.applied),
        }

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class ReplicatedNode(AbstractAsyncContextManager["ReplicatedNode"]):
    """One node of a replicated lace, running. Made in an event loop."""

    def __init__(self, parts: NodeParts, *, now: Callable[[], int], log: FilteringBoundLogger) -> None:
        """Raises ``StoreError`` and ``UsageError`` where the store cannot be used; the storage is open then."""
        self._parts: Final = parts
        self._log: Final = log
        self._now: Final = now
        self._loop: Final = asyncio.get_running_loop()
        self._keeper: Final = LaceKeeper(parts.records, now=now, broke=self._broke, noted=self._noted)
        self._attachment: Final = LaceAttachment(self._keeper, appoint=self._appoint, dismiss=self._dismiss)
        try:
            self.node: Final = ClusterNode(
                parts.settings,
                parts.own,
                parts.node,
                parts.known,
                parts.storage,
                audit=Audit(parts.audit),
                log=log,
                remember=parts.remember,
                sources=[self._keeper],
                attachments=[self._attachment],
            )
            self.client: Final = ClusterClient(
                parts.known, own=parts.operator, socket=parts.socket, here=parts.node, seconds=SETTLE_SECONDS
            )
        except BaseException:
            self._keeper.close()
            raise
        self._attachment.client = self.client
        proposing = Proposing(self._loop, self.client, self._keeper, parts.node)
        self.effects: Final = LeaderEffects(proposing, lambda: self._keeper.effects().result())
        """Fired by whichever node leads, at most once each."""
        self.store: Final = ReplicatedStore(
            open_store(parts.records, now=now), proposing, now=now, subscribe=self._keeper.subscribe
        )
        self._appointing: asyncio.Task[None] | None = None
        self._contact: Contact | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.stop()

    async def start(self) -> None:
        """Take part."""
        try:
            await self.node.start(self._parts.socket)
        except BaseException:
            await self._let_go()
            raise
        self._contact = Contact(self.node, self._parts.own, self._log)

    async def stop(self) -> None:
        """Take part no more, and let go of everything. What serves the lace has stopped before."""
        if self._contact is not None:
            await self._contact.close()
        await self.node.stop()
        await self._let_go()

    async def _let_go(self) -> None:
        self._dismiss()
        await self.client.close()
        await asyncio.to_thread(self._keeper.close)
        self.store.close()

    # ---- what the parts tell each other -----------------------------------------------------------------------------

    def _appoint(self, term: Term) -> None:
        self.effects.lead(term)
        self._appointing = self._loop.create_task(self._take_office(term))

    async def _take_office(self, term: Term) -> None:
        """Take up the right to fire, however long that takes, while this node leads in that term."""
        pause, longest = APPOINT_SECONDS
        while self.effects.leads(term):
            try:
                await asyncio.to_thread(self.effects.appoint, term)
            except BobbinError as error:
                # Whoever wants an effect hears meanwhile that this node may not fire.
                self._log.warning("effects-not-appointed", term=term, detail=str(error))
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _dismiss(self) -> None:
        self.effects.dismiss()
        if self._appointing is not None:
            self._appointing.cancel()

    def _broke(self, why: str) -> None:
        self._post(partial(self.node.halt, why))

    def _noted(self, index: Index, root: bytes) -> None:
        self._post(partial(self._attachment.note_root, index, root))

    def _post(self, work: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the event loop has been closed
            self._loop.call_soon_threadsafe(work)
