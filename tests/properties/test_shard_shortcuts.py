"""What a leader and a state are spared for most transactions changes nothing of what comes of them.

Shards get commits by the bundle and one by one, parts of transactions over both, codebooks and looks back beyond what
they remember; blocks come back late, all at once, or never, and leaders change. The same is lived through with every
shortcut off: each transaction is looked at by itself, against everything there is. Answers, outcomes, tips and roots
must be the same at every step.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.draft import Overlay
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index
from bobbin.cluster.operations import (
    CompareAndSwap,
    CounterAdd,
    Delete,
    Embed,
    Operation,
    Put,
    ReadVersion,
    SetAdd,
    TableInsert,
    Transaction,
    VectorAdd,
)
from bobbin.cluster.settings import AutoMergeConfig, ChainConfig, DistributedTxConfig
from bobbin.cluster.shard import committing
from bobbin.cluster.shard.commands import Append
from bobbin.cluster.shard.committing import Committing
from bobbin.cluster.shard.events import Applied, Commit, Commits, ReplaceCodebookWanted
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.shard.waiting import Waiting
from bobbin.cluster.transactions.names import TxId, tx_id
from bobbin.cluster.transactions.phases import Ended
from tests.simulation.raft_planting import Edit, planted
from tests.unit.cluster.shard.driven import DrivenShard, DrivenShards

SEEDS: Final = 60
BLOCK: Final = 4
QUICK: Final = 20
"""Stories that every check lives through."""
DIMENSION: Final = 16
STRANGER: Final = Identity(b"s" * 32)
BOOK: Final = GlobalCodebook(1, [Embedding(DIMENSION, (at,), (1.0,)) for at in range(4)]).encode()

NO_SHORTCUTS: Final = (
    Edit(Committing, "commit_all", "self._take(event, standing)", "self._take(event, self._standing())"),
    Edit(Committing, "_why_refused", "is_lone = not (transaction.reads or standing.has_parts)", "is_lone = False"),
    Edit(Committing, "_why_refused", "if standing.has_parts and", "if"),
    Edit(Committing, "_choose", "has_locks = len(self._leading.locks) > 0", "has_locks = True"),
    Edit(Committing, "_choose", "if not (waiting.is_part or (", "if not (waiting.is_part or False and ("),
    Edit(Committing, "_make_block", "are_valid=True", "are_valid=False"),
    Edit(committing, "_are_apart", "return len(keys) == count", "return False"),
    Edit(Waiting, "__init__", "if len(operations) == 1 and", "if False and"),
    Edit(Ledger, "draft", "if is_plain and", "if False and"),
    Edit(Overlay, "clash", "if len(operations) == 1 and", "if False and"),
    Edit(Overlay, "do", "if type(operation) is Put:", "if False:"),
    Edit(Overlay, "drafted", "if {version.holds", "if False and {version.holds"),
    Edit(Shard, "_why_not_in_block", "if is_plain and", "if False and"),
    Edit(Shard, "rival", " or not ledger.is_touched(own, since)", ""),
)


class Story:
    """What happens to two shards, drawn from a seed, and what came of it."""

    def __init__(self, seed: int) -> None:
        self._random: Final = Random(f"shortcuts {seed}")
        draw = self._random.random
        self.is_forgetful: Final = draw() < 0.4
        chain = ChainConfig(
            embedding_dimension=DIMENSION,
            max_transactions=self._random.choice((5, 50, 1_000)),
            auto_merge=AutoMergeConfig(enabled=draw() < 0.9, max_merge_batch=self._random.choice((2, 10))),
        )
        config = DistributedTxConfig(optimistic_locking=draw() < 0.7, lock_wait=draw() < 0.4)
        self.world: Final = DrivenShards(2, config=config, chain=chain)
        for one in self.world.shards:
            if self.is_forgetful:
                one.state.ledger = Ledger(config=chain, keep_heights=3)
                one.replica.ledger = Ledger(config=chain, keep_heights=3)
                one.lead()
        keys = self._random.choice((4, 60, 400))
        self._keys: Final = [[self.world.key(shard, f"k{number}-") for number in range(keys)] for shard in (0, 1)]
        self._made: Final[list[list[Transaction]]] = [[], []]
        self._parts: Final[list[list[Transaction]]] = [[], []]
        self.log: Final[list[object]] = []

    def run(self) -> None:
        """Everything that happens, and the end of it."""
        if self._random.random() < 0.4:
            for one in self.world.shards:
                one.step(ReplaceCodebookWanted(self.world.request(), BOOK))
        for _ in range(self._random.randrange(30, 60)):
            self._happen()
            self._note()
        for _ in range(30):
            self.world.run()
            self.world.pass_time(200)
        self._note()

    def _note(self) -> None:
        states = [one.state for one in self.world.shards]
        self.log.append([(state.ledger.height, state.ledger.tip, state.root) for state in states])
        self.log.append([(one.leader.leftovers(), len(one.proposals)) for one in self.world.shards])
        self.log.append(sorted(self.world.answers.items()))

    def _happen(self) -> None:
        random, world = self._random, self.world
        one = random.choice(world.shards)
        what = random.choices(
            ("commits", "commit", "apply", "apply late", "stray", "lose", "transfer", "deliver", "time", "lead"),
            weights=(30, 8, 30, 6, 6, 5, 8, 12, 6, 3),
        )[0]
        match what:
            case "commits":
                wanted = [self._transaction(one) for _ in range(random.choice((1, 2, 5, 20, 40)))]
                one.step(Commits(tuple(Commit(world.request(), transaction) for transaction in wanted)))
            case "commit":
                one.step(Commit(world.request(), self._transaction(one)))
            case "apply":
                for _ in range(min(random.randrange(1, 4), len(one.proposals))):
                    self.log.append(one.apply_next())
            case "apply late":
                self._apply_late(one)
            case "stray":
                self._write_stray(one)
            case "lose" if one.proposals:
                one.lose_next()
            case "transfer":
                self._transfer(one)
            case "deliver":
                for _ in range(min(random.randrange(6), len(world.messages))):
                    world.deliver(times=random.choice((1, 1, 2)))
            case "time":
                world.pass_time(random.choice((10, 150, 6_000)))
            case "lead":
                one.lead()
            case _:
                pass

    def _apply_late(self, one: DrivenShard) -> None:
        """The state is ahead of what its leader has heard."""
        done: list[Applied] = []
        while one.proposals and len(done) < 3:
            proposal = one.proposals.popleft()
            outcome = one.write(proposal.command)
            done.append(Applied(Index(len(one.log)), proposal.command, outcome, proposal.proposal))
        for event in done:
            one.step(event)

    def _write_stray(self, one: DrivenShard) -> None:
        """A block comes into the log that this leader has not made, and perhaps nobody should have."""
        given = [self._transaction(one, oftener=8) for _ in range(self._random.randrange(1, 4))]
        draft = one.state.ledger.draft(given, proposer=STRANGER.node, timestamp_ms=0, are_valid=True)
        self.log.append(draft.clashes)
        if not draft.transactions:
            return
        block = one.state.ledger.seal(draft, STRANGER)
        if self._random.random() < 0.2:
            block = replace(block, transactions=tuple(given))
        command = Append(block)
        outcome = one.write(command)
        self.log.append(outcome)
        one.step(Applied(Index(len(one.log)), command, outcome, None))

    def _transfer(self, one: DrivenShard) -> None:
        """A transaction over both, whose parts somebody may send by themselves later."""
        random, world = self._random, self.world
        tx = world.tx(one.id)
        first, second = (
            world.transaction(Put(random.choice(self._keys[shard]), tx), shard=shard, tx=tx) for shard in (0, 1)
        )
        world.begin((0, first), (1, second), home=one.id, timeout_ms=random.choice((100, 5_000)))
        self._parts[0].append(first)
        self._parts[1].append(second)

    def _transaction(self, one: DrivenShard, *, oftener: int = 1) -> Transaction:
        """A new one, or one that came before; ``oftener``: how much."""
        random, world = self._random, self.world
        for before, chance in ((self._made, 0.06), (self._parts, 0.02)):
            if before[one.id] and random.random() < chance * oftener:
                return random.choice(before[one.id])
        back = random.choice((0, 0, 0, 0, 1, 3, 6)) if random.random() < 0.97 else -random.randrange(3)
        tx = world.tx(one.id)
        if random.random() < 0.05:
            tx = tx_id(max(0, one.height + random.choice((-4, -1, 1, 2, 5))), tx[8:])
        operations = [self._operation(one) for _ in range(random.choice((1, 1, 1, 1, 2, 3)))]
        reads: tuple[ReadVersion, ...] = ()
        if random.random() < 0.2:
            looked = sorted({random.choice(self._keys[one.id]) for _ in range(random.randrange(1, 3))})
            reads = tuple(ReadVersion(key, one.state.ledger.version(key) + (random.random() < 0.05)) for key in looked)
            operations = operations[: random.choice((0, 3, 3))]
        made = Transaction(TxId(tx), tuple(operations), reads, max(0, one.height - back))
        self._made[one.id].append(made)
        return made

    def _operation(self, one: DrivenShard) -> Operation:
        random = self._random
        key = random.choice(self._keys[one.id])
        vector = Embedding(DIMENSION, (random.randrange(6),), (random.choice((0.9, 1.0, 5.0)),))
        others: tuple[Operation, ...] = (
            CounterAdd(key, random.randrange(1, 5)),
            Delete(key),
            SetAdd(key, b"m%d" % random.randrange(3)),
            CompareAndSwap(key, b"1", b"2"),
            VectorAdd(key, vector),
            Embed(key, vector),
            TableInsert(key, (b"%d" % random.randrange(99),)),
        )
        return Put(key, b"%d" % random.randrange(9)) if random.random() < 0.65 else random.choice(others)


def lived_through(seed: int) -> Story:
    """A story to its end."""
    story = Story(seed)
    story.run()
    return story


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=[pytest.mark.slow] * (first >= QUICK)) for first in range(0, SEEDS, BLOCK)]
)
def test_shortcuts_change_nothing(first: int) -> None:
    for seed in range(first, first + BLOCK):
        quick = lived_through(seed)
        with planted(NO_SHORTCUTS):
            slow = lived_through(seed)
        for at, (one, other) in enumerate(zip(quick.log, slow.log, strict=True)):
            assert one == other, f"seed {seed}, entry {at}"
        assert all(one.state.ledger.verify() is None for one in quick.world.shards)


@contextmanager
def counted(into: Counter[str]) -> Iterator[None]:
    """How many transactions went each way, for as long as the context lasts."""
    apart, draft = committing._are_apart, Ledger.draft

    def counted_apart(queue: list[Waiting]) -> bool:
        found = apart(queue)
        into["apart" if found else "together"] += len(queue) > 1
        return found

    def counted_draft(ledger: Ledger, transactions: list[Transaction], **others: object) -> object:
        made = draft(ledger, transactions, **others)  # type: ignore[arg-type]
        into["blocks of several"] += len(made.transactions) > 1
        into["blocks on others"] += made.on is not None
        into["left out"] += len(made.clashes)
        return made

    with patch.object(committing, "_are_apart", counted_apart), patch.object(Ledger, "draft", counted_draft):
        yield


def test_the_stories_are_of_every_kind() -> None:
    counts: Counter[str] = Counter()
    with counted(counts):
        for seed in range(16):
            story = lived_through(seed)
            counts.update(answer.ended.name for answer in story.world.answers.values())
            counts["forgetful"] += story.is_forgetful
            for one in story.world.shards:
                counts["with a codebook"] += bool(one.state.ledger.codebook.centroids)
                counts["with parts"] += one.state.participant.has_ended
    for what in ("apart", "together", "blocks of several", "blocks on others", "left out"):
        assert counts[what] > 20, (what, counts)
    for what in ("forgetful", "with a codebook", "with parts"):
        assert counts[what] > 2, (what, counts)
    for ended in (Ended.COMMITTED, Ended.CONFLICT, Ended.REFUSED, Ended.BUSY, Ended.FORGOTTEN):
        assert counts[ended.name] > 5, (ended, counts)
