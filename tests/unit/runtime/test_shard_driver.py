"""The driver of a shard's leader, at a node whose log obeys when it is told to."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from threading import Event
from time import monotonic_ns
from typing import Final, cast

import pytest

from bobbin.cluster.chain.similarity import Similar
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.monitoring import ClusterMetrics, Metric
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.operations import EdgeCreate, Put, ReadVersion, Transaction
from bobbin.cluster.raft.effects import Role
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.cluster.shard.commands import Append
from bobbin.cluster.shard.leader import ShardLeader
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.messages import TxCommitMsg, TxPrepareMsg, TxPrepareResponse, Yes
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended
from bobbin.runtime.cluster_attachment import Host
from bobbin.runtime.cluster_members import Directory, KnownMembers
from bobbin.runtime.cluster_port import Patient, Port, Reading, Waiter
from bobbin.runtime.cluster_state import State
from bobbin.runtime.shard_courier import Courier
from bobbin.runtime.shard_driver import SEARCHES_MAX, ShardDriver
from bobbin.runtime.shard_part import ShardSource
from bobbin.runtime.shard_settings import ShardSettings
from bobbin.wire.cluster import chain
from bobbin.wire.cluster.chain import (
    ChainAbort,
    ChainBegin,
    ChainCodebook,
    ChainCommit,
    ChainEnded,
    ChainItems,
    ChainNear,
    ChainNearest,
    ChainPending,
    ChainRead,
    ChainResolve,
    ChainSay,
    ChainValidate,
    ChainVerdict,
    ChainVerify,
)
from bobbin.wire.cluster.client import Answer, Done, Members, Rejected, Request, Unknown
from bobbin.wire.cluster.shard_commands import decode_command
from bobbin.wire.cluster.shard_messages import encode
from tests.support.clusters import until
from tests.support.shards import CHAIN, DIMENSION, SIGNER, new_shard

_ELSEWHERE: Final = NodeId("somebody else")
_SECONDS: Final = 10.0
_ZERO: Final = Embedding.of(DIMENSION, {})


class _Port:
    """Whoever asks."""

    certificate = b"certificate"

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def answer(self, answer: Answer) -> None:
        self.answers.append(answer)

    def end_all(self, ended: Sequence[chain.ChainEnded]) -> None:
        self.answers.extend(ended)

    def read(self, look: Callable[[Reading], Answer], request: Reading) -> None:
        self.answers.append(look(request))


class _Requests:
    """Proposals wait here until the log takes them, or does not."""

    def __init__(self) -> None:
        self.proposed: list[tuple[Waiter, bytes]] = []
        self.confirming: list[Callable[[Rejected | None], None]] = []

    def propose(self, waiter: Waiter, commands: Sequence[bytes]) -> None:
        assert isinstance(waiter, Patient), "or a block that is committed late is never heard of"
        self.proposed += [(waiter, command) for command in commands]

    def confirm(self, done: Callable[[Rejected | None], None]) -> None:
        self.confirming.append(done)


class _Node:
    """A node that leads, or does not."""

    node = SIGNER.node
    directory = Directory()

    def __init__(self, *, shards: int = 2, command_bytes_max: int = 1_000_000) -> None:
        self.state = State(
            known=KnownMembers(directory=Directory()), checkpoint_entries=1_000, sources=[ShardSource(new_shard)]
        )
        self.requests = _Requests()
        self.metrics = ClusterMetrics()
        self.role = Role.FOLLOWER
        self.leader: NodeId | None = _ELSEWHERE
        self.alarms: list[str] = []
        self.halted: list[str] = []
        self.courier = Courier(ShardId(0), {})
        self.driver = ShardDriver(
            ShardSettings(shard=ShardId(0), shards=shards, chain=CHAIN),
            SIGNER,
            self.courier,
            validation=MessageValidationConfig(),
            answer_seconds_max=_SECONDS,
            command_bytes_max=command_bytes_max,
        )
        self.driver.attach(cast(Host, self))

    def address_of(self, node: NodeId | None) -> str | None:
        return None if node is None else "tls:h:1"

    def alarm(self, code: str, detail: str) -> None:
        del detail
        self.alarms.append(code)

    def halt(self, why: str) -> None:
        self.halted.append(why)
        self.driver.follow()

    def lead(self) -> None:
        self.role, self.leader = Role.LEADER, self.node
        self.driver.lead(Term(1))

    def take(self, request: chain.ChainRequest) -> _Port:
        port = _Port()
        assert self.driver.take_all(cast(Port, port), [request]) == []
        return port

    def commit(self) -> int:
        """The log takes what was proposed; how much that was."""
        proposed, self.requests.proposed = self.requests.proposed, []
        entries = []
        for at, (waiter, raw) in enumerate(proposed, start=self.state.index + 1):
            entries.append(Entry(Term(1), Index(at), raw))
            waiter.answer(Done(0, at))
        if entries:
            self.driver.applied(entries, self.state.apply(entries))
        return len(entries)

    async def settle(self) -> None:
        """Until nothing more is proposed."""
        for _ in range(100):
            await asyncio.sleep(0)
            if not self.commit() and not self.requests.proposed:
                await asyncio.sleep(0)
                if not self.requests.proposed:
                    return


def _run(story: Callable[[_Node], Awaitable[None]], node: Callable[[], _Node] = _Node) -> None:
    async def run() -> None:
        made = node()
        await story(made)
        await made.driver.close()

    asyncio.run(run())


def _transaction(number: int, *, key: bytes = b"k", reads: tuple[ReadVersion, ...] = ()) -> Transaction:
    return Transaction(tx_id(0, b"%08d" % number), (Put(key, b"v"),), reads)


def _alone() -> _Node:
    return _Node(shards=1)


def test_a_transaction_is_answered_when_its_block_is_applied() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        port = node.take(ChainCommit(7, _transaction(1)))
        await until(lambda: bool(node.requests.proposed))
        assert port.answers == []
        ((_, raw),) = node.requests.proposed
        assert isinstance(decode_command(raw), Append)
        await node.settle()
        (ended,) = port.answers
        assert isinstance(ended, ChainEnded)
        assert (ended.number, ended.ended, ended.height) == (7, Ended.COMMITTED, 1)
        assert node.driver.counts()["transactions_committed"] == 1
        assert node.driver.gauges()["chain_height"] == 1
        again = node.take(ChainCommit(8, _transaction(1)))
        await node.settle()
        assert isinstance(again.answers[0], ChainEnded)
        assert (again.answers[0].ended, node.driver.shard.ledger.height) == (Ended.COMMITTED, 1)

    _run(story, _alone)


def test_transactions_of_one_turn_share_blocks_whoever_came_first() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        ports = [node.take(ChainCommit(number, _transaction(number, key=b"k%d" % number))) for number in range(25)]
        assert node.requests.proposed == [], "the turn is not over"
        await asyncio.sleep(0)
        commands = [decode_command(raw) for _, raw in node.requests.proposed]
        assert [len(one.block.transactions) for one in commands if isinstance(one, Append)] == [25]
        await node.settle()
        assert all(_is_committed(port.answers[0]) for port in ports)
        assert node.driver.counts()["transactions_committed"] == 25

    _run(story, _alone)


def test_what_came_in_one_frame_is_taken_whatever_it_is_and_the_rest_is_given_back() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        port = _Port()
        frame: list[Request] = [ChainCommit(number, _transaction(number, key=b"%d" % number)) for number in (1, 3)]
        assert node.driver.take_all(cast(Port, port), [*frame, ChainPending(2), Members(4)]) == [Members(4)]
        await node.settle()
        assert sorted(answer.number for answer in port.answers) == [1, 2, 3]
        assert node.driver.shard.ledger.height == 1, "they share a block"

    _run(story, _alone)


def test_a_transaction_that_came_in_the_turn_in_which_leadership_was_lost_is_unknown_and_never_proposed() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        port = node.take(ChainCommit(1, _transaction(1)))
        node.driver.follow()
        node.lead()
        await node.settle()
        assert [type(answer) for answer in port.answers] == [Unknown]
        assert node.driver.shard.ledger.height == 0

    _run(story, _alone)


def test_what_is_watched_has_figures() -> None:
    """CL-291: what ended how is counted, and the watched figures follow from it."""

    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        node.take(ChainCommit(1, _transaction(1)))
        await node.settle()
        await until(lambda: node.driver.shard.ledger.height == 1 or bool(node.commit()))
        late = node.take(ChainCommit(2, _transaction(2, reads=(ReadVersion(b"k", 0),))))
        await node.settle()
        (ended,) = late.answers
        assert isinstance(ended, ChainEnded)
        assert ended.ended is Ended.CONFLICT
        counts = node.driver.counts()
        assert (counts["transactions_committed"], counts["transactions_conflict"]) == (1, 1)
        readings = {one.metric: one.value for one in node.metrics.readings(monotonic_ns())}
        assert (readings[Metric.COMMIT_RATE], readings[Metric.CONFLICT_RATE]) == (0.5, 0.5)
        stats = {name: counts[f"coordinator_{name}"] for name in ("started", "committed", "aborted")}
        assert (
            stats["started"] == stats["committed"] + stats["aborted"] + node.driver.gauges()["transactions_coordinated"]
        )

    _run(story, _alone)


def test_who_does_not_lead_says_who_does() -> None:
    async def story(node: _Node) -> None:
        for request in (
            ChainCommit(1, _transaction(1)),
            ChainBegin(1, TxId(bytes(16)), (), 1),
            ChainAbort(1, TxId(bytes(16))),
            ChainResolve(1, TxId(bytes(16)), commits=True, reason=""),
            ChainCodebook(1, b""),
            ChainSay(1, ShardId(1), b""),
        ):
            (rejected,) = node.take(request).answers
            assert isinstance(rejected, Rejected)
            assert (rejected.why, rejected.leader, rejected.address) == ("not-leader", _ELSEWHERE, "tls:h:1")
        node.role, node.leader = Role.LEADER, node.node
        (early,) = node.take(ChainCommit(2, _transaction(1))).answers
        assert isinstance(early, Rejected)
        assert early.why == "transferring"
        assert not node.driver.take(cast(Port, _Port()), Members(1))

    _run(story)


def test_leadership_lost_is_an_unknown_outcome_for_whoever_waits() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        port = node.take(ChainCommit(3, _transaction(1)))
        await until(lambda: bool(node.requests.proposed))
        node.driver.follow()
        assert [type(answer) for answer in port.answers] == [Unknown]
        waiter, _ = node.requests.proposed[0]
        assert node.commit() == 1  # by the next leader
        assert len(port.answers) == 1
        assert node.driver.shard.ledger.height == 1
        waiter.answer(Rejected(0, "lost", "another entry was committed in its place"))
        await asyncio.sleep(0)
        assert not node.driver.is_leading
        node.driver.hear(ShardId(1), TxPrepareResponse(TxId(bytes(16)), ShardId(1), Yes(1, _ZERO, ())))
        assert node.driver.counts()["shard_messages_heard"] == 0

    _run(story, _alone)


def test_a_proposal_that_the_log_refuses_is_lost_and_tried_again() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        port = node.take(ChainCommit(1, _transaction(1)))
        await until(lambda: bool(node.requests.proposed))
        ((waiter, _),) = node.requests.proposed
        node.requests.proposed.clear()
        waiter.answer(Rejected(0, "too-much", "too much is waiting"))
        await until(lambda: bool(node.requests.proposed or port.answers))
        await node.settle()
        assert all(isinstance(answer, ChainEnded) for answer in port.answers)
        assert node.driver.shard.ledger.height == len([one for one in port.answers if _is_committed(one)])

    _run(story, _alone)


def _is_committed(answer: Answer) -> bool:
    return isinstance(answer, ChainEnded) and answer.ended is Ended.COMMITTED


def test_one_that_does_not_end_in_time_is_unknown() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        port = node.take(ChainCommit(1, _transaction(1)))
        node.driver.sweep()
        assert port.answers == []
        node.driver._answer_seconds_max = -1.0  # type: ignore[misc]
        late = node.take(ChainCommit(2, _transaction(2, key=b"other")))
        node.driver.sweep()
        assert [type(answer) for answer in late.answers] == [Unknown]
        assert port.answers == []

    _run(story, _alone)


def test_reads_are_confirmed_or_old_or_refused() -> None:
    async def story(node: _Node) -> None:
        (stale,) = node.take(ChainRead(1, (b"k",), linearizable=False)).answers
        assert isinstance(stale, ChainItems)
        port = node.take(ChainRead(2, (b"k",)))
        assert port.answers == []
        node.requests.confirming.pop()(None)
        assert isinstance(port.answers[0], ChainItems)
        refused = node.take(ChainRead(3, ()))
        node.requests.confirming.pop()(Rejected(0, "not-leader", "", _ELSEWHERE))
        assert refused.answers == [Rejected(3, "not-leader", "", _ELSEWHERE)]
        assert len(node.take(ChainPending(4)).answers) == 1
        verify = node.take(ChainVerify(5))
        await until(lambda: bool(verify.answers))
        assert verify.answers == [ChainVerdict(5, 0, node.driver.shard.ledger.tip, None, "")]

    _run(story)


def test_a_search_for_likeness_holds_nobody_up_and_one_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        may_end, running = Event(), []
        ledger, similar = node.driver.shard.ledger, node.driver.shard.ledger.similar

        def slowly(vector: Embedding, limit: int = 10) -> list[Similar]:
            running.append(limit)
            assert may_end.wait(_SECONDS)
            return similar(vector, limit)

        monkeypatch.setattr(ledger, "similar", slowly)
        vector = Embedding.of(DIMENSION, {0: 1.0})
        ports = [node.take(ChainNearest(number, vector)) for number in range(SEARCHES_MAX)]
        (refused,) = node.take(ChainNearest(99, vector)).answers
        assert isinstance(refused, Rejected)
        await until(lambda: bool(running))
        assert len(node.take(ChainPending(4)).answers) == 1
        assert [port.answers for port in ports] == [[]] * SEARCHES_MAX
        assert len(running) == 1
        may_end.set()
        await until(lambda: all(port.answers for port in ports))
        assert [port.answers for port in ports] == [[ChainNear(number, ())] for number in range(SEARCHES_MAX)]

    _run(story)


def test_a_read_of_a_key_that_a_promised_part_holds_waits_until_that_is_over() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        key = next(key for key in (b"%d" % at for at in range(100)) if _is_here(key))
        tx = tx_id(0, b"prepared")
        node.take(ChainSay(1, ShardId(1), encode(_prepare(part=Transaction(tx, (Put(key, b"v"),))))))
        await node.settle()
        ports = [
            node.take(request) for request in (ChainRead(1, (key,)), ChainRead(2, (key,), 0), ChainRead(3, (b"x",)))
        ]
        for done in node.requests.confirming:
            done(None)
        node.requests.confirming.clear()
        (stale,) = node.take(ChainRead(4, (key,), linearizable=False)).answers
        assert [len(port.answers) for port in ports] == [0, 1, 1]
        assert isinstance(stale, ChainItems)
        assert node.driver.gauges()["reads_blocked"] == 1
        node.driver.sweep()
        node.take(ChainSay(5, ShardId(1), encode(TxCommitMsg(tx, ShardId(1), ShardId(0)))))
        await node.settle()
        (answer,) = ports[0].answers
        assert isinstance(answer, ChainItems)
        assert answer.items[0].value == b"v"

    _run(story)


def test_a_read_that_waits_is_told_when_time_is_up_or_the_node_leads_no_more() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        key = next(key for key in (b"%d" % at for at in range(100)) if _is_here(key))
        part = Transaction(tx_id(0, b"prepared"), (Put(key, b"v"),))
        node.take(ChainSay(1, ShardId(1), encode(_prepare(part=part))))
        await node.settle()
        first = node.take(ChainRead(1, (key,)))
        node.requests.confirming.pop()(None)
        node.driver._answer_seconds_max = -1.0  # type: ignore[misc]
        second = node.take(ChainRead(2, (key,)))
        node.requests.confirming.pop()(None)
        node.driver.sweep()
        assert [one.why for one in second.answers if isinstance(one, Rejected)] == ["timed-out"]
        assert first.answers == []
        node.driver.follow()
        assert [type(one) for one in first.answers] == [Rejected]

    _run(story)


def test_a_check_of_reads_needs_confirmed_leadership() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        port = node.take(ChainValidate(1, (ReadVersion(b"k", 0),)))
        assert port.answers == []
        node.requests.confirming.pop()(None)
        (ended,) = port.answers
        assert isinstance(ended, ChainEnded)
        assert ended.ended is Ended.COMMITTED
        moved = node.take(ChainValidate(2, (ReadVersion(b"k", 5),)))
        node.requests.confirming.pop()(None)
        assert isinstance(moved.answers[0], ChainEnded)
        assert moved.answers[0].ended is Ended.CONFLICT
        refused = node.take(ChainValidate(3, ()))
        node.requests.confirming.pop()(Rejected(0, "no-quorum", ""))
        assert refused.answers == [Rejected(3, "no-quorum", "")]

    _run(story)


def _prepare(**changes: object) -> TxPrepareMsg:
    tx = tx_id(0, b"prepared")
    values: dict[str, object] = {
        "tx": tx,
        "coordinator": ShardId(1),
        "shard": ShardId(0),
        "part": Transaction(tx, (Put(b"k", b"v"),)),
        "delta": _ZERO,
        "timeout_ms": 1_000,
        "participants": (ShardId(0), ShardId(1)),
    }
    return TxPrepareMsg(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (_prepare(shard=ShardId(70_000), timeout_ms=0, delta=Embedding(DIMENSION, (0,), (float("nan"),))), "shard"),
        (_prepare(timeout_ms=0, delta=Embedding(DIMENSION, (0,), (float("nan"),))), "timeout"),
        (_prepare(delta=Embedding(DIMENSION, (0,), (float("nan"),))), "embedding"),
    ],
)
def test_a_message_of_another_shard_is_refused_by_what_is_wrong_first(message: TxPrepareMsg, why: str) -> None:
    """CL-263: the shard, then the timeout, then the embedding, each with its own reason; no machine sees it."""

    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        (rejected,) = node.take(ChainSay(1, ShardId(1), encode(message))).answers
        assert isinstance(rejected, Rejected)
        assert why in rejected.why
        await node.settle()
        assert node.driver.counts()["shard_messages_refused"] == 1
        assert node.driver.gauges()["parts_promised"] == 0

    _run(story)


def test_a_message_that_is_well_is_taken_and_comes_to_the_machine() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        key = next(key for key in (b"%d" % at for at in range(100)) if _is_here(key))
        part = Transaction(tx_id(0, b"prepared"), (Put(key, b"v"),))
        said = node.take(ChainSay(1, ShardId(1), encode(_prepare(part=part))))
        assert said.answers == [Done(1, 0)]
        await node.settle()
        assert node.driver.gauges()["parts_promised"] == 1
        assert node.courier.counts["shard_messages_dropped"] >= 1  # the vote, to a shard that nobody here serves
        for sender in (0, 2):
            (refused,) = node.take(ChainSay(2, ShardId(sender), encode(_prepare()))).answers
            assert isinstance(refused, Rejected)
        (unreadable,) = node.take(ChainSay(3, ShardId(1), b"\xc1")).answers
        assert isinstance(unreadable, Rejected)

    _run(story)


def _is_here(key: bytes) -> bool:
    return shard_of(key, 2) == 0


def test_what_the_log_would_not_take_is_refused_at_the_door() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        tx = tx_id(0, b"too-much")
        large = Transaction(tx, (Put(b"k", bytes(1_500)),))
        for request in (ChainCommit(1, large), ChainBegin(1, tx, ((ShardId(0), large),), 1_000)):
            (refused,) = node.take(request).answers
            assert isinstance(refused, ChainEnded)
            assert (refused.ended, refused.tx) == (Ended.REFUSED, tx)
        await node.settle()
        assert node.driver.counts()["transactions_refused"] == 2
        assert node.requests.proposed == []

    _run(story, lambda: _Node(shards=1, command_bytes_max=2_000))


def test_the_names_of_what_is_locked_count_where_they_will_stand_in_a_decision() -> None:
    """An edge is locked by its source and by its own place, in which every colon takes three bytes."""

    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        tx = tx_id(0, b"edges---")
        small, large = (Transaction(tx, (EdgeCreate(b":" * size, b"t", "x"),)) for size in (100, 300))
        (refused,) = node.take(ChainBegin(1, tx, ((ShardId(0), large),), 1_000)).answers
        assert isinstance(refused, ChainEnded)
        assert refused.ended is Ended.REFUSED
        assert "what it locks" in refused.reason
        assert node.take(ChainBegin(1, tx, ((ShardId(0), small),), 1_000)).answers == []
        assert len(node.requests.proposed) == 1

    _run(story, lambda: _Node(shards=1, command_bytes_max=2_000))


def test_a_command_that_is_too_large_all_the_same_does_not_come_to_the_log() -> None:
    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        node.driver._command_bytes_max = 10  # type: ignore[misc]
        node.driver._is_too_large = lambda *_: False  # type: ignore[method-assign]
        port = node.take(ChainCommit(1, _transaction(1)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert node.requests.proposed == []
        assert not any(_is_committed(answer) for answer in port.answers)

    _run(story, _alone)


def test_a_machine_that_breaks_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    async def story(node: _Node) -> None:
        node.lead()
        await node.settle()
        waiting = node.take(ChainCommit(1, _transaction(1)))
        monkeypatch.setattr(ShardLeader, "step", fail)
        port = node.take(ChainCommit(2, _transaction(2)))
        await asyncio.sleep(0)
        assert len(node.halted) == 1
        assert "a fault" in node.halted[0]
        assert [type(answer) for answer in (*waiting.answers, *port.answers)] == [Unknown, Unknown]

    _run(story, _alone)
