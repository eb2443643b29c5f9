"""A decision on its way to the participants: whom to tell, when to tell them again, and when to stop.

A commit is told until everybody has acknowledged it, at growing distances, for as long as that takes. An abort is told
again after 1, 2, 4, 8 and 16 seconds and then left to itself: who has missed it asks, and is told that whatever nobody
knows of is aborted.
"""

from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.names import ShardId


class Delivery:
    """One decision. The first message to each is the caller's, at ``now_ms``."""

    __slots__ = ("_config", "acknowledged", "commits", "due_ms", "is_given_up", "started_ms", "tries", "waiting")

    def __init__(self, shards: tuple[ShardId, ...], *, commits: bool, config: DistributedTxConfig, now_ms: int) -> None:
        self.commits = commits
        self.waiting = list(shards)
        """Who has not acknowledged, ascending."""
        self.acknowledged: list[ShardId] = []
        """Who has, in the order in which they did."""
        self.started_ms = now_ms
        self.tries = 0
        """Repetitions."""
        self.is_given_up = False
        self._config = config
        self.due_ms = self._next(now_ms)

    @property
    def is_over(self) -> bool:
        """Whether nobody is told any more."""
        return not self.waiting or self.is_given_up

    def acknowledge(self, shard: ShardId) -> None:
        """Somebody who was waited for has done as told."""
        self.waiting.remove(shard)
        self.acknowledged.append(shard)

    def repeat(self, now_ms: int) -> tuple[ShardId, ...]:
        """Whom to tell again now; nobody before ``due_ms``, and nobody any more when an abort is given up."""
        if self.is_over or now_ms < self.due_ms:
            return ()
        config = self._config
        if not self.commits and (
            self.tries >= config.abort_tries_max or now_ms >= self.started_ms + config.abort_forget_ms
        ):
            self.is_given_up = True
            return ()
        self.tries += 1
        if not self.commits:
            # Moments that a leap of the clock has passed over are not made up for.
            while self.tries < config.abort_tries_max and self._next(now_ms) <= now_ms:
                self.tries += 1
        self.due_ms = self._next(now_ms)
        return tuple(self.waiting)

    def _next(self, now_ms: int) -> int:
        config = self._config
        # The power is bounded before it is taken: a commit may be told a million times.
        power = min(self.tries, 32)
        if self.commits:
            longest_ms = max(config.sweep_interval_ms, config.decision_handler_timeout_ms)
            return now_ms + min(config.decision_handler_timeout_ms << power, longest_ms)
        return self.started_ms + min(config.abort_retry_ms << power, config.abort_forget_ms)
