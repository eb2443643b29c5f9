"""What must be so when a world of transactions has come to rest."""

from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.chain.meaning import transitions_fault
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.operations import CounterAdd
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.names import ShardId
from bobbin.simulator.transaction_checker import TransactionChecker
from bobbin.simulator.transaction_clients import (
    ACCOUNT_START,
    Status,
    Wanted,
    account,
    read_list,
    twin,
    watch,
)
from bobbin.simulator.transaction_order import Lifetime
from bobbin.simulator.transaction_shard import SimulatedShard


class Audit:
    """The end of a world."""

    def __init__(
        self,
        shards: Sequence[SimulatedShard],
        checker: TransactionChecker,
        book: Sequence[Wanted],
        *,
        keys: int,
        is_thorough: bool,
        fail: Callable[[str], NoReturn],
    ) -> None:
        """``is_thorough``: look at whole chains as an operator would, who has nothing but the blocks."""
        self._is_thorough: Final = is_thorough
        self._shards: Final = shards
        self._checker: Final = checker
        self._book: Final = book
        self._keys: Final = keys
        self._fail: Final = fail

    def expect_all_well(self) -> None:
        """Everything that can be said about the end."""
        self._checker.expect_rest()
        self._expect_nothing_left()
        self._expect_chains()
        self._expect_replay()
        for wanted in self._book:
            self._expect_answer(wanted)
        self._expect_sums()
        self._expect_order()

    def _expect_nothing_left(self) -> None:
        """T2: no lock, wait, promise or open transaction on any leader or node."""
        for one in self._shards:
            for copy in one.copies:
                if copy.state.participant.promises:
                    self._fail(f"T2: a node of shard {one.shard} has promised {copy.state.participant.promises}")
                if len(copy.state.participant.locks):
                    self._fail(
                        f"T2: a node of shard {one.shard} holds locks of {copy.state.participant.locks.transactions}"
                    )
                if copy.state.recovery.open:
                    self._fail(f"T2: a node of shard {one.shard} coordinates {copy.state.recovery.open}")
            assert one.chair is not None
            left = one.chair.machine.leftovers()
            if left:
                self._fail(f"T2: the leader of shard {one.shard} still has {left}")

    def _expect_chains(self) -> None:
        """Both nodes have the same chain, which is whole."""
        for one in self._shards:
            first, second = (copy.state.ledger for copy in one.copies)
            fault = second.verify() if self._is_thorough else None
            if fault is not None:
                self._fail(f"chain: of shard {one.shard}: {fault}")
            if (first.height, first.tip, first.state_root) != (second.height, second.tip, second.state_root):
                self._fail(f"chain: the nodes of shard {one.shard} end with different chains")
            if list(first.blocks(1, first.height)) != list(second.blocks(1, second.height)):
                self._fail(f"chain: the nodes of shard {one.shard} have different blocks")

    def _expect_replay(self) -> None:
        """A store is what the blocks of its chain make of it, and nothing else has left a trace in it."""
        for one, memory in zip(self._shards, self._checker.shards, strict=True):
            ledger = one.copies[0].state.ledger
            anew = Ledger(config=ledger.config)
            books = list(memory.codebooks)
            for block in ledger.blocks(1, ledger.height):
                while books and books[0][0] < block.header.height:
                    _, book = books.pop(0)
                    anew.replace_codebook(GlobalCodebook.decode(book.version, book.centroids))
                self._expect_moves(one.shard, anew, block)
                done = anew.append(block, promised={transaction.id for transaction in block.transactions})
                if isinstance(done, str):
                    self._fail(f"chain: block {block.header.height} of shard {one.shard} is refused anew: {done}")
            if anew.state_root != ledger.state_root:
                self._fail(f"chain: the state root of shard {one.shard} does not follow from its blocks")
            for key in memory.keys:
                if anew.get(key) != ledger.get(key):
                    self._fail(f"chain: shard {one.shard} holds {ledger.get(key)}, and its blocks make {anew.get(key)}")

    def _expect_moves(self, shard: ShardId, ledger: Ledger, block: Block) -> None:
        """No leader lets a vector move to where the codebook knows nothing, unless it was promised before that."""
        if not ledger.codebook.centroids:
            return
        promised = {tx for tx, of in self._checker.outcomes if of == shard}
        overlay = ledger.judgement(block).overlay()
        fault = transitions_fault(overlay, block.transactions, ledger.codebook, promised)
        if fault is not None:
            self._fail(f"chain: block {block.header.height} of shard {shard} is against its codebook: {fault}")

    def _expect_answer(self, wanted: Wanted) -> None:
        """What was acknowledged is there, once, and what was refused is not."""
        done = self._checker.committed.get(wanted.tx, {})
        writing = {shard for shard, part in wanted.parts if part.operations}
        if wanted.status is Status.COMMITTED and not writing <= set(done):
            self._fail(f"lost: {wanted.number} was acknowledged at {writing}, and is in the chains of {set(done)}")
        if wanted.status is Status.REFUSED and done:
            self._fail(f"refused: {wanted.number} was refused ({wanted.answers}), and is in the chains of {set(done)}")
        if wanted.status is Status.COMMITTED and wanted.wish == "audit":
            self._expect_view(wanted)

    def _expect_view(self, wanted: Wanted) -> None:
        """Whoever looked at all accounts has seen all the money, and whoever looked at twins has seen them alike."""
        keys = list(wanted.seen)
        if keys[0].startswith(b"account"):
            total = sum(int(value or ACCOUNT_START) for value in wanted.seen.values())
            if total != ACCOUNT_START * len(keys):
                self._fail(f"T7: {wanted.number} saw {total} in {len(keys)} accounts")
        if keys[0].startswith(b"twin") and len(set(wanted.seen.values())) > 1:
            self._fail(f"T7: {wanted.number} saw twins that differ: {wanted.seen}")

    def _value(self, key: bytes) -> bytes | None:
        one = self._shards[shard_of(key, len(self._shards))]
        item = one.copies[0].state.ledger.get(key)
        return None if item is None else item.value

    def _expect_sums(self) -> None:
        """Money, watches, twins, lists and counters are what the committed transactions make of them."""
        accounts = [account(number) for number in range(self._keys + 1)]
        total = sum(int(self._value(key) or ACCOUNT_START) for key in accounts)
        if total != ACCOUNT_START * len(accounts):
            self._fail(f"T1: the accounts hold {total}, not {ACCOUNT_START * len(accounts)}")
        for pair in range(self._keys):
            if all(self._value(watch(pair, place)) == b"off" for place in (0, 1)):
                self._fail(f"T7: nobody is on watch {pair}")
            if self._value(twin(pair, 0)) != self._value(twin(pair, 1)):
                self._fail(f"T1: the twins {pair} differ")
        self._expect_lists(self._done())
        self._expect_counters(self._done())

    def _done(self) -> list[Wanted]:
        return [wanted for wanted in self._book if wanted.tx in self._checker.committed]

    def _expect_lists(self, done: Sequence[Wanted]) -> None:
        for number in range(self._keys + 1):
            key = b"list %d" % number
            values = sorted(value for wanted in done for of, value in wanted.appended if of == key)
            if sorted(read_list(self._value(key))) != values:
                self._fail(f"lost: {key!r} holds {self._value(key)!r}, and {values} were put behind it")

    def _expect_counters(self, done: Sequence[Wanted]) -> None:
        sums: dict[bytes, int] = {}
        for wanted in done:
            for operation in wanted.operations:
                if isinstance(operation, CounterAdd) and wanted.wish == "count":
                    sums[operation.key] = sums.get(operation.key, 0) + operation.amount
        for key, amount in sums.items():
            held = self._value(key)
            if held is None or int(held) != amount:
                self._fail(f"lost: {key!r} holds {held!r}, and the sum is {amount}")

    def _expect_order(self) -> None:
        """T7."""
        lifetimes: dict[bytes, Lifetime] = {}
        for wanted in self._book:
            if wanted.tx in self._checker.committed or wanted.status is Status.COMMITTED:
                returned_ns = wanted.returned_ns if wanted.status is Status.COMMITTED else None
                lifetimes[wanted.tx] = Lifetime(wanted.called_ns, returned_ns)
            if wanted.tx not in self._checker.committed and wanted.status is Status.COMMITTED:
                for shard, part in wanted.parts:
                    for read in part.reads:
                        self._checker.order.read((shard, read.key), wanted.tx, read.version)
        circle = self._checker.order.find_circle(lifetimes)
        if circle:
            numbers: dict[bytes, int] = {wanted.tx: wanted.number for wanted in self._book}
            self._fail(f"T7: each of these must stand before the next: {[numbers.get(tx, 0) for tx in circle]}")


def expect_all_well(
    shards: Sequence[SimulatedShard],
    checker: TransactionChecker,
    book: Sequence[Wanted],
    *,
    keys: int,
    is_thorough: bool,
    fail: Callable[[str], NoReturn],
) -> None:
    """Everything that can be said about the end of a world."""
    Audit(shards, checker, book, keys=keys, is_thorough=is_thorough, fail=fail).expect_all_well()
