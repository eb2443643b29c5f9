"""Runs the leader of a shard at a node: what it wants is done, and what comes of it is told to it.

The leader's machine is made when the node leads and has applied an entry of its own term, and thrown away the moment
the node leads no more; nothing in it is needed for safety. Whoever waits for an answer then is told that the outcome is
not known, and asks again, under the same id, whoever leads now.

A linearizable read of a key that a promised part holds waits until that is over: its transaction may have been
committed already, as its client knows, while the block with the part is still on its way.

Messages of other shards come as requests of callers with an operator's rights: the keys of the set are each other's
operators. A read is answered by any node: linearizable after this one has shown that it leads, or from what it has.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Final, assert_never

from msgspec import msgpack, structs

from bobbin.cluster.chain.verification import Fault, Flaw, verify_blocks
from bobbin.cluster.identity import Identity
from bobbin.cluster.monitoring import Count
from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.operations import bytes_of_put, lock_names
from bobbin.cluster.raft.effects import Role, Why
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.cluster.shard import effects, events
from bobbin.cluster.shard.commands import TAGS, Append
from bobbin.cluster.shard.leader import ShardLeader
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.errors import PeerError
from bobbin.runtime.cluster_attachment import Attachment, Host
from bobbin.runtime.cluster_clock import Wake
from bobbin.runtime.cluster_port import Patient, Port
from bobbin.runtime.cluster_requests import INVALID, TIMED_OUT
from bobbin.runtime.shard_courier import Courier
from bobbin.runtime.shard_part import ShardPart
from bobbin.runtime.shard_reads import ShardReading, is_locked, look
from bobbin.runtime.shard_settings import ShardSettings
from bobbin.wire.cluster import chain
from bobbin.wire.cluster.chain import ChainRead
from bobbin.wire.cluster.client import Answer, Done, Rejected, Request, Unknown
from bobbin.wire.cluster.shard_commands import encode_command
from bobbin.wire.cluster.shard_messages import decode

if TYPE_CHECKING:
    from bobbin.runtime.shard_judge import ShardJudge

VERIFYING_MAX: Final = 2
"""Checks of the whole chain at a time."""
SEARCHES_MAX: Final = 16
"""Searches for blocks by their likeness that wait for one another."""
AUDITS_EACH: Final = 50
"""Blocks that are looked at again, twice a second."""
_THIS_MACHINE: Final = "this machine"
"""Who asks by the node's own socket."""


class _Proposal(Patient):
    """Waits for what becomes of one proposal."""

    def __init__(self, driver: "ShardDriver", leader: ShardLeader, number: int) -> None:
        self._driver: Final = driver
        self._leader: Final = leader
        self._number: Final = number

    def answer(self, answer: Answer) -> None:
        self._driver.proposed(self._leader, self._number, answer)


