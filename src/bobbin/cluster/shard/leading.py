"""What all parts of a shard's leader share: the state that was applied, the present moment, and what is to be done."""

from typing import Final

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Term
from bobbin.cluster.settings import DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.commands import Command
from bobbin.cluster.shard.effects import Alarm, Answer, Effect, Propose, Send
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.locks import LockManager
from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended


class Leading:
    """Nothing in here is needed for safety: all of it is lost with the leadership."""

    def __init__(
        self,
        shard: Shard,
        *,
        identity: Identity,
        term: Term,
        shards: int,
        config: DistributedTxConfig,
        detector: DeadlockDetectorConfig,
    ) -> None:
        self.shard: Final = shard
        self.identity: Final = identity
        self.term: Final = term
        self.shards: Final = shards
        self.config: Final = config
        self.detector: Final = detector
        self.locks: Final = LockManager(timeout_ms=config.lock_timeout_ms)
        """Of promised parts, and of those whose promise is on its way to the log."""
        self.now_ms = 0
        self.wall_ms = 0
        self.effects: list[Effect] = []
        self._next_proposal = 1
        self.locks.restore(shard.participant.locks.save())

    @property
    def own(self) -> ShardId:
        return self.shard.shard

    @property
    def dimension(self) -> int:
        """Of every vector of this shard."""
        return self.shard.config.embedding_dimension

    def take_effects(self) -> list[Effect]:
        """What is to be done, once."""
        effects, self.effects = self.effects, []
        return effects

    def propose(self, command: Command) -> int:
        """Write to the log; the number under which it will be heard of again."""
        number = self._next_proposal
        self._next_proposal += 1
        self.effects.append(Propose(number, command))
        return number

    def send(self, shard: ShardId, message: ShardMessage) -> None:
        """Tell the leader of a shard."""
        self.effects.append(Send(shard, message))

    def answer(
        self,
        request: int,
        ended: Ended,
        tx: TxId,
        reason: str = "",
        *,
        similarity: float | None = None,
        height: int = 0,
    ) -> None:
        """Tell a client that waits."""
        self.effects.append(Answer(request, ended, tx, height, reason, similarity))

    def alarm(self, code: str, detail: str) -> None:
        """Tell a person."""
        self.effects.append(Alarm(code, detail))
