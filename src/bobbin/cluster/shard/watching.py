"""Who waits for whom on a shard, told to the one that looks for deadlocks; and that one, on shard 0."""

from typing import Final

from bobbin.cluster.shard.leading import Leading
from bobbin.cluster.shard.preparing import Preparing
from bobbin.cluster.transactions.deadlock import DeadlockStats
from bobbin.cluster.transactions.detection import Detection, DetectionEffect, Found, Say, recheck, wait_report
from bobbin.cluster.transactions.messages import Recheck, Rechecked, WaitReport
from bobbin.cluster.transactions.names import ShardId

DETECTOR: Final = ShardId(0)
"""Whose leader looks for deadlocks."""


class Watching:
    """Reports while somebody waits, and one more when nobody does any longer; nothing else is sent."""

    def __init__(self, leading: Leading, preparing: Preparing) -> None:
        self.detection: Final = (
            Detection(leading.detector, shards=leading.shards, stats=DeadlockStats())
            if leading.own == DETECTOR
            else None
        )
        self._leading: Final = leading
        self._preparing: Final = preparing
        self._round = 0
        self._due_ms = 0
        """Before this moment nothing is reported again."""
        self._was_empty = True

    def tick(self) -> None:
        """Time has passed."""
        leading = self._leading
        if leading.detector.enabled and self._is_news and leading.now_ms >= self._due_ms:
            self._report()
        if self.detection is not None and not self.detection.is_quiet:
            self._perform(self.detection.tick(now_ms=leading.now_ms))

    @property
    def _is_news(self) -> bool:
        return not self._was_empty or len(self._leading.locks.waits) > 0

    def _report(self) -> None:
        leading = self._leading
        self._round += 1
        report = wait_report(
            leading.locks,
            shard=leading.own,
            number=self._round,
            term=leading.term,
            coordinator_of=self._preparing.coordinator_of,
        )
        leading.send(DETECTOR, report)
        self._was_empty = not report.edges
        self._due_ms = leading.now_ms + leading.detector.detection_interval_ms

    @property
    def due_ms(self) -> int | None:
        """When a tick is wanted."""
        if not self._leading.detector.enabled:
            return None
        due = max(self._due_ms, self._leading.now_ms) if self._is_news else None
        if self.detection is not None and not self.detection.is_quiet:
            search_ms = self.detection.due_ms
            if search_ms is not None:
                due = search_ms if due is None else min(due, search_ms)
        return due

    def hear(self, message: WaitReport | Recheck | Rechecked, sender: ShardId) -> None:
        """What another shard says of waits, or asks."""
        leading = self._leading
        if isinstance(message, Recheck):
            if sender == DETECTOR and message.shard == leading.own:
                leading.send(sender, recheck(leading.locks.waits, message))
        elif self.detection is not None and message.shard == sender:
            if isinstance(message, WaitReport):
                self.detection.report(message, now_ms=leading.now_ms)
            else:
                self._perform(self.detection.rechecked(message, now_ms=leading.now_ms))

    def _perform(self, effects: list[DetectionEffect]) -> None:
        for effect in effects:
            match effect:
                case Say(shard=shard, message=message):
                    self._leading.send(shard, message)
                case Found(info=info, is_aborted=is_aborted):
                    if not is_aborted:
                        waiting = ", ".join(tx.hex() for tx in info.cycle[:10])
                        self._leading.alarm("deadlock", f"{len(info.cycle)} transactions wait in a circle: {waiting}")

    @property
    def is_quiet(self) -> bool:
        """Nobody is known to wait."""
        return not self._is_news and (self.detection is None or self.detection.is_quiet)
