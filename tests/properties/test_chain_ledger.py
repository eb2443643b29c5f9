"""A ledger with drafts is what a naive one is that keeps every write ever made and looks at all of them every time.

The naive ledger knows no drafts, no versions that stand for runs of others, no incremental root, and forgets nothing;
where the ledger keeps a few heights only, transactions from below are left out by their age. Histories have batches
with transactions of any age, true and false reads, drafts on drafts of which some never come to anything, a follower
that judges what the leader drafts, and one that only hears what was decided and is restored now and then.
"""

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster.chain.draft import Draft
from bobbin.cluster.chain.holdings import Held, result_of
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.content_tree import ContentTree
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    COMMUTATIVE,
    Average,
    CompareAndSwap,
    CounterAdd,
    Delete,
    EdgeCreate,
    Embed,
    NodeCreate,
    NodeDelete,
    Operation,
    Put,
    ReadVersion,
    SetAdd,
    TableDelete,
    TableInsert,
    TableUpdate,
    Transaction,
    Update,
    VectorAdd,
    sized,
    storage_key,
)
from bobbin.cluster.settings import ChainConfig
from tests.properties.effort import scaled
from tests.support.chains import ALICE, PlainCodec, fingerprint

_CODEC = PlainCodec()


@dataclass
class _Write:
    height: int
    kind: type[Operation] | None
    """The declared commutative kind; None for any other."""
    held: Held | None


@dataclass
class _Naive:
    """What the ledger should be."""

    height: int = 0
    writes: dict[bytes, list[_Write]] = field(default_factory=dict)
    """Every one that was ever made, in order."""

    def held(self, key: bytes, at: int | None = None) -> tuple[int, Held | None]:
        last = [one for one in self.writes.get(key, []) if at is None or one.height <= at]
        return (last[-1].height, last[-1].held) if last and last[-1].held is not None else (0, None)

    def may_commit(self, given: Transaction) -> bool:
        for read in given.reads:
            later = [one for one in self.writes.get(read.key, []) if one.height > given.since]
            if self.held(read.key)[0] != read.version or (read.version == 0 and later):
                return False
        for key in {storage_key(operation) for operation in given.operations}:
            kinds = {_kind(operation) for operation in given.operations if storage_key(operation) == key}
            later_kinds = {one.kind for one in self.writes.get(key, []) if one.height > given.since}
            if later_kinds and (len(kinds | later_kinds) > 1 or None in kinds):
                return False
        return True

    def do(self, given: Transaction, height: int) -> list[int]:
        refused = []
        for number, operation in enumerate(given.operations):
            key = storage_key(operation)
            present = self.held(key)[1]
            result = result_of(operation, present)
            if isinstance(result, str):
                refused.append(number)
            elif result is not None or present is not None:
                self.writes.setdefault(key, []).append(_Write(height, _kind(operation), result))
        return refused

    def copy(self) -> "_Naive":
        return _Naive(self.height, {key: list(writes) for key, writes in self.writes.items()})

    @property
    def state_root(self) -> bytes:
        tree = ContentTree()
        for key in self.writes:
            held = self.held(key)[1]
            if held is not None:
                fields = sized(b"holds") + sized(bytes([held.holds])) + sized(b"value") + sized(held.value)
                tree.update([(key, sized(key) + b"\0\0\0\x02" + fields)])
        return tree.top


def _kind(operation: Operation) -> type[Operation] | None:
    return type(operation) if isinstance(operation, COMMUTATIVE) else None


def _operation(chance: Random) -> Operation:
    key = chance.choice([b"a", b"b", b"c"])
    value = chance.choice([b"", b"1", b"22"])
    vector = Embedding.of(8, {chance.randrange(8): chance.choice([-1.0, 0.5, 2.0])})
    row = chance.choice([b"r", b"s"])
    made: list[Operation] = [
        Put(key, value),
        Delete(key),
        Update(key, value),
        CompareAndSwap(key, value, b"swapped"),
        CounterAdd(key, chance.randint(-5, 5)),
        CounterAdd(key, 1),
        SetAdd(key, value),
        SetAdd(key, b"m"),
        Embed(key, vector),
        VectorAdd(key, vector),
        Average(key, vector),
        NodeCreate(key, "label"),
        NodeDelete(key),
        EdgeCreate(key, b"b", "t"),
        TableInsert(key, (value,)),
        TableUpdate(key, row, (value,)),
        TableDelete(key, row),
    ]
    return chance.choice(made)


def _transaction(chance: Random, naive: _Naive, number: int) -> Transaction:
    operations = tuple(_operation(chance) for _ in range(chance.choice([0, 1, 1, 2, 4])))
    since = max(0, naive.height - chance.choice([0, 0, 1, 2, 5]))
    reads = {}
    for _ in range(chance.choice([0, 0, 1, 2])):
        key = storage_key(_operation(chance))
        version = naive.held(key, since)[0]
        reads[key] = version if chance.random() < 0.9 else chance.randint(0, naive.height)
    seen = tuple(ReadVersion(key, reads[key]) for key in sorted(reads))
    return Transaction(number.to_bytes(16, "big"), operations, seen, since)


