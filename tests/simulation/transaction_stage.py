"""A world of transactions in which nothing happens but what a story lets happen."""

from random import Random
from typing import Final

from msgspec.structs import replace

from bobbin.cluster.operations import Operation, Put, TableInsert, Transaction, storage_key
from bobbin.cluster.settings import DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.shard.events import Begin
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.simulator.circumstances import MILLISECOND_NS
from bobbin.simulator.transaction_shape import draw_shape
from bobbin.simulator.transaction_shard import Chair
from bobbin.simulator.transaction_world import TransactionWorld

ONE, OTHER = ShardId(0), ShardId(1)


class Stage:
    """Two shards with their leaders, and no clients but the story."""

    def __init__(
        self, config: DistributedTxConfig | None = None, detector: DeadlockDetectorConfig | None = None
    ) -> None:
        shape = replace(
            draw_shape(Random(1)),
            shards=2,
            config=config or DistributedTxConfig(),
            detector=detector or DeadlockDetectorConfig(),
            strikes=0.0,
            refusals=0.0,
            lag_ns_max=0,
            commit_ns_max=2 * MILLISECOND_NS,
            is_bytes=False,
            is_judging=False,
        )
        self.world: Final = TransactionWorld(1, shape=shape)
        self.answers: Final = dict[TxId, list[Answer]]()
        self.world.dawn()

    def key(self, shard: ShardId) -> bytes:
        """A key of a shard."""
        return next(key for key in (b"%d" % number for number in range(100)) if shard_of(key, 2) == shard)

    def begin(
        self,
        number: int,
        coordinator: ShardId = ONE,
        *,
        timeout_ms: int = 5_000,
        since: int = 0,
        rows: bool = False,
    ) -> TxId:
        """A transaction that writes one key on each shard, or one row of a table of that name."""
        tx = tx_id(since, bytes([number]) * 8)
        value, parts = b"%d" % number, []
        for shard in (ONE, OTHER):
            key = self.key(shard)
            operation: Operation = TableInsert(key, (value,)) if rows else Put(key, value)
            part = Transaction(id=tx, operations=(operation,), since=since, born_ms=1_000 + number)
            parts.append((shard, part))
        self.answers[tx] = []
        assert self.world.ask(
            coordinator, lambda request: Begin(request, tx, tuple(parts), timeout_ms), self.answers[tx].append
        )
        return tx

    def leader(self, shard: ShardId) -> Chair:
        """Whoever leads a shard."""
        chair = self.world.shards[shard].chair
        assert chair is not None
        return chair

    def promises(self, shard: ShardId) -> set[TxId]:
        """What both nodes of a shard have promised."""
        first, second = (set(copy.state.participant.promises) for copy in self.world.shards[shard].copies)
        assert first == second
        return first

    def locked(self, shard: ShardId) -> set[TxId]:
        """Who holds keys in the state of a shard."""
        return set(self.world.shards[shard].copies[0].state.participant.locks.transactions)

    def value(self, shard: ShardId) -> bytes | None:
        """What the key of a shard holds."""
        item = self.world.shards[shard].copies[0].state.ledger.get(self.key(shard))
        return None if item is None else item.value

    def row(self, shard: ShardId, number: int) -> bytes | None:
        """The row that a transaction of this number wants to write."""
        operation = TableInsert(self.key(shard), (b"%d" % number,))
        item = self.world.shards[shard].copies[0].state.ledger.get(storage_key(operation))
        return None if item is None else item.value

    def root(self, shard: ShardId) -> bytes:
        """Of the store."""
        return self.world.shards[shard].copies[0].state.ledger.state_root

    def replace_leader(self, shard: ShardId) -> None:
        """The leader dies with all that it has not written, and another one leads."""
        one = self.world.shards[shard]
        one.log.lose_open()
        one.lose_leader(is_deposed=False)
        one.elect()

    def pass_ms(self, ms: int) -> None:
        self.world.pass_time(ms * MILLISECOND_NS)

    def expect_rest(self, within_ms: int = 60_000) -> None:
        """Everything ends, and nothing is left."""
        self.world.run_until(self.world.is_at_rest, within_ms * MILLISECOND_NS, lambda: "it does not come to rest")
        self.world.checker.expect_rest()
        assert self.locked(ONE) == self.locked(OTHER) == set()
