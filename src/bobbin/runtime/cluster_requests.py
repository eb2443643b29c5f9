"""What clients ask of a node, from the frame they came in to the answer.

Writes that come within one turn of the event loop, from however many clients, are one proposal: one record on the disk,
one message to each follower. Reads of one turn share one confirmation that this node still leads. Answers of one turn
to one client share a frame.

A write is answered when it is applied. If another entry was committed in its place, it was not done, and the answer
says so. If nobody can tell (leadership was lost, and time is up), the answer says that: ``Unknown``. The client may ask
again under the same number of its session, which does no write twice.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count, filterfalse
from typing import Final, Protocol, get_args

from bobbin.cluster import key_value
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Accepted, ReadReady, Refused, TransferDone, Why
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.events import (
    AddLearner,
    Event,
    JointChange,
    PromoteLearner,
    Propose,
    Read,
    RemoveNode,
    SnapshotWanted,
    Transfer,
)
from bobbin.cluster.settings import RaftConfig
from bobbin.errors import ResourceError
from bobbin.runtime.cluster_members import RESERVED, Rights
from bobbin.runtime.cluster_port import Patient, Port, Reader, Reading, Waiter
from bobbin.runtime.cluster_reads import look
from bobbin.runtime.cluster_settings import ClientBounds
from bobbin.runtime.cluster_state import State
from bobbin.wire.cluster import client
from bobbin.wire.cluster.chain import ChainBlocks, ChainHistory, ChainPending, ChainRead, ChainRequest, ChainVerify
from bobbin.wire.cluster.client import Answer, Done, Rejected, Request, Unknown
from bobbin.wire.cluster.commands import encode_command
from bobbin.wire.cluster.lace import LaceRequest

NOT_ALLOWED: Final = "not-allowed"
INVALID: Final = "invalid"
LOST: Final = "lost"
TIMED_OUT: Final = "timed-out"
STOPPING: Final = "stopping"
NOT_LEARNT: Final = "not-learnt"
"""The node has started again, and nobody has told it yet what of its log is committed."""
TOO_FEW: Final = "too-few"
"""Of those who would vote after a change, too few answer now."""
HALF_SO: Final = "half-so"
"""Of a change that is made as a whole, a part is so already, by another one."""
_PROPOSAL_MAX: Final = 1_000
"""Writes of one proposal, which the machine takes or refuses: what has room must not fall with what has none."""

_ATTACHED: Final = frozenset({*get_args(ChainRequest), *get_args(LaceRequest)})
"""Requests for what is attached to a node."""
_NOTHING_READ: Final = client.Get(0, b"-")
"""Stands for a read of the node itself, which looks where it likes."""

_TEXTS: Final = {
    Why.NOT_LEADER: "this node does not lead",
    Why.NO_QUORUM: "no majority of the voters can be reached",
    Why.TRANSFERRING: "leadership is being handed over",
    Why.CHANGE_PENDING: "another change of the members is not committed yet",
    Why.NOT_CAUGHT_UP: "that node has not caught up",
    Why.UNKNOWN_NODE: "there is no such node in the configuration",
    Why.IS_MEMBER: "that node votes already",  # to be taken in twice is no refusal to anybody
    Why.IS_LEADER: "that node leads; hand leadership to another one first",
    Why.TOO_MUCH: "too much is waiting, or it is too large",
    Why.STORAGE: "the disk failed",
    Why.NOTHING_NEW: "nothing has been applied since the last snapshot",
}
_NOT_LEARNT_TEXT: Final = "this node has not yet learnt what is committed: it has heard no leader since it started"
_LEADS_ALREADY: Final = "that node leads already"
"""Instead, where leadership is to go to whoever has it."""


class Core(Protocol):
    """A node, as far as requests need it."""

    @property
    def state(self) -> State: ...

    @property
    def has_learnt(self) -> bool:
        """Whether the state is of what is committed, be it old: not one that waits for its log to be applied."""
        ...

    def feed(self, event: Event) -> None:
        """Let the raft machine hear something."""
        ...

    def address_of(self, node: NodeId | None) -> str | None:
        """Where a node is reached, if that is known."""
        ...

    def report(self, number: int) -> Answer:
        """How this node sees the cluster."""
        ...

    def operate(self, port: "Port", request: client.Operation) -> None:
        """Do something that takes several steps."""
        ...

    def attend(self, port: Port, requests: Sequence[Request]) -> Sequence[Request]:
        """Do what something that is attached to the node knows of; those that nothing knows of."""
        ...


class Confirmed:
    """Waits for the word that this node leads and has applied all that was committed when it was asked."""

    def __init__(self, done: Callable[[Rejected | None], None]) -> None:
        self._done: Final = done

    def read(self, look: Callable[[Reading], Answer], request: Reading) -> None:
        del look, request
        self._done(None)

    def answer(self, answer: Answer) -> None:
        assert isinstance(answer, Rejected)
        self._done(answer)


class _Batch:
    """Entries of one proposal that wait to be applied."""

    __slots__ = ("count", "deadline", "first", "term")

    def __init__(self, first: Index, count: int, term: Term, deadline: float) -> None:
        self.first: Final = first
        self.count: Final = count
        self.term: Final = term
        self.deadline: Final = deadline


class Requests:
    """Everything that clients wait for at one node."""

    def __init__(
        self,
        core: Core,
        bounds: ClientBounds,
        *,
        clock: Callable[[], float],
        command_bytes_max: int = RaftConfig().command_bytes_max,
    ) -> None:
        """``command_bytes_max``: what the raft machine takes; more than that would be refused with its neighbours."""
        self._core: Final = core
        self._command_bytes_max: Final = command_bytes_max
        self._bounds: Final = bounds
        self._clock: Final = clock
        self._loop: Final = asyncio.get_running_loop()
        self._numbers: Final = count(1)
        self._commands: list[bytes] = []
        self._writers: list[tuple[Waiter, int]] = []
        self._readers: list[tuple[Reader, client.Get | client.Scan]] = []
        self._is_gathering = False
        self._proposed: Final[dict[int, list[tuple[Waiter, int]]]] = {}
        """By request, until the machine has accepted or refused it."""
        self._waiting: Final[dict[Index, tuple[Term, Waiter, int]]] = {}
        """By the place in the log."""
        self._batches: Final[deque[_Batch]] = deque()
        self._reading: Final[dict[int, tuple[float, list[tuple[Reader, client.Get | client.Scan]]]]] = {}
        self._ready: list[tuple[Index, int, float, list[tuple[Reader, client.Get | client.Scan]]]] = []
        """Reads that wait for an index to be applied, and until when; a heap."""
        self._transfers: Final[dict[int, tuple[Waiter, int, NodeId]]] = {}
        self._snapshots: Final[dict[int, tuple[Waiter, int]]] = {}
        self.counts: Final = {"writes": 0, "reads": 0, "unknown": 0, "rejected": 0, "proposals": 0}

    @property
    def waiting(self) -> int:
        """Writes that are neither done nor refused."""
        return len(self._waiting) + sum(map(len, self._proposed.values())) + len(self._commands)

    # ---- what clients ask -------------------------------------------------------------------------------------------

    def take(self, port: Port, requests: Sequence[Request]) -> None:
        """All that came in one frame."""
        port.in_flight += len(requests)
        if port.is_leaving:
            for request in requests:
                self._reject(port, request.number, NOT_ALLOWED, "this identity is not known any more")
        elif port.rights is not Rights.OPERATOR:
            self._take_invited(port, requests)
        else:
            self._take_all(port, requests)

    def _take_all(self, port: Port, requests: Sequence[Request]) -> None:
        attached: list[Request] = []
        for request in requests:
            kind = type(request)
            if kind is client.Put:
                assert isinstance(request, client.Put)
                self._write(
                    port,
                    request.number,
                    key_value.Put(request.client, request.sequence, request.key, request.value),
                )
            elif kind is client.Get or kind is client.Scan:
                assert isinstance(request, client.Get | client.Scan)
                self._read(port, request)
            elif kind in _ATTACHED:
                attached.append(request)
            else:
                self._take_other(port, request)
        if attached:
            self._attend(port, attached)

    def _take_other(self, port: Port, request: Request) -> None:
        match request:
            case client.Delete(number, key, who, sequence):
                self._write(port, number, key_value.Delete(who, sequence, key))
            case client.CompareAndSwap(number, key, expected, value, who, sequence):
                self._write(port, number, key_value.CompareAndSwap(who, sequence, key, expected, value))
            case client.Status(number):
                port.read(lambda _: self._core.report(number), request)
            case client.Transfer(number, target):
                asked = next(self._numbers)
                self._transfers[asked] = port, number, target
                self._core.feed(Transfer(asked, target))
            case client.Promote(number, node):
                self.change(port, number, PromoteLearner(next(self._numbers), node))
            case client.Remove(number, node):
                self.change(port, number, RemoveNode(next(self._numbers), node))
            case client.Snapshot(number):
                asked = next(self._numbers)
                self._snapshots[asked] = port, number
                self._core.feed(SnapshotWanted(asked))
            case client.Add() | client.Invite() | client.Members() | client.Renew() | client.Replace():
                self._core.operate(port, request)
            case _:
                raise AssertionError("the others are taken before")

    def _attend(self, port: Port, requests: Sequence[Request]) -> None:
        if not self._core.has_learnt:
            for request in filter(_is_unconfirmed, requests):
                self._reject(port, request.number, NOT_LEARNT, _NOT_LEARNT_TEXT)
            requests = list(filterfalse(_is_unconfirmed, requests))
        for request in self._core.attend(port, requests):
            self._reject(port, request.number, NOT_ALLOWED, "this cluster keeps nothing that knows such a request")

    def _take_invited(self, port: Port, requests: Sequence[Request]) -> None:
        for request in requests:
            if isinstance(request, client.Add | client.Members):
                self._core.operate(port, request)
            else:
                self._reject(port, request.number, NOT_ALLOWED, "an invitation is for joining, and for nothing else")

    def _write(self, port: Waiter, number: int, command: key_value.Command) -> None:
        wrong = key_value.why_invalid(command)
        if wrong is not None:
            self._reject(port, number, INVALID, f"this write makes no sense: {wrong.name.lower().replace('_', ' ')}")
        elif command.key.startswith(RESERVED):
            self._reject(port, number, NOT_ALLOWED, "keys that begin so belong to the cluster itself")
        else:
            encoded = encode_command(command)
            if len(encoded) > self._command_bytes_max:
                text = f"this write has {len(encoded):,} bytes, and the log takes {self._command_bytes_max:,} of one"
                self._reject(port, number, INVALID, text)
                return
            self._commands.append(encoded)
            self._writers.append((port, number))
            self._gather()

    def _read(self, port: Port, request: client.Get | client.Scan) -> None:
        if isinstance(request, client.Get) and request.key.startswith(RESERVED):
            self._reject(port, request.number, NOT_ALLOWED, "keys that begin so belong to the cluster itself")
            return
        if request.linearizable:
            self._readers.append((port, request))
            self._gather()
        elif self._core.has_learnt:
            port.read(self._look, request)
        else:
            self._reject(port, request.number, NOT_LEARNT, _NOT_LEARNT_TEXT)

    def propose(self, waiter: Waiter, commands: Sequence[bytes]) -> None:
        """Commands of the node itself; each is answered under the number of its place among them."""
        self._commands.extend(commands)
        self._writers.extend((waiter, number) for number in range(len(commands)))
        self._gather()

    def confirm(self, done: Callable[[Rejected | None], None]) -> None:
        """Make sure that this node leads, by a majority; ``done`` is called when all that was committed is applied.

        Or with the reason why that is not so. What is read from the state then is linearizable.
        """
        self._readers.append((Confirmed(done), _NOTHING_READ))
        self._gather()

    def change(
        self, waiter: Waiter, number: int, event: AddLearner | PromoteLearner | RemoveNode | JointChange
    ) -> None:
        """A change of the configuration, answered when it is committed."""
        self._proposed[event.request] = [(waiter, number)]
        self._core.feed(event)

    def next_request(self) -> int:
        """A number that nothing else has, for an event of the raft machine."""
        return next(self._numbers)

    def _gather(self) -> None:
        if not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self.hand_over)

    def hand_over(self) -> None:
        """Everything of this turn goes to the machine: by itself when the turn is over, or when somebody says so."""
        self._is_gathering = False
        if self._commands:
            commands, writers = self._commands, self._writers
            self._commands, self._writers = [], []
            for at in range(0, len(commands), _PROPOSAL_MAX):
                some = tuple(commands[at : at + _PROPOSAL_MAX])
                asked = next(self._numbers)
                self._proposed[asked] = writers[at : at + _PROPOSAL_MAX]
                self.counts["proposals"] += 1
                self.counts["writes"] += len(some)
                self._core.feed(Propose(asked, some))
        if self._readers:
            readers, self._readers = self._readers, []
            asked = next(self._numbers)
            self._reading[asked] = self._clock() + self._bounds.answer_seconds_max, readers
            self.counts["reads"] += len(readers)
            self._core.feed(Read(asked))

    # ---- what the machine says --------------------------------------------------------------------------------------

    def accepted(self, effect: Accepted) -> None:
        """A proposal stands in the log; or a snapshot that was asked for is durable."""
        if effect.request in self._snapshots:
            waiter, number = self._snapshots.pop(effect.request)
            waiter.answer(Done(number, effect.first_index))
            return
        writers = self._proposed.pop(effect.request, None)
        if writers is None:
            return  # the node stops, and they have been told
        waiting, term = self._waiting, effect.term
        deadline = self._clock() + self._bounds.answer_seconds_max
        self._batches.append(_Batch(effect.first_index, effect.count, term, deadline))
        for index, (waiter, number) in enumerate(writers, start=effect.first_index):
            place = Index(index)
            before = waiting.get(place)
            if before is not None:
                # An entry of ours was cut off and may still be committed from another log.
                self._unknown(before[1], before[2], "this node has lost leadership since")
            waiting[place] = term, waiter, number

    def refused(self, effect: Refused) -> None:
        """A request will not be done."""
        text, address = _TEXTS[effect.why], self._core.address_of(effect.leader)
        found = self._proposed.pop(effect.request, [])
        if effect.request in self._reading:
            found = [(waiter, request.number) for waiter, request in self._reading.pop(effect.request)[1]]
        if effect.request in self._transfers:
            waiter, number, _ = self._transfers.pop(effect.request)
            found = [(waiter, number)]
            text = _LEADS_ALREADY if effect.why is Why.IS_LEADER else text
        if effect.request in self._snapshots:
            found = [self._snapshots.pop(effect.request)]
        self.counts["rejected"] += len(found)
        for waiter, number in found:
            waiter.answer(Rejected(number, effect.why.value, text, effect.leader, address))

    def applied(self, entries: Sequence[Entry], answers: Sequence[bytes]) -> None:
        """Entries have been applied, with these answers."""
        waiting = self._waiting
        if waiting:
            for entry, result in zip(entries, answers, strict=True):
                found = waiting.pop(entry.index, None)
                if found is None:
                    continue
                term, waiter, number = found
                if term == entry.term:
                    waiter.answer(Done(number, entry.index, result))
                else:
                    self._reject(waiter, number, LOST, "another entry was committed in its place")
        self._answer_ready()

    def skipped(self, index: Index) -> None:
        """A snapshot stands in for the entries up to here: nobody here has seen what they were."""
        for place in [place for place in self._waiting if place <= index]:
            _, waiter, number = self._waiting.pop(place)
            self._unknown(waiter, number, "this node was brought up to date by a snapshot")
        self._answer_ready()

    def read_ready(self, effect: ReadReady) -> None:
        """A read may be answered from a state that has applied so much."""
        found = self._reading.pop(effect.request, None)
        if found is None:
            return  # it comes too late, and they have been told
        heappush(self._ready, (effect.index, effect.request, *found))
        self._answer_ready()

    def transfer_done(self, effect: TransferDone) -> None:
        """A transfer is over, one way or the other."""
        found = self._transfers.pop(effect.request, None)
        if found is None:
            return
        waiter, number, target = found
        if effect.leader == target:
            waiter.answer(Done(number, 0))
        elif effect.leader is None:
            self._unknown(waiter, number, "the other node did not take over in time, and who leads now is not known")
        else:
            self._reject(waiter, number, TIMED_OUT, f"the other node did not take over in time; {effect.leader} leads")

    # ---- answers ----------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Give up on what has waited for too long. Called now and then."""
        now = self._clock()
        while self._batches and self._batches[0].deadline <= now:
            batch = self._batches.popleft()
            for place in range(batch.first, batch.first + batch.count):
                found = self._waiting.get(Index(place))
                if found is not None and found[0] == batch.term and not isinstance(found[1], Patient):
                    del self._waiting[Index(place)]
                    self._unknown(found[1], found[2], "no majority has confirmed it in time")
        for asked in [asked for asked, (deadline, _) in self._reading.items() if deadline <= now]:
            for waiter, request in self._reading.pop(asked)[1]:
                self._reject(
                    waiter, request.number, TIMED_OUT, "no majority has confirmed in time that this node leads"
                )
        late = [one for one in self._ready if one[2] <= now]
        if late:
            self._ready = [one for one in self._ready if one[2] > now]
            heapify(self._ready)
        for waiter, request in [pair for *_, pairs in late for pair in pairs]:
            self._reject(waiter, request.number, TIMED_OUT, "this node has not applied in time what is committed")

    def close(self) -> None:
        """The node stops: say of everything that is open that it is."""
        why = "the node stops"
        for _, waiter, number in self._waiting.values():
            self._unknown(waiter, number, why)
        self._waiting.clear()
        for waiter, number in [pair for pairs in self._proposed.values() for pair in pairs]:
            self._unknown(waiter, number, why)
        self._proposed.clear()
        reads = [pair for _, pairs in self._reading.values() for pair in pairs]
        reads += [pair for *_, pairs in self._ready for pair in pairs] + self._readers
        open_requests = [(waiter, request.number) for waiter, request in reads] + self._writers
        open_requests += [(waiter, number) for waiter, number, _ in self._transfers.values()]
        open_requests += list(self._snapshots.values())
        for waiter, number in open_requests:
            self._reject(waiter, number, STOPPING, why)
        for held in (self._reading, self._transfers, self._snapshots):
            held.clear()
        self._ready.clear()
        self._commands, self._writers, self._readers = [], [], []

    def _answer_ready(self) -> None:
        applied = self._core.state.index
        while self._ready and self._ready[0][0] <= applied:
            for port, request in heappop(self._ready)[3]:
                port.read(self._look, request)

    def _look(self, request: Reading) -> Answer:
        """What a read finds now, which may be later than when it was confirmed: it is open still."""
        assert isinstance(request, client.Get | client.Scan)
        return look(self._core.state, request)

    def _reject(self, waiter: Waiter, number: int, why: str, text: str) -> None:
        self.counts["rejected"] += 1
        waiter.answer(Rejected(number, why, text))

    def _unknown(self, waiter: Waiter, number: int, text: str) -> None:
        self.counts["unknown"] += 1
        waiter.answer(Unknown(number, text))


def _is_unconfirmed(request: Request) -> bool:
    """Whether a node answers this from what it has, without asking whether that is all."""
    match request:
        case ChainPending() | ChainVerify():
            return True
        case ChainRead() | ChainBlocks() | ChainHistory():
            return not request.linearizable
        case _:
            return False


class Gathered:
    """Waits for the answers to several commands of the node itself."""

    def __init__(self, total: int) -> None:
        self._total: Final = total
        self._future: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._done = 0

    def answer(self, answer: Answer) -> None:
        if self._future.done():
            return
        if isinstance(answer, Done):
            self._done += 1
            if self._done == self._total:
                self._future.set_result(None)
        else:
            assert isinstance(answer, Rejected | Unknown)
            self._future.set_exception(NotDone(answer))

    async def wait(self) -> None:
        """Until all are done. Raises ``NotDone``."""
        await self._future


class NotDone(ResourceError):
    """A request of the node itself was refused, or its outcome is not known."""

    def __init__(self, answer: Rejected | Unknown) -> None:
        super().__init__(answer.text, retry=True)
        self.answer: Final = answer
