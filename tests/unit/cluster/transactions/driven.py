"""A coordinator driven by hand: entries become durable and time passes when they are told to, and all else is kept."""

from typing import TypeVar

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Put, Transaction
from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.coordinator import Coordinator
from bobbin.cluster.transactions.effects import Alarm, CoordinatorEffect, End, Mistake, Refused, Send, WakeAt, Write
from bobbin.cluster.transactions.messages import (
    PrepareVote,
    ShardMessage,
    TxAckMsg,
    TxPrepareResponse,
    TxQueryMsg,
    VictimMsg,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import TxPhase
from bobbin.cluster.transactions.recovery import TxRecoveryState
from bobbin.cluster.transactions.stats import TxStats
from bobbin.cluster.transactions.tx_log import TxWalEntry

M = TypeVar("M", bound=ShardMessage)

HOME, ONE, TWO, THREE = (ShardId(number) for number in range(4))
X = tx_id(5, b"xxxxxxxx")
Y = tx_id(6, b"yyyyyyyy")
NOTHING = Embedding(4, (), ())
DEFAULT = DistributedTxConfig()
LEFT = Embedding.dense((1.0, 0.0, 0.0, 0.0))
UP = Embedding.dense((0.0, 1.0, 0.0, 0.0))


def part(tx: TxId, shard: ShardId) -> Transaction:
    """What a shard is to do: its own key, so that no two of them overlap."""
    return Transaction(tx, (Put(b"key-%d" % shard, b"value"),), since=3, born_ms=7)


def parts(tx: TxId, *shards: ShardId) -> tuple[tuple[ShardId, Transaction], ...]:
    return tuple((shard, part(tx, shard)) for shard in shards or (ONE, TWO))


def yes(shard: ShardId, delta: Embedding = NOTHING, *, key: bytes | None = None) -> Yes:
    return Yes(10 + shard, delta, (key or b"key-%d" % shard,))


def delta_of(transaction: Transaction) -> Embedding:
    """Something that tells the parts of a transaction apart."""
    return Embedding.dense((float(len(transaction.operations)), 0.0, 0.0, 0.0))


class Driven:
    """The leader of shard 0, which has no part in what it coordinates."""

    def __init__(
        self, state: TxRecoveryState | None = None, *, config: DistributedTxConfig = DEFAULT, now_ms: int = 1_000
    ) -> None:
        self.state = TxRecoveryState() if state is None else state
        self.stats = TxStats()
        self.coordinator = Coordinator(HOME, config, self.stats, self.state, delta_of=delta_of)
        self.now_ms = now_ms
        self.writes: list[Write] = []
        """Not durable yet, in order."""
        self.said: list[Send] = []
        """Since somebody last looked, like the next ones."""
        self.ends: list[End] = []
        self.alarms: list[Alarm] = []
        self.wake_ms: int | None = None
        self.tick()

    def keep(self, effects: list[CoordinatorEffect]) -> list[Mistake]:
        """Sort what is wanted; gives what was refused."""
        mistakes = []
        for effect in effects:
            match effect:
                case Write():
                    self.writes.append(effect)
                case Send():
                    self.said.append(effect)
                case End():
                    self.ends.append(effect)
                case Alarm():
                    self.alarms.append(effect)
                case WakeAt(at_ms):
                    self.wake_ms = at_ms
                case Refused(mistake):
                    mistakes.append(mistake)
        return mistakes

    # ---- what comes ------------------------------------------------------------------------------------------------

    def begin(self, tx: TxId = X, *shards: ShardId, request: int = 1, timeout_ms: int = 60_000) -> None:
        self.keep(
            self.coordinator.begin(
                tx, parts(tx, *shards), timeout_ms, request, now_ms=self.now_ms, at_ms=1_700_000_000_000
            )
        )

    def begun(self, tx: TxId = X, *shards: ShardId) -> "Driven":
        """With a transaction whose prepares have left."""
        self.begin(tx, *shards)
        self.settle()
        self.said.clear()
        return self

    def committing(self, tx: TxId = X, *shards: ShardId) -> "Driven":
        """With a transaction whose commits have left."""
        self.begun(tx, *shards)
        for shard in shards or (ONE, TWO):
            self.vote(shard, tx=tx)
        self.settle()
        self.said.clear()
        return self

    def vote(self, shard: ShardId, vote: PrepareVote | None = None, *, tx: TxId = X) -> list[Mistake]:
        message = TxPrepareResponse(tx, shard, vote or yes(shard))
        return self.keep(self.coordinator.vote(message, now_ms=self.now_ms))

    def ack(self, shard: ShardId, *, tx: TxId = X, success: bool = True, error: str = "") -> list[Mistake]:
        return self.keep(self.coordinator.ack(TxAckMsg(tx, shard, success, error), now_ms=self.now_ms))

    def query(self, asker: ShardId = ONE, *, tx: TxId = X, coordinator: ShardId = HOME) -> list[Mistake]:
        message = TxQueryMsg(tx, coordinator, asker, HOME)
        return self.keep(self.coordinator.query(message, now_ms=self.now_ms))

    def victim(self, *, tx: TxId = X, coordinator: ShardId = HOME) -> list[Mistake]:
        return self.keep(self.coordinator.victim(VictimMsg(tx, coordinator, "in a circle"), now_ms=self.now_ms))

    def abort(self, *, tx: TxId = X, request: int = 9) -> list[Mistake]:
        return self.keep(self.coordinator.abort(tx, request, now_ms=self.now_ms))

    def tick(self, after_ms: int = 0) -> list[Mistake]:
        self.now_ms += after_ms
        return self.keep(self.coordinator.tick(now_ms=self.now_ms))

    def make_durable(self) -> Write:
        """The oldest write goes through, and the coordinator hears of it."""
        write = self.writes.pop(0)
        wrong = self.state.apply(write.entries)
        assert wrong is None, (wrong, write)
        self.keep(self.coordinator.written(write.ticket, now_ms=self.now_ms))
        return write

    def settle(self) -> list[TxWalEntry]:
        """Every write goes through."""
        entries: list[TxWalEntry] = []
        for _ in range(1_000):
            if not self.writes:
                break
            entries += self.make_durable().entries
        assert not self.writes, "each write leads to another one"
        return entries

    def lose(self) -> None:
        """The oldest write is lost."""
        self.keep(self.coordinator.lost(self.writes.pop(0).ticket, "the log is full", now_ms=self.now_ms))

    def successor(self, *, written: int = 0) -> "Driven":
        """The next leader, after so many of the writes under way have become durable without anybody hearing of it."""
        for write in self.writes[:written]:
            assert self.state.apply(write.entries) is None
        saved = TxRecoveryState()
        saved.restore(self.state.snapshot())
        return Driven(saved, now_ms=3)

    # ---- what was wanted -------------------------------------------------------------------------------------------

    def told(self, kind: type[M]) -> list[M]:
        """What was said of one kind; all that was said is forgotten."""
        found: list[M] = [effect.message for effect in self.said if isinstance(effect.message, kind)]
        self.said.clear()
        return found

    def phase(self, tx: TxId = X) -> TxPhase | None:
        return next((one.phase for one in self.coordinator.pending() if one.tx == tx), None)

    def durable_phase(self, tx: TxId = X) -> TxPhase | None:
        record = self.state.open.get(tx)
        return None if record is None else record.phase

    def is_balanced(self) -> bool:
        """Whether every transaction that was started is committed, aborted or undecided."""
        stats = self.stats
        return stats.started == stats.committed + stats.aborted + self.coordinator.undecided
