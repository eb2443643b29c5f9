"""The operations of Tensor Chain's performance table, one by one, in one process and without a disk."""

import itertools
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeAlias

from benchmarks.rounds import Rates, rate_of, rate_row, ratio_row, setting, take_turns
from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.checks import ChainChecks
from bobbin.cluster.chain.draft import Draft
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.chain.local_chain import Committed, LocalChain
from bobbin.cluster.conflicts.classify import detect_conflict
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.identity import Identity
from bobbin.cluster.membership.effects import PersistIncarnation, Send
from bobbin.cluster.membership.events import Event, Heard, IncarnationPersisted, Tick
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.operations import Put, Transaction
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.fast_path import Check, Meaning
from bobbin.cluster.raft.messages import AppendEntries
from bobbin.cluster.settings import (
    ChainConfig,
    GossipConfig,
    MessageValidationConfig,
    RaftConfig,
    VictimSelectionPolicy,
)
from bobbin.cluster.transactions.deadlock import DeadlockDetector
from bobbin.cluster.transactions.locks import LockManager, LockRefused
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph
from bobbin.wire.cluster.validation import Bounds, validate
from measurement.result import Ratio, Result, Row
from tests.support.raft_cluster import RaftCluster

QUESTION: Final = (
    "What do the operations of Tensor Chain's performance table cost here, in Python and on one core? And does a "
    "commit cost more when the store is larger or the chain longer?"
)
DIMENSION: Final = 128
SIGNER: Final = Identity(bytes(range(32)))
Work: TypeAlias = dict[str, Callable[[], float]]
"""By name, what answers with its rate."""
RECENT: Final = 10
"""Blocks that a new one is compared with on the fast path."""


def run() -> Result:
    """Measure."""
    rounds = setting("CHAIN_ROUNDS", 21)
    count = setting("CHAIN_ITEMS", 200)
    large, small = setting("CHAIN_LARGE_KEYS", 100_000), setting("CHAIN_SMALL_KEYS", 1_000)
    work = {
        **transactions(count),
        **grown("1e3 keys", small, count),
        **grown("1e5 keys", large, count),
        **validation(count),
        **conflicts(count),
        **locks(count),
        **rounds_of_nodes(count),
        **messages(count),
    }
    rates = take_turns(work, rounds=rounds)
    return Result(question=QUESTION, rows=rows(rates, rounds), ratios=ratios(rates))


ROWS: Final = {
    "commit": ("transaction commit", "begin, one put, group commit of one, signed and put on"),
    "1e3 keys": ("transaction commit, small store", "1,000 keys; one put a block, signed and put on"),
    "1e5 keys": ("transaction commit, large store", "100,000 keys; the same"),
    "conflict": ("conflict detection", "cosine, Jaccard and the class of a pair, 7 of 128 positions"),
    "deadlock": ("deadlock detection", "three waits, one circle"),
    "gossip": ("gossip round", "three nodes, all they do and say within the interval of 200 ms"),
    "heartbeat": ("heartbeat", "one leader, two followers, all they do and say within the interval of 50 ms"),
    "similarity": ("fast-path validation: similarity check", f"against {RECENT} recent blocks, all alike"),
    "full": ("full validation", "every check of a block of one put, codebook and transition included"),
    "lock": ("lock acquisition, uncontended", "two names, taken and released"),
    "contended lock": ("lock acquisition, contended", "two names, both held: refused, waits, stops waiting"),
    "signature": ("signature verification", "Ed25519, 300 bytes"),
    "message": ("message validation", "bounds of an append of one entry"),
}


def rows(rates: Rates, rounds: int) -> list[Row]:
    """One for each operation."""
    return [
        rate_row(name, rates, which, unit="/s", note=f"{note}; median of {rounds} rounds")
        for which, (name, note) in ROWS.items()
    ]