class _World:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.keep = chance.choice([2, 4, 10_000])
        self.keep_bytes = chance.choice([1_500, 10_000_000])
        self.leader, self.judge, self.late = (self.new_ledger() for _ in range(3))
        self.naive = _Naive()
        self.number = 0

    def new_ledger(self) -> Ledger:
        config = ChainConfig(embedding_dimension=8)
        return Ledger(config=config, keep_heights=self.keep, keep_bytes=self.keep_bytes)

    def propose(self, naive: _Naive, on: Draft | None) -> Draft:
        """Draft some transactions as the naive ledger does, and see that both take in the same."""
        batch = []
        for _ in range(self.chance.randint(1, 5)):
            self.number += 1
            batch.append(_transaction(self.chance, naive, self.number))
        draft = self.leader.draft(batch, proposer=ALICE.node, timestamp_ms=self.number, on=on)
        height = naive.height + 1
        taken: list[Transaction] = []
        refusals: list[tuple[int, int]] = []
        floor = max(self.leader.floor, naive.height - self.keep)
        for one in batch:
            if naive.may_commit(one) and one.since >= floor:
                refusals += [(len(taken), number) for number in naive.do(one, height)]
                taken.append(one)
        naive.height = height
        assert draft.transactions == tuple(taken)
        assert len(draft.clashes) == len(batch) - len(taken)
        assert [(place, number) for place, number, _ in draft.refusals] == refusals
        assert draft.header.state_root == naive.state_root
        return draft

    def round(self) -> None:
        """Some drafts, one on the other; a first part of them is decided and the rest is lost."""
        before = fingerprint(self.leader)
        drafts: list[Draft] = []
        naives: list[_Naive] = []
        naive = self.naive.copy()
        for _ in range(self.chance.randint(1, 4)):
            draft = self.propose(naive, drafts[-1] if drafts else None)
            if not draft.transactions:
                break
            self.leader.seal(draft, ALICE)
            drafts.append(draft)
            naives.append(naive.copy())
        assert fingerprint(self.leader) == before
        decided = self.chance.randint(0, len(drafts))
        judged: list[Draft] = []
        for draft in drafts:
            found = self.judge.judge(draft.block, on=judged[-1] if judged else None)
            assert not isinstance(found, str), found
            judged.append(found)
        for number in range(decided):
            block = drafts[number].block
            floor = self.leader.floor
            merged = self.leader.append(block, drafts[number])
            assert self.judge.append(block, judged[number]) == self.late.append(block) == merged
            if not isinstance(merged, Appended):
                # The blocks below it have raised the floor, which nobody could know when it was drafted.
                assert any(one.since < floor for one in block.transactions)
                break
            self.naive = naives[number]
        if self.chance.random() < 0.3:
            copy = self.new_ledger()
            copy.restore(_CODEC, list(self.late.snapshot(_CODEC)))
            self.late = copy

    def check(self) -> None:
        marks = [fingerprint(ledger) for ledger in (self.leader, self.judge, self.late)]
        assert marks[0] == marks[1] == marks[2]
        assert self.leader.height == self.naive.height
        for key in self.naive.writes:
            for height in range(self.leader.floor, self.naive.height + 1):
                self._check_item(self.leader, key, height)
                self._check_item(self.late, key, height)
            touched = self.leader.heights_of(key)
            assert {one.height for one in self.naive.writes[key]} <= set(touched)
        assert self.leader.verify() is None

    def _check_item(self, ledger: Ledger, key: bytes, height: int) -> None:
        item = ledger.get(key, height)
        version, held = self.naive.held(key, height)
        found = (0, None) if item is None else (item.version, Held(item.holds, item.value))
        assert found == (version, held)


@given(st.integers(0, 2**32))
@scaled(0.15)
def test_a_ledger_with_drafts_is_a_naive_one(seed: int) -> None:
    world = _World(Random(seed))
    for _ in range(5):
        world.round()
    world.check()


@given(st.integers(0, 2**32))
@scaled(0.15)
def test_whoever_may_not_commit_may_never_again(seed: int) -> None:
    """A refusal stays true however the chain goes on, so it may be told by a node that is behind."""
    chance = Random(seed)
    world = _World(chance)
    refused: list[Transaction] = []
    for _ in range(6):
        naive = world.naive
        for _ in range(4):
            world.number += 1
            one = _transaction(chance, naive, world.number)
            if world.leader.clash(one) is not None:
                refused.append(one)
        world.round()
        assert all(world.leader.clash(one) is not None for one in refused)
