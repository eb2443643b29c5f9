"""A shard as a participant: the test is the coordinator, on shard 1, and reads what it is told."""

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Operation, ReadVersion, Transaction
from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.shard.events import Heard
from bobbin.cluster.transactions.messages import (
    PrepareVote,
    ShardMessage,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId
from tests.unit.cluster.shard.driven import DrivenShards

COORDINATOR = ShardId(1)
NOWHERE = Embedding(16, (), ())


class Participating:
    """Shard 0, and what the coordinator says to it."""

    def __init__(self, config: DistributedTxConfig = DistributedTxConfig()) -> None:  # noqa: B008 -- never changes
        self.world = DrivenShards(2, config=config)
        self.shard = self.world[0]
        self.state = self.shard.state

    def key(self, name: str = "k") -> bytes:
        return self.world.key(0, name)

    def part(
        self, *operations: Operation, reads: tuple[ReadVersion, ...] = (), born_ms: int = 0, since: int | None = None
    ) -> Transaction:
        return self.world.transaction(*operations, reads=reads, born_ms=born_ms, since=since)

    def message(self, part: Transaction, *, delta: Embedding = NOWHERE, timeout_ms: int = 5_000) -> TxPrepareMsg:
        shards = (ShardId(0), COORDINATOR)
        return TxPrepareMsg(TxId(part.id), COORDINATOR, ShardId(0), part, delta, timeout_ms, shards)

    def hear(self, message: ShardMessage) -> None:
        self.shard.step(Heard(COORDINATOR, message))

    def prepare(self, part: Transaction) -> TxPrepareMsg:
        message = self.message(part)
        self.hear(message)
        return message

    def promise(self, part: Transaction) -> TxPrepareMsg:
        message = self.prepare(part)
        self.settle()
        assert isinstance(self.votes()[-1], Yes)
        return message

    def commit(self, tx: bytes) -> None:
        self.hear(TxCommitMsg(TxId(tx), COORDINATOR, ShardId(0)))

    def abort(self, tx: bytes) -> None:
        self.hear(TxAbortMsg(TxId(tx), COORDINATOR, ShardId(0), "a test"))

    def settle(self) -> None:
        while self.shard.proposals:
            self.shard.apply_next()

    def said(self) -> list[ShardMessage]:
        """What was sent since the last time this was asked."""
        said = [message for _, _, message in self.world.messages]
        self.world.messages.clear()
        return said

    def votes(self) -> list[PrepareVote]:
        return [message.vote for message in self.said() if isinstance(message, TxPrepareResponse)]

    def acks(self) -> list[bool]:
        return [message.success for message in self.said() if isinstance(message, TxAckMsg)]

    def check_nothing_left(self) -> None:
        assert self.shard.leader.leftovers() == {}
        assert not self.state.participant.promises
        self.state.participant.check()