def ratios(rates: Rates) -> list[Ratio]:
    """What the table promises without saying so, and that a commit does not slow down."""
    return [
        ratio_row(
            "commits: 1e5 keys / 1e3 keys", rates, "1e5 keys", "1e3 keys", bar=0.77, note="a cost of at most 1.3×"
        ),
        ratio_row("similarity check / full validation", rates, "similarity", "full", bar=1.0),
        ratio_row("uncontended / contended lock", rates, "lock", "contended lock", bar=1.0),
    ]


def transactions(count: int) -> Work:
    """The whole way of a transaction in one process."""
    chain = LocalChain(ChainConfig(), chance=Random(1), identity=SIGNER)
    numbers = itertools.count()

    def commits() -> None:
        for _ in range(count):
            workspace = chain.begin()
            workspace.add_operation(Put(b"key-%d" % next(numbers), b"value"))
            result = chain.commit(workspace, now_ms=0)
            assert isinstance(result, Committed), "nobody is in the way of it"

    return {"commit": lambda: rate_of(commits, count)}


def grown(name: str, keys: int, count: int) -> Work:
    """Commits of one put into a store that holds so many keys; each is to one of them, so it stays as large."""
    ledger = Ledger(config=ChainConfig())
    for first in range(0, keys, 1_000):
        operations = tuple(Put(b"key-%d" % number, bytes(100)) for number in range(first, min(keys, first + 1_000)))
        put_on(ledger, operations)
    source = Random(2)

    def commits() -> None:
        for _ in range(count):
            put_on(ledger, (Put(b"key-%d" % source.randrange(keys), bytes(100)),))

    return {name: lambda: rate_of(commits, count)}


def put_on(ledger: Ledger, operations: tuple[Put, ...]) -> None:
    """One block of one transaction."""
    given = Transaction((ledger.height + 1).to_bytes(16, "big"), operations, since=ledger.height)
    draft = ledger.draft([given], proposer=SIGNER.node, timestamp_ms=0)
    appended = ledger.append(ledger.seal(draft, SIGNER), draft)
    assert isinstance(appended, Appended), "it follows the tip"


def validation(count: int) -> Work:
    """A follower that judges blocks: what likeness needs, and what it may not and may spare."""
    ledger = Ledger(config=ChainConfig())
    put_on(ledger, (Put(b"before", b""),))
    recent = [ledger.tip_block.header.delta_embedding] * RECENT
    given = Transaction(bytes(16), (Put(b"key", b"value"),), since=ledger.height)
    block = ledger.seal(ledger.draft([given], proposer=SIGNER.node, timestamp_ms=0), SIGNER)
    checks = ChainChecks(ledger, below=_nothing, keep=_nowhere)
    public, signed = SIGNER.public_identity, bytes(300)
    signature = SIGNER.sign(signed)

    def similarities() -> None:
        for _ in range(count):
            assert is_alike(recent[0], recent), "they are the same"

    def judgements() -> None:
        for _ in range(count):
            validate_fully(checks, block)

    def signatures() -> None:
        for _ in range(count):
            public.verify(signed, signature)

    return {
        "similarity": lambda: rate_of(similarities, count),
        "full": lambda: rate_of(judgements, count),
        "signature": lambda: rate_of(signatures, count),
    }


def is_alike(delta: Embedding, recent: Sequence[Embedding]) -> bool:
    """What the fast path asks of a block beyond what is never skipped."""
    threshold = RaftConfig().similarity_threshold
    return all(cosine(delta, one) > threshold for one in recent)


def validate_fully(checks: ChainChecks, block: Block) -> None:
    """Every check there is, none of them skipped."""
    for check in Check:
        fault = checks.fault(check, block, leader=SIGNER.node, term=Term(1))
        assert fault is None, fault
    for meaning in Meaning:
        fault = checks.meaning_fault(meaning, block)
        assert fault is None, fault


def _nothing(_hash: bytes) -> Draft | None:
    return None


def _nowhere(_draft: Draft) -> None:
    return None


