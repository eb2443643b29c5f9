"""A client of a cluster: it finds the leader, follows it when it changes, and does no write twice.

Requests are pipelined: those that are made in one turn of the event loop travel in one frame, and any number may be
under way. Writes belong to a session. A write whose fate is not known (the channel broke, the leader lost its office)
is sent again under the same number, to whoever leads now, and the state machine does it once. What is still not known
when time is up is said to be so: ``OutcomeUnknown``.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from bobbin.cluster.key_value import SESSION_WINDOW, Kind, Outcome, client_id
from bobbin.cluster.names import Index, NodeId
from bobbin.cluster.raft.effects import Why
from bobbin.errors import BobbinError, PeerError, ResourceError, UsageError
from bobbin.runtime import cluster_links
from bobbin.runtime.cluster_certificate import Credentials
from bobbin.runtime.cluster_connection import Connection
from bobbin.runtime.cluster_links import Purpose
from bobbin.runtime.cluster_members import KnownMembers
from bobbin.runtime.cluster_requests import LOST, NOT_LEARNT, STOPPING, TIMED_OUT, TOO_FEW
from bobbin.transport.base import TransportError
from bobbin.transport.flow import FlowStream
from bobbin.wire.cluster import client as messages
from bobbin.wire.cluster.client import Answer, Done, Joined, Rejected, Report, Request, Row, Rows, Unknown, Value
from bobbin.wire.cluster.commands import decode_outcome
from bobbin.wire.cluster.lace import LaceSettle, LaceWrite

SECONDS: Final = 10.0
"""For a request with all its attempts."""
ATTEMPT_SECONDS: Final = 2.0
"""For one attempt; then somebody else is asked."""
_PAUSE_SECONDS: Final = 0.05
"""Before the next attempt, where nobody leads for now."""
_AGAIN: Final = frozenset(
    {
        Why.NOT_LEADER.value,
        Why.NO_QUORUM.value,
        Why.TRANSFERRING.value,
        Why.CHANGE_PENDING.value,
        Why.TOO_MUCH.value,
        Why.STORAGE.value,
        LOST,
        NOT_LEARNT,
        STOPPING,
        TIMED_OUT,
    }
)
"""Refusals after which another attempt, perhaps elsewhere, makes sense."""

_SOON: Final = frozenset({Why.NOT_CAUGHT_UP.value, TOO_FEW})
"""Refusals of a change that nodes which come up take back."""
_HERE: Final = NodeId("")

T = TypeVar("T", bound=Answer)


class OutcomeUnknown(ResourceError):
    """Time is up, and whether the write was done, or will be, is not known."""

    def __init__(self, why: str) -> None:
        super().__init__(f"whether it was done is not known: {why}", retry=True)
        self.why: Final = why


class NotAccepted(ResourceError):
    """The cluster has refused a request; nothing was changed."""

    def __init__(self, answer: Rejected) -> None:
        super().__init__(answer.text, retry=answer.why in _AGAIN)
        self.why: Final = answer.why
        self.leader: Final = answer.leader


class _Session:
    """The numbers of a client's writes. The answers to so many of the newest are remembered by the cluster."""

    def __init__(self, client: bytes) -> None:
        self.client: Final = client
        self._next = 1
        self._open: Final[dict[int, None]] = {}
        self._room: Final = asyncio.Event()

    async def begin(self) -> int:
        """The next number, when it is not too far ahead of the oldest that is open."""
        while self._open and self._next - next(iter(self._open)) >= SESSION_WINDOW - 1:
            self._room.clear()
            await self._room.wait()
        sequence = self._next
        self._next += 1
        self._open[sequence] = None
        return sequence

    def end(self, sequence: int) -> None:
        del self._open[sequence]
        self._room.set()