class ShardDriver(Attachment):
    """One shard at one node."""

    def __init__(
        self,
        settings: ShardSettings,
        identity: Identity,
        courier: Courier,
        *,
        validation: MessageValidationConfig,
        answer_seconds_max: float,
        command_bytes_max: int,
    ) -> None:
        """Made in an event loop. ``identity`` signs blocks."""
        self._settings: Final = settings
        self._identity: Final = identity
        self._courier: Final = courier
        self._validation: Final = validation
        self._answer_seconds_max: Final = answer_seconds_max
        self._command_bytes_max: Final = command_bytes_max
        self._loop: Final = asyncio.get_running_loop()
        self._host: Host | None = None
        self._leader: ShardLeader | None = None
        self._wake: Final = Wake(self._tick)
        self._next_request = 1
        self._open: Final[dict[int, tuple[Port, int, float]]] = {}
        """By the number that the leader's machine has for it: who waits, under which number, and until when."""
        self._blocked: list[tuple[Port, ChainRead, float]] = []
        """Reads of keys that a promised part holds, and until when they wait."""
        self._numbers: Final[dict[Index, int]] = {}
        """Proposals that have been committed and are about to be told of, by their place."""
        self._commits: list[events.Commit] = []
        """Transactions that came in this turn of the event loop; they are handed over together."""
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._searches: Final[set[asyncio.Task[None]]] = set()
        self._search: Final = asyncio.Lock()
        self._deadlocks_seen = 0
        self.judge: ShardJudge | None = None
        """Who judges blocks at this node while it follows, if anybody does."""
        self._ended: Final = dict.fromkeys(Ended, 0)
        """How many transactions ended so."""
        self._counts: Final = {
            "transactions_unknown": 0,
            "shard_messages_heard": 0,
            "shard_messages_refused": 0,
        }

    # ---- what the node says -----------------------------------------------------------------------------------------

    def attach(self, host: Host) -> None:
        self._host = host

    @property
    def host(self) -> Host:
        assert self._host is not None, "attached before anything else"
        return self._host

    @property
    def part(self) -> ShardPart:
        """The state, as it is applied."""
        part = self.host.state.machines.part(TAGS.start)
        assert isinstance(part, ShardPart), "a node with a driver has the state of a shard"
        return part

    @property
    def shard(self) -> Shard:
        return self.part.shard

    def expect(self, raw: bytes, command: Append) -> None:
        """The bytes of a block that was judged here, and what they say."""
        self.part.expect(raw, command)

    @property
    def is_leading(self) -> bool:
        return self._leader is not None

    def lead(self, term: Term) -> None:
        part = self.part
        part.shard.drop_drafts()
        part.is_heard = True
        self._deadlocks_seen = 0
        settings = self._settings
        self._leader = ShardLeader(
            part.shard,
            identity=self._identity,
            term=term,
            shards=settings.shards,
            config=settings.transactions,
            detector=settings.deadlock,
        )
        self._tick()

    def follow(self) -> None:
        self._leader = None
        self._wake.stop()
        # Drafts stay: some may be of blocks that the node has judged as a follower in this very moment.
        self.part.forget()
        self._numbers.clear()
        self._commits = []
        waiting = list(self._open.values())
        self._open.clear()
        for port, number, _ in waiting:
            self._unknown(port, number, "this node has lost leadership since")
        blocked, self._blocked = self._blocked, []
        for port, request, _ in blocked:
            port.answer(self._elsewhere(request.number))

    def applied(self, entries: Sequence[Entry], answers: Sequence[bytes]) -> None:
        del entries, answers
        leader = self._leader
        if leader is None:
            return
        numbers = self._numbers
        for index, command, outcome in self.part.take():
            self._step(leader, events.Applied(index, command, outcome, numbers.pop(index, None)))
        numbers.clear()
        if self._blocked:
            self._unblock()

    def _unblock(self) -> None:
        """Answer reads of keys that are free now."""
        blocked, self._blocked = self._blocked, []
        for one in blocked:
            if is_locked(self.shard, one[1]):
                self._blocked.append(one)
            else:
                one[0].read(self._look, one[1])

    def sweep(self) -> None:
        now = self._loop.time()
        for asked in [asked for asked, (_, _, deadline) in self._open.items() if deadline <= now]:
            port, number, _ = self._open.pop(asked)
            self._unknown(port, number, "it has not ended in time")
        late = [one for one in self._blocked if one[2] <= now]
        self._blocked = [one for one in self._blocked if one[2] > now]
        for port, request, _ in late:
            text = "a transaction over several shards that is not over holds one of these keys"
            port.answer(Rejected(request.number, TIMED_OUT, text))
        leader = self._leader
        if leader is not None and leader.deadlocks is not None:
            found = leader.deadlocks.deadlocks_detected
            self._note(Count.DEADLOCKS, found - self._deadlocks_seen)
            self._deadlocks_seen = found
        if self.judge is not None:
            self.host.metrics.observe_fast_path(self.judge.stats, monotonic_ns())
            for failed in self.judge.audit(AUDITS_EACH):
                text = f"a block of {failed.leader} should not have passed: {failed.fault}"
                self.host.alarm("audit-failed", text)

    async def close(self) -> None:
        self._wake.stop()
        tasks = [*self._tasks, *self._searches]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._courier.close()

    # ---- the machine ------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._leader is not None:
            self._step(self._leader, events.Tick())

    def _step(self, leader: ShardLeader, event: events.Event) -> None:
        """Let the machine hear something, unless it is not in office any more."""
        if leader is not self._leader:
            return
        now_ms, wall_ms = monotonic_ns() // MILLISECOND_NS, time_ns() // MILLISECOND_NS
        try:
            answers: list[effects.Answer] = []
            for effect in leader.step(event, now_ms=now_ms, wall_ms=wall_ms):
                if isinstance(effect, effects.Answer):  # by far the most
                    answers.append(effect)
                else:
                    self._perform(leader, effect)
            if answers:
                self._answer(answers)
        except Exception as error:  # noqa: BLE001 -- whatever breaks here, its word is worth nothing any more
            self.host.halt(f"the leader of the shard broke: {type(error).__name__}: {error}")

    def _perform(self, leader: ShardLeader, effect: effects.Other) -> None:
        match effect:
            case effects.Propose():
                self._propose(leader, effect)
            case effects.Send(shard, message):
                if shard == self._settings.shard:
                    self._loop.call_soon(self._step, leader, events.Heard(shard, message))
                else:
                    self._courier.send(shard, message)
            case effects.WakeAt(at_ms):
                # Not at once, whatever is asked for: others of this loop want their turn as well.
                self._wake.at(max(at_ms * MILLISECOND_NS, monotonic_ns() + MILLISECOND_NS))
            case effects.Alarm(code, detail):
                self.host.alarm(code, detail)
            case _:
                assert_never(effect)

    def _propose(self, leader: ShardLeader, effect: effects.Propose) -> None:
        raw = encode_command(effect.command)
        if len(raw) > self._command_bytes_max:
            # With others in one proposal, it would be refused together with them.
            text = f"{len(raw):,} bytes, and the log takes {self._command_bytes_max:,} of one command"
            self._loop.call_soon(self._step, leader, events.Lost(effect.proposal, text))
            return
        self.part.expect(raw, effect.command)
        self.host.requests.propose(_Proposal(self, leader, effect.proposal), [raw])

    def proposed(self, leader: ShardLeader, number: int, answer: Answer) -> None:
        """What became of a proposal: it is committed and about to be told of, or it is lost, or nobody can tell."""
        if leader is not self._leader:
            return
        if isinstance(answer, Done):
            self._numbers[Index(answer.index)] = number
        elif isinstance(answer, Rejected):
            # Not at once: this may come in the middle of a step of the node's other machine.
            self._loop.call_soon(self._step, leader, events.Lost(number, answer.text))

    def _answer(self, answers: Sequence[effects.Answer]) -> None:
        """Tell whoever waits how it ended."""
        committed = 0
        by_port: dict[Port, list[chain.ChainEnded]] = {}
        for answer in answers:
            ended = answer.ended
            if ended is Ended.COMMITTED:
                committed += 1
            else:
                self._watch(ended)
            waiting = self._open.pop(answer.request, None)
            if waiting is not None:
                port, number, _ = waiting
                told = by_port.get(port)
                if told is None:
                    told = by_port[port] = []
                told.append(_ended(number, answer))
        for port, told in by_port.items():
            port.end_all(told)
        if committed:
            self._ended[Ended.COMMITTED] += committed
            self._note(Count.TRANSACTIONS_COMMITTED, committed)

    def _watch(self, ended: Ended) -> None:
        """One was not committed."""
        self._ended[ended] += 1
        match ended:
            case Ended.CONFLICT:
                self._note(Count.TRANSACTIONS_ABORTED, 1)
                self._note(Count.TRANSACTIONS_CONFLICTING, 1)
            case Ended.ABORTED | Ended.BUSY:
                self._note(Count.TRANSACTIONS_ABORTED, 1)
            case _:
                pass  # it was never one

    def _note(self, count: Count, events: int) -> None:
        self.host.metrics.note(count, monotonic_ns(), events)

    def hear(self, sender: ShardId, message: ShardMessage) -> None:
        """A message of another shard of this process."""
        if self._leader is not None:
            self._counts["shard_messages_heard"] += 1
            self._step(self._leader, events.Heard(sender, message))

    # ---- requests ---------------------------------------------------------------------------------------------------

    def take_all(self, port: Port, requests: Sequence[Request]) -> Sequence[Request]:
        commits = [request for request in requests if isinstance(request, chain.ChainCommit)]
        if commits:  # by far the most, so all at once
            self._commit(port, commits)
            requests = [request for request in requests if not isinstance(request, chain.ChainCommit)]
        return super().take_all(port, requests)

    def take(self, port: Port, request: Request) -> bool:
        match request:
            case chain.ChainRead() | chain.ChainBlocks() | chain.ChainHistory():
                self._read(port, request, linearizable=request.linearizable)
            case chain.ChainPending():
                self._read(port, request, linearizable=False)
            case chain.ChainNearest():
                self._nearest(port, request)
            case chain.ChainCodebook(centroids=None):
                self._read(port, request, linearizable=True)
            case chain.ChainVerify():
                self._verify(port, request)
            case chain.ChainValidate(number, reads):
                self._confirmed(port, number, lambda asked: events.Validate(asked, reads))
            case chain.ChainSay():
                self._hear_bytes(port, request)
            case chain.ChainBegin(number, tx, parts, timeout_ms):
                names = [lock_names(part) for _, part in parts]
                if not self._is_too_large(port, number, tx, (parts, names), " with the names of what it locks"):
                    self._ask(port, number, lambda asked: events.Begin(asked, tx, parts, timeout_ms))
            case chain.ChainAbort(number, tx):
                self._ask(port, number, lambda asked: events.Abort(asked, tx))
            case chain.ChainResolve(number, tx, commits, reason):
                operator = _name_of(port)
                self._ask(port, number, lambda asked: events.ResolveWanted(asked, tx, commits, operator, reason))
            case chain.ChainCodebook(number, centroids):
                assert centroids is not None, "without any it is a read"
                self._ask(port, number, lambda asked: events.ReplaceCodebookWanted(asked, centroids))
            case _:
                return False
        return True

    def _commit(self, port: Port, requests: Sequence[chain.ChainCommit]) -> None:
        """Take transactions of this shard alone. All that come in one turn are one event, and share blocks."""
        commits, room = self._commits, self._command_bytes_max // 2
        deadline = self._loop.time() + self._answer_seconds_max
        for request in requests:
            transaction, number = request.transaction, request.number
            plain = bytes_of_put(transaction)
            if not (plain is not None and plain <= room) and self._is_too_large(
                port, number, TxId(transaction.id), transaction
            ):
                continue
            if self._leader is None:
                port.answer(self._elsewhere(number))
                continue
            if not commits:
                self._loop.call_soon(self._commit_all)
            asked = self._next_request
            self._next_request += 1
            self._open[asked] = port, number, deadline
            commits.append(events.Commit(asked, transaction))

    def _commit_all(self) -> None:
        commits, self._commits = self._commits, []
        if self._leader is not None and commits:
            self._step(self._leader, events.Commits(tuple(commits)))
            # They have come together already: nothing that comes later in this turn would share their blocks.
            self.host.requests.hand_over()

    def _is_too_large(self, port: Port, number: int, tx: TxId, what: object, counted: str = "") -> bool:
        """Whether the log would not take it; then whoever asks is told. A block needs room for more than that.

        So does a decision, which has in its votes the names of all that is locked, longer than the keys.
        """
        size, size_max = len(msgpack.encode(what)), self._command_bytes_max // 2
        if size <= size_max:
            return False
        reason = f"a transaction takes at most {size_max:,} bytes{counted}, and this one has {size:,}"
        self._ended[Ended.REFUSED] += 1
        port.answer(chain.ChainEnded(number, Ended.REFUSED, tx, reason=reason))
        return True

    def _ask(self, port: Port, number: int, make: Callable[[int], events.Event]) -> None:
        """Hand something to the leader's machine, or say who leads."""
        leader = self._leader
        if leader is None:
            port.answer(self._elsewhere(number))
            return
        self._step(leader, make(self._opened(port, number)))

    def _opened(self, port: Port, number: int) -> int:
        """The number under which the leader's machine will answer whoever waits at a port."""
        asked = self._next_request
        self._next_request += 1
        self._open[asked] = port, number, self._loop.time() + self._answer_seconds_max
        return asked

    def _confirmed(self, port: Port, number: int, make: Callable[[int], events.Event]) -> None:
        """The same, after a majority has confirmed that this node leads."""

        def done(rejected: Rejected | None) -> None:
            if rejected is not None:
                port.answer(structs.replace(rejected, number=number))
            else:
                self._ask(port, number, make)

        self.host.requests.confirm(done)

    def _elsewhere(self, number: int) -> Rejected:
        host = self.host
        leader = host.leader
        if leader == host.node or host.role is Role.LEADER:
            return Rejected(number, Why.TRANSFERRING.value, "this node has just begun to lead", leader)
        return Rejected(number, Why.NOT_LEADER.value, "this node does not lead", leader, host.address_of(leader))

    def _hear_bytes(self, port: Port, request: chain.ChainSay) -> None:
        """A message of another shard, in its bytes: looked at before any machine sees it."""
        if self._leader is None:
            port.answer(self._elsewhere(request.number))
            return
        try:
            if not 0 <= request.sender < self._settings.shards or request.sender == self._settings.shard:
                raise PeerError(INVALID, f"there is no other shard {request.sender} in this set")
            message = decode(request.message, config=self._validation)
        except PeerError as error:
            self._counts["shard_messages_refused"] += 1
            port.answer(Rejected(request.number, error.code, str(error)[: chain.TEXT_CHARACTERS_MAX]))
            return
        port.answer(Done(request.number, 0))
        self.hear(request.sender, message)

    def _read(self, port: Port, request: ShardReading, *, linearizable: bool) -> None:
        if not linearizable:
            port.read(self._look, request)
            return

        def done(rejected: Rejected | None) -> None:
            if rejected is not None:
                port.answer(structs.replace(rejected, number=request.number))
            elif isinstance(request, ChainRead) and is_locked(self.shard, request):
                self._blocked.append((port, request, self._loop.time() + self._answer_seconds_max))
            else:
                port.read(self._look, request)

        self.host.requests.confirm(done)

    def _look(self, request: Request) -> Answer:
        assert isinstance(request, ShardReading)
        return look(self.shard, request)

    def _nearest(self, port: Port, request: chain.ChainNearest) -> None:
        if len(self._searches) >= SEARCHES_MAX:
            port.answer(Rejected(request.number, Why.TOO_MUCH.value, "too many searches wait"))
            return
        task = self._loop.create_task(self._search_slowly(port, request))
        self._searches.add(task)
        task.add_done_callback(self._searches.discard)

    async def _search_slowly(self, port: Port, request: chain.ChainNearest) -> None:
        """In a thread, for the first search of a long chain takes seconds. No two at a time, for they share rows."""
        try:
            async with self._search:
                answer = await asyncio.to_thread(look, self.shard, request)
        except asyncio.CancelledError:
            port.answer(Unknown(request.number, "the node stops"))
            raise
        port.answer(answer)

    def _verify(self, port: Port, request: chain.ChainVerify) -> None:
        if len(self._tasks) >= VERIFYING_MAX:
            port.answer(Rejected(request.number, Why.TOO_MUCH.value, "the chain is being checked already"))
            return
        task = self._loop.create_task(self._verify_slowly(port, request.number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _verify_slowly(self, port: Port, number: int) -> None:
        """In a thread, over the blocks as they are now: they are values, and go on being so while others come."""
        ledger = self.shard.ledger
        blocks, tip, root = list(ledger), ledger.tip, ledger.state_root
        dimension = self._settings.chain.embedding_dimension
        try:
            found = await asyncio.to_thread(verify_blocks, blocks, dimension=dimension)
        except asyncio.CancelledError:
            port.answer(Unknown(number, "the node stops"))
            raise
        height = len(blocks) - 1
        if found is None and blocks[-1].header.state_root != root:
            found = Fault(height, Flaw.STATE_ROOT, "the store is not what the newest block says")
        where = None if found is None else found.height
        text = "" if found is None else f"{found.flaw.value}: {found.reason}"
        port.answer(chain.ChainVerdict(number, height, tip, where, text))

    def _unknown(self, port: Port, number: int, text: str) -> None:
        self._counts["transactions_unknown"] += 1
        port.answer(Unknown(number, text))

    # ---- figures ----------------------------------------------------------------------------------------------------

    def gauges(self) -> dict[str, float]:
        shard = self.shard
        return {
            "chain_height": shard.ledger.height,
            "chain_floor": shard.ledger.floor,
            "parts_promised": len(shard.participant.promises),
            "transactions_coordinated": len(shard.recovery.open),
            "transactions_waiting": len(self._open),
            "reads_blocked": len(self._blocked),
        }

    def counts(self) -> dict[str, int]:
        found = {f"transactions_{one.value}": times for one, times in self._ended.items()}
        found |= self._counts | self._courier.counts
        leader = self._leader
        if leader is not None:
            stats = leader.stats
            found |= {
                f"coordinator_{name}": value
                for name in stats.__slots__
                if isinstance(value := getattr(stats, name), int)
            }
            if leader.deadlocks is not None:
                found["deadlocks_found"] = leader.deadlocks.deadlocks_detected
                found["deadlock_victims"] = leader.deadlocks.victims
        return found


def _ended(number: int, answer: effects.Answer) -> chain.ChainEnded:
    """What a client is told."""
    if answer.ended is Ended.COMMITTED and not answer.refusals:
        return chain.ChainEnded(number, Ended.COMMITTED, answer.tx, answer.height)
    return chain.ChainEnded(
        number,
        answer.ended,
        answer.tx,
        answer.height,
        answer.reason[: chain.TEXT_CHARACTERS_MAX],
        answer.similarity,
        answer.other,
        answer.refusals,
    )


def _name_of(port: Port) -> str:
    """Who asks, for what is written down for ever."""
    if port.certificate is None:
        return _THIS_MACHINE
    return NodeId(port.certificate.hex()[:64])