def conflicts(count: int) -> Work:
    """Pairs as a workload has them: few positions of many."""
    source = Random(3)
    deltas = [
        DeltaVector.of(Embedding.of(DIMENSION, {source.randrange(DIMENSION): source.gauss(0, 1) for _ in range(7)}))
        for _ in range(count + 1)
    ]
    pairs = list(itertools.pairwise(deltas))
    return {"conflict": lambda: rate_of(lambda: [detect_conflict(*pair) for pair in pairs], count)}


def _tx(number: int) -> TxId:
    return TxId(number.to_bytes(16, "big"))


def locks(count: int) -> Work:
    """Taking locks that nobody holds and that somebody holds, and looking for a circle."""
    table = LockManager(timeout_ms=None)
    held = [b"held-1", b"held-2"]
    table.try_lock(_tx(1), held, 0)
    free = [b"free-1", b"free-2"]

    def uncontended() -> None:
        for _ in range(count):
            taken = table.lock_or_wait(_tx(2), free, 0)
            assert not isinstance(taken, LockRefused), "nobody holds it"
            table.release(_tx(2))

    def contended() -> None:
        for _ in range(count):
            refused = table.lock_or_wait(_tx(3), held, 0)
            assert isinstance(refused, LockRefused), "somebody holds it"
            table.waits.stop_waiting(_tx(3))

    graph = WaitForGraph()
    for waiter, holder in ((1, 2), (2, 3), (3, 1)):
        graph.wait(_tx(waiter), [_tx(holder)], started_ms=0)
    detector = DeadlockDetector(VictimSelectionPolicy.YOUNGEST)

    def detections() -> None:
        for _ in range(count):
            assert len(detector.detect(graph)) == 1, "one circle has one victim"

    return {
        "lock": lambda: rate_of(uncontended, count),
        "contended lock": lambda: rate_of(contended, count),
        "deadlock": lambda: rate_of(detections, count),
    }


def rounds_of_nodes(count: int) -> Work:
    """What three nodes have to do between two heartbeats, and between two rounds of gossip."""
    cluster = RaftCluster("abc")
    cluster.elect("a")
    gossip = _Gossip(3)

    def beats() -> None:
        for _ in range(count):
            cluster.beat()
        for member in cluster.members.values():
            member.effects.clear()

    def talk() -> None:
        for _ in range(count):
            gossip.round()

    return {"heartbeat": lambda: rate_of(beats, count), "gossip": lambda: rate_of(talk, count)}


class _Gossip:
    """Nodes that hear one another at once."""

    def __init__(self, count: int) -> None:
        names = [NodeId(f"node-{number}") for number in range(count)]
        self._now_ns = 0
        self._config = GossipConfig()
        self._nodes = {
            name: MembershipMachine(
                self._config,
                node=name,
                incarnation=0,
                peers=[(other, None) for other in names if other != name],
                random=Random(number),
            )
            for number, name in enumerate(names)
        }

    def round(self) -> None:
        """An interval passes; everything that is said is heard."""
        self._now_ns += self._config.gossip_interval_ms * MILLISECOND_NS
        waiting: list[tuple[NodeId, Event]] = [(name, Tick()) for name in self._nodes]
        while waiting:
            name, event = waiting.pop()
            for effect in self._nodes[name].step(event, now_ns=self._now_ns):
                if isinstance(effect, Send):
                    waiting.append((effect.to, Heard(name, effect.message)))
                elif isinstance(effect, PersistIncarnation):
                    waiting.append((name, IncarnationPersisted(effect.incarnation)))


def messages(count: int) -> Work:
    """What the gateway looks at after the sender is proven."""
    bounds = Bounds(MessageValidationConfig())
    leader, follower = NodeId("a" * 32), NodeId("b" * 32)
    message = AppendEntries(
        term=Term(3),
        leader=leader,
        previous_index=Index(7),
        previous_term=Term(3),
        entries=(Entry(term=Term(3), index=Index(8), payload=bytes(100)),),
        commit=Index(7),
        round=1,
    )

    def validations() -> None:
        for _ in range(count):
            validate(message, sender=leader, receiver=follower, bounds=bounds)

    return {"message": lambda: rate_of(validations, count)}