class ClusterClient(AbstractAsyncContextManager["ClusterClient"]):
    """Asks a cluster.

    ::

        async with ClusterClient(known, own=credentials) as cluster:
            await cluster.put(b"key", b"value")
            print(await cluster.get(b"key"))
    """

    def __init__(
        self,
        known: KnownMembers,
        *,
        own: Credentials | None = None,
        socket: Path | None = None,
        here: NodeId = _HERE,
        seconds: float = SECONDS,
    ) -> None:
        """By TLS with ``own`` credentials that the cluster knows, by the ``socket`` of a node of this machine, or both.

        With both, the socket is asked first; ``here`` is the node whose socket it is. Made in an event loop. Each
        request has so many ``seconds``.
        """
        if own is None and socket is None:
            raise UsageError("a client has credentials, or the socket of a node of this machine")
        if own is not None and socket is None and not known.directory.members:
            raise UsageError("no node is known")
        self._here: Final = here
        self._known = known
        self._own: Final = own
        self._socket: Final = socket
        self._seconds: Final = seconds
        self._connections: Final[dict[NodeId | None, Connection]] = {}
        self._dialling: Final[dict[NodeId, asyncio.Task[Connection]]] = {}
        self._failed: Final[dict[NodeId, tuple[TransportError, float]]] = {}
        """What came of the last channel to a node that did not come up, and when."""
        self._loop: Final = asyncio.get_running_loop()
        self._choice: NodeId | None = None
        """Whom to ask: who leads, as far as that was said."""
        self._turn = 0
        self._session: _Session | None = None
        self._opening: Final = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.close()

    async def close(self) -> None:
        """Let go of every channel."""
        tasks = list(self._dialling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connections = list(self._connections.values())
        self._connections.clear()
        await asyncio.gather(*(connection.close() for connection in connections))

    # ---- keys -------------------------------------------------------------------------------------------------------

    async def put(self, key: bytes, value: bytes) -> int:
        """Set a key; returns the version that it has by this."""
        outcome = await self._write(lambda who, sequence, number: messages.Put(number, key, value, who, sequence))
        return outcome.version

    async def delete(self, key: bytes) -> bool:
        """Take a key away; whether it was there."""
        outcome = await self._write(lambda who, sequence, number: messages.Delete(number, key, who, sequence))
        return outcome.kind is Kind.DELETED

    async def compare_and_swap(self, key: bytes, expected: bytes | None, value: bytes | None) -> bool:
        """Set a key, or take it away, if it has this value; whether it had. None stands for no value."""
        outcome = await self._write(
            lambda who, sequence, number: messages.CompareAndSwap(number, key, expected, value, who, sequence)
        )
        return outcome.kind is not Kind.DIFFERENT

    async def get(self, key: bytes, *, stale: bool = False) -> Value:
        """What a key holds. ``stale``: as the node that is asked has it, which may be old."""
        return await self._ask(Value, lambda number: messages.Get(number, key, not stale), anywhere=stale)

    async def scan(self, prefix: bytes = b"", *, stale: bool = False) -> AsyncIterator[Row]:
        """Keys with a prefix, in order. Each page is true at one moment; the pages together need not be."""
        after = b""
        while True:
            page = await self._ask(Rows, partial(_scan, prefix, after, linearizable=not stale), anywhere=stale)
            for row in page.rows:
                yield row
            if page.is_whole:
                return
            after = page.rows[-1].key

    # ---- operators --------------------------------------------------------------------------------------------------

    async def status(self, node: NodeId | None = None) -> Report:
        """How a node sees the cluster: this one, or without one, any that answers."""
        return await self._ask(Report, messages.Status, anywhere=True, node=node)

    async def members(self, node: NodeId | None = None) -> KnownMembers:
        """Who is known now: to this node, or without one, to any that answers. This client goes on with it."""
        joined = await self._ask(Joined, messages.Members, anywhere=True, node=node)
        self._known = KnownMembers.decode(joined.members)
        return self._known

    async def transfer(self, target: NodeId) -> None:
        """Hand leadership to another voter. Where that one does not take over in time, this is not tried again."""
        await self._ask(
            Done, lambda number: messages.Transfer(number, target), is_repeatable=False, final=frozenset({TIMED_OUT})
        )

    async def add(
        self, certificate: bytes, address: str, operator: bytes = b"", *, wants_vote: bool = True
    ) -> KnownMembers:
        """Take a node in; returns who is known then. Without ``wants_vote`` it listens until somebody has it vote."""
        kind = messages.Add if wants_vote else messages.AddListener
        joined = await self._ask(Joined, lambda number: kind(number, certificate, address, operator), is_change=True)
        return KnownMembers.decode(joined.members)

    async def invite(self, certificate: bytes, expires_ms: int) -> None:
        """Let the holder of a certificate join, until then."""
        await self._ask(Done, lambda number: messages.Invite(number, certificate, expires_ms), is_change=True)

    async def promote(self, node: NodeId) -> None:
        """Let a node vote that has only listened."""
        await self._ask(Done, lambda number: messages.Promote(number, node), is_repeatable=False)

    async def remove(self, node: NodeId) -> None:
        """Put a node out."""
        await self._ask(Done, lambda number: messages.Remove(number, node), is_repeatable=False)

    async def replace(self, additions: Sequence[NodeId], removals: Sequence[NodeId]) -> None:
        """Have these vote and those not, in one joint change; what is so already is done already.

        Waits until the new ones have caught up and enough of those who would vote then answer, or time is up.
        """
        await self._ask(
            Done,
            lambda number: messages.Replace(number, tuple(additions), tuple(removals)),
            is_change=True,
            later=_SOON,
        )

    async def renew(self, certificate: bytes, *, replaces: bytes) -> None:
        """Let an operator go on under another certificate."""
        await self._ask(Done, lambda number: messages.Renew(number, certificate, replaces), is_change=True)

    async def snapshot(self, node: NodeId | None = None) -> Index:
        """Have a node write a snapshot and cut its log; returns what the snapshot stands in for."""
        return Index((await self._ask(Done, messages.Snapshot, anywhere=True, node=node)).index)

    # ---- a replicated lace ------------------------------------------------------------------------------------------

    async def propose(self, command: bytes) -> Index:
        """Have a command of a replicated lace committed; returns its place. It has a token, and may be sent again."""
        deadline = self._deadline()
        doubt = ""
        while True:
            answer = await self._attempt(lambda number: LaceWrite(number, command), deadline)
            if isinstance(answer, Done):
                return Index(answer.index)
            doubt = self._weigh(answer, doubt)
            await self._pause(deadline, answer, doubt)

    async def settle(self, node: NodeId) -> None:
        """Wait until the store of a node holds all that was committed by now."""
        await self._ask(Done, LaceSettle, anywhere=True, node=node)

    # ---- asking -----------------------------------------------------------------------------------------------------

    def ask(
        self,
        kind: type[T],
        make: Callable[[int], Request],
        *,
        anywhere: bool = False,
        node: NodeId | None = None,
        seconds: float | None = None,
    ) -> Coroutine[object, object, T]:
        """Any request that may be sent again, made for the number that it gets; ``kind`` is the answer to it.

        Whoever leads is asked, or anybody, or one node, for the client's seconds, or ``seconds`` where they are fewer.
        Raises ``NotAccepted``, or ``TransportError`` when time is up.
        """
        deadline = self._deadline() if seconds is None else self._loop.time() + min(seconds, self._seconds)
        return self._ask(kind, make, anywhere=anywhere or node is not None, node=node, deadline=deadline)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """All that are known."""
        return tuple(self._known.directory.members)

    async def _write(self, make: Callable[[bytes, int, int], Request]) -> Outcome:
        """Do a write once, whatever happens on the way."""
        deadline = self._deadline()
        session = self._session or await self._open_session(Index(0), deadline)
        sequence, is_begun = await session.begin(), True
        doubt = ""
        try:
            while True:
                answer = await self._attempt(partial(make, session.client, sequence), deadline)
                if isinstance(answer, Done):
                    outcome = decode_outcome(answer.result)
                    if not outcome.kind.is_refusal:
                        return outcome
                    if outcome.kind is Kind.EXPIRED and not doubt:
                        # Nothing was done under this number, nor can be any more.
                        session.end(sequence)
                        is_begun = False
                        session = await self._open_session(Index(outcome.version), deadline)
                        sequence, is_begun = await session.begin(), True
                        continue
                    if outcome.kind in (Kind.FORGOTTEN, Kind.EXPIRED):
                        raise OutcomeUnknown("the cluster does not remember this write any more")
                    raise UsageError(f"this write makes no sense: {outcome.kind.name.lower().replace('_', ' ')}")
                doubt = self._weigh(answer, doubt)
                await self._pause(deadline, answer, doubt)
        finally:
            if is_begun:
                session.end(sequence)

    async def _ask(
        self,
        kind: type[T],
        make: Callable[[int], Request],
        *,
        anywhere: bool = False,
        node: NodeId | None = None,
        is_change: bool = False,
        is_repeatable: bool = True,
        final: Collection[str] = (),
        later: Collection[str] = (),
        deadline: float | None = None,
    ) -> T:
        """Ask until there is an answer. ``node``: this one and no other. Else the leader, unless it is for anybody.

        ``is_change``: that it may have been done is said in the end, as it is of whatever is not repeatable. ``final``:
        refusals after which it is not asked again; ``later``: those that say that it is too early.
        """
        deadline = self._deadline() if deadline is None else deadline
        doubt = ""
        unlearnt: Rejected | None = None
        while True:
            answer = await self._attempt(make, deadline, anywhere=anywhere, node=node)
            if isinstance(answer, kind):
                return answer
            may_be_done = self._weigh(answer, doubt, later)
            if may_be_done and not is_repeatable:
                raise OutcomeUnknown(may_be_done)
            doubt = may_be_done if is_change else ""
            if isinstance(answer, Rejected) and answer.why in final:
                raise NotAccepted(answer)
            if isinstance(answer, Rejected) and answer.why == NOT_LEARNT:
                unlearnt = answer
            if node is not None and isinstance(answer, TransportError):
                raise _failure(answer)
            if node is not None and unlearnt is not None:
                raise NotAccepted(unlearnt)
            # That a node runs and knows nothing yet says more than that another one does not run.
            await self._pause(deadline, unlearnt or answer, doubt)

    async def _attempt(
        self, make: Callable[[int], Request], deadline: float, *, anywhere: bool = False, node: NodeId | None = None
    ) -> Answer | TransportError:
        """Ask once; what went wrong with the channel is an answer, too."""
        connection = self._connections.get(self._choice if node is None else node)
        bound = min(deadline, self._loop.time() + ATTEMPT_SECONDS)
        try:
            if connection is None or not connection.is_open:
                connection = await self._connect(node, bound, anywhere=anywhere)
                if connection.failure is not None:
                    raise connection.failure
        except TransportError as error:
            return _Unreached(error)
        try:
            return await connection.ask(make, bound)
        except TransportError as error:
            if not connection.is_open:
                self._connections.pop(connection.node, None)
            if node is None:
                self._look_elsewhere()
            return error

    def _weigh(self, answer: Answer | TransportError, doubt: str, later: Collection[str] = ()) -> str:
        """Why a write may have been done in spite of all, after this answer; raises where asking again is no use.

        A refusal is of one attempt. It says nothing of those before it.
        """
        match answer:
            case _Unreached():
                return doubt
            case TransportError():
                return str(answer)
            case Unknown(_, text, leader):
                self._follow(leader)
                return text
            case Rejected(_, why, text, leader):
                if why in later:
                    return doubt
                if why not in _AGAIN:
                    raise OutcomeUnknown(f"{doubt}; then: {text}") if doubt else NotAccepted(answer)
                self._follow(leader)
                return doubt
            case _:
                raise PeerError("wrong-answer", f"a {type(answer).__name__} is no answer to this")

    def _deadline(self) -> float:
        """When a request that begins now is given up."""
        return self._loop.time() + self._seconds

    async def _pause(self, deadline: float, answer: Answer | TransportError, doubt: str) -> None:
        """Before the next attempt. Raises what was heard last, or what is in doubt, where there is no time for one."""
        is_early = isinstance(answer, Rejected) and answer.why in _SOON
        if self._choice is None or is_early or isinstance(answer, TransportError):
            await asyncio.sleep(min(_PAUSE_SECONDS, max(0.0, deadline - self._loop.time())))
        if self._loop.time() >= deadline:
            if doubt:
                raise OutcomeUnknown(doubt)
            if isinstance(answer, Rejected):
                raise NotAccepted(answer)
            if isinstance(answer, TransportError):
                raise _failure(answer)
            raise OutcomeUnknown("time is up")

    # ---- whom to ask ------------------------------------------------------------------------------------------------

    def _follow(self, leader: NodeId | None) -> None:
        """Somebody has said who leads, or that nobody does."""
        if leader is not None and self._own is not None and leader != self._choice:
            self._choice = leader
        else:
            self._look_elsewhere()

    def _look_elsewhere(self) -> None:
        self._choice = None
        self._turn += 1

    async def _connect(self, node: NodeId | None, bound: float, *, anywhere: bool) -> Connection:
        """A channel to a node; to whoever is next, where none is named. It goes on coming up when this gives up."""
        if node is None:
            node = self._choice
        if node is None:
            places = self._places()
            node = places[self._turn % len(places)]
            if not anywhere or len(places) == 1:
                self._choice = node
        task = self._dialling.get(node)
        if task is None:
            task = self._dialling[node] = self._loop.create_task(self._dial(node))
            task.add_done_callback(partial(self._dialled, node))
        try:
            async with asyncio.timeout_at(bound):
                connection = await asyncio.shield(task)
        except TimeoutError:
            self._look_elsewhere()
            error, at = self._failed.get(node, (self._late(node), bound))
            # That this one was not over yet says less than how the one just before it ended.
            raise (error if bound - at < ATTEMPT_SECONDS else self._late(node)) from None
        except TransportError:
            self._look_elsewhere()
            raise
        if anywhere and self._choice is None:
            self._choice = node
        return connection

    def _dialled(self, node: NodeId, task: "asyncio.Task[Connection]") -> None:
        self._dialling.pop(node, None)
        # Whoever waited for it has gone, perhaps.
        error = None if task.cancelled() else task.exception()
        if isinstance(error, TransportError):
            self._failed[node] = error, self._loop.time()

    def _late(self, node: NodeId) -> TransportError:
        return TransportError(f"{self._place_of(node)}: no answer in time", retry=True)

    def _place_of(self, node: NodeId) -> str:
        member = self._known.directory.members.get(node)
        return str(self._socket) if member is None else member.address

    def _places(self) -> list[NodeId]:
        members = list(self._known.directory.members)
        here = [] if self._socket is None else [self._here]
        return here + ([] if self._own is None else [node for node in members if node != self._here])

    async def _dial(self, node: NodeId) -> Connection:
        known = self._connections.get(node)
        if known is not None and known.is_open:
            return known
        if self._socket is not None and node == self._here:
            try:
                stream = await cluster_links.dial_socket(self._socket)
            except TransportError:
                if self._own is None or node not in self._known.directory.members:
                    raise
                stream = await self._dial_member(node)
        else:
            stream = await self._dial_member(node)
        connection = Connection(stream, node)
        try:
            async with asyncio.timeout(cluster_links.DIAL_SECONDS):
                await connection.opened()
        except TimeoutError:
            await connection.close()
            raise self._late(node) from None
        except BaseException:
            await connection.close()
            raise
        self._connections[node] = connection
        return connection

    async def _dial_member(self, node: NodeId) -> FlowStream:
        member = self._known.directory.members.get(node)
        if member is None:
            with suppress(BobbinError):
                await self._learn()
            member = self._known.directory.members.get(node)
        if member is None:
            raise TransportError(f"nobody knows where {node} is", retry=True)
        if self._own is None:
            raise TransportError(f"{node} is elsewhere, and there are no credentials to go there", retry=False)
        return await cluster_links.dial(self._own, member.address, member.certificates, Purpose.CLIENT)

    async def _learn(self) -> None:
        """Ask those with whom there is a channel who is known now."""
        for connection in list(self._connections.values()):
            if connection.is_open:
                answer = await connection.ask(messages.Members, self._loop.time() + ATTEMPT_SECONDS)
                if isinstance(answer, Joined):
                    self._known = KnownMembers.decode(answer.members)
                    return

    async def _open_session(self, since: Index, deadline: float) -> _Session:
        """A new session, whose id tells of an index that has been applied."""
        async with self._opening:
            if self._session is None or (since and int.from_bytes(self._session.client[:8], "big") < since):
                report = await self._ask(Report, messages.Status, anywhere=True, deadline=deadline)
                self._session = _Session(client_id(Index(max(since, report.applied_index)), secrets.token_bytes(8)))
            return self._session


def _scan(prefix: bytes, after: bytes, number: int, *, linearizable: bool) -> Request:
    return messages.Scan(number, prefix, after, messages.ROWS_MAX, linearizable)


class _Unreached(TransportError):
    """Nothing was sent, so nothing was done."""

    def __init__(self, error: TransportError) -> None:
        super().__init__(str(error), retry=error.retry)
        self.error: Final = error


def _failure(answer: TransportError) -> TransportError:
    return answer.error if isinstance(answer, _Unreached) else answer
