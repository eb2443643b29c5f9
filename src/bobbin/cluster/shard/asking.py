"""What a shard does while it does not know the decision about something it has promised: it asks, and never guesses.

First the coordinator, then the other participants, in turns, every ``query_timeout_ms``; in between it waits, with all
keys locked. A participant tells only what it has seen decided. There is no age at which a promise ends by itself.
"""

from typing import Final

from bobbin.cluster.shard.leading import Leading
from bobbin.cluster.shard.preparing import Preparing
from bobbin.cluster.transactions.messages import TxCommitMsg, TxDecisionMsg, TxQueryMsg
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.participant import Promise


class Asking:
    """Questions about the promises of one leader's shard, and answers to those of others."""

    def __init__(self, leading: Leading, preparing: Preparing) -> None:
        self.questions = 0
        """Asked since this leader began."""
        self._leading: Final = leading
        self._preparing: Final = preparing
        self._due: dict[TxId, tuple[int, int]] = {}
        """When it will be asked about, and how often that was done before."""

    def tick(self) -> None:
        """Time has passed: ask about what is due."""
        leading = self._leading
        promises = leading.shard.participant.promises
        for tx in [tx for tx in self._due if tx not in promises]:
            del self._due[tx]
        wait_ms = leading.config.query_timeout_ms
        for tx, promise in promises.items():
            self.note(tx)
            due_ms, rounds = self._due[tx]
            if leading.now_ms >= due_ms and promise.resolution is None:
                self._due[tx] = (leading.now_ms + wait_ms, rounds + 1)
                for shard in self._whom(promise, rounds):
                    self.questions += 1
                    leading.send(shard, TxQueryMsg(tx, promise.message.coordinator, leading.own, shard))

    def note(self, tx: TxId) -> None:
        """Something is promised: it is asked about after a while without a decision."""
        self._due.setdefault(tx, (self._leading.now_ms + self._leading.config.query_timeout_ms, 0))

    def _whom(self, promise: Promise, rounds: int) -> tuple[ShardId, ...]:
        coordinator = promise.message.coordinator
        others = tuple(shard for shard in promise.message.participants if shard not in (coordinator, self._leading.own))
        return others if rounds % 2 and others else (coordinator,)

    @property
    def due_ms(self) -> int | None:
        """When a tick is wanted; nobody is asked about what was ended by hand."""
        if not self._due:
            return None
        promises = self._leading.shard.participant.promises
        moments = (
            due_ms
            for tx, (due_ms, _) in self._due.items()
            if (promise := promises.get(tx)) is not None and promise.resolution is None
        )
        return min(moments, default=None)

    def query(self, message: TxQueryMsg) -> None:
        """Another participant asks: tell what this shard has seen decided, and nothing else."""
        leading = self._leading
        commits = leading.shard.participant.decision(message.tx)
        leading.send(message.asker, TxDecisionMsg(message.tx, leading.own, commits))

    def decision(self, message: TxDecisionMsg) -> None:
        """Somebody knows, or does not. It counts if it is about a promise, and from one who can know."""
        promise = self._leading.shard.participant.promises.get(message.tx)
        if promise is None or message.commits is None:
            return
        told = promise.message
        if message.shard != told.coordinator and message.shard not in told.participants:
            return
        if message.commits:
            self._preparing.commit(TxCommitMsg(message.tx, told.coordinator, self._leading.own))
        else:
            self._preparing.drop(message.tx, told.coordinator)
