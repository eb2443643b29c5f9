"""The coordinator of a shard, between the log and the messages of its leader."""

from typing import Final, assert_never

from bobbin.cluster.conflicts.of_operations import delta_of
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Transaction
from bobbin.cluster.shard.checking import why_parts_refused
from bobbin.cluster.shard.commands import Log, Outcome
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.shard.events import Abort, Begin
from bobbin.cluster.shard.leading import Leading
from bobbin.cluster.transactions.coordinator import Coordinator
from bobbin.cluster.transactions.effects import Alarm, CoordinatorEffect, End, Refused, Send, WakeAt, Write
from bobbin.cluster.transactions.messages import TxAckMsg, TxPrepareResponse, TxQueryMsg, VictimMsg
from bobbin.cluster.transactions.names import since_of
from bobbin.cluster.transactions.phases import Ended
from bobbin.cluster.transactions.stats import TxStats

_FUTURE: Final = "its id is of a height that this leader does not know"
"""It is made up, or this leader has a successor, who may commit it: nothing is decided."""


class Coordinating:
    """Takes what concerns the coordinator, and does what it wants to be done."""

    def __init__(self, leading: Leading) -> None:
        self.stats: Final = TxStats()
        self._leading: Final = leading
        self.coordinator: Final = Coordinator(
            leading.own, leading.config, self.stats, leading.shard.recovery, delta_of=self._delta_of
        )
        self._tickets: dict[int, int] = {}
        """By the number of the proposal."""

    def _delta_of(self, part: Transaction) -> Embedding:
        """As far as it can be told without the participant's store."""
        return delta_of(part.operations, lambda _: None, self._leading.dimension).delta

    # ---- what comes ------------------------------------------------------------------------------------------------

    def begin(self, event: Begin) -> None:
        """A client wants a transaction over several shards."""
        leading, shard = self._leading, self._leading.shard
        wrong = why_parts_refused(
            event.tx, event.parts, event.timeout_ms, shards=leading.shards, dimension=leading.dimension
        )
        if wrong is not None:
            leading.answer(event.request, Ended.REFUSED, event.tx, wrong)
            return
        if since_of(event.tx) > shard.newest_id:
            leading.answer(event.request, Ended.BUSY, event.tx, _FUTURE)
            return
        self._perform(
            self.coordinator.begin(
                event.tx,
                event.parts,
                event.timeout_ms,
                event.request,
                now_ms=leading.now_ms,
                at_ms=leading.wall_ms,
            )
        )

    def abort(self, event: Abort) -> None:
        """A client takes back what it began."""
        if since_of(event.tx) > self._leading.shard.newest_id:
            self._leading.answer(event.request, Ended.BUSY, event.tx, _FUTURE)
            return
        self._perform(self.coordinator.abort(event.tx, event.request, now_ms=self._leading.now_ms))

    def vote(self, message: TxPrepareResponse) -> None:
        """A participant has voted."""
        self._perform(self.coordinator.vote(message, now_ms=self._leading.now_ms))

    def ack(self, message: TxAckMsg) -> None:
        """A participant has done as it was told."""
        self._perform(self.coordinator.ack(message, now_ms=self._leading.now_ms))

    def query(self, message: TxQueryMsg) -> None:
        """A participant asks what was decided. An id of the future is made up, or this leader is old: no answer."""
        if since_of(message.tx) > self._leading.shard.newest_id:
            return
        self._perform(self.coordinator.query(message, now_ms=self._leading.now_ms))

    def victim(self, message: VictimMsg) -> None:
        """Somebody wants a transaction to be aborted."""
        self._perform(self.coordinator.victim(message, now_ms=self._leading.now_ms))

    def tick(self) -> None:
        """Time has passed."""
        self._perform(self.coordinator.tick(now_ms=self._leading.now_ms))

    @property
    def due_ms(self) -> int | None:
        """When a tick is wanted."""
        return self.coordinator.due_ms

    # ---- what became of what was written ---------------------------------------------------------------------------

    def logged(self, proposal: int | None, outcome: Outcome) -> None:
        """What was written is in the state, or was refused by it."""
        ticket = self._tickets.pop(proposal, None) if proposal is not None else None
        if ticket is None:
            return
        now_ms = self._leading.now_ms
        if outcome.kind.is_refusal:
            self._leading.alarm("coordinator", f"the log refused what the coordinator wrote: {outcome.reason}")
            self._perform(self.coordinator.lost(ticket, outcome.reason, now_ms=now_ms))
        else:
            self._perform(self.coordinator.written(ticket, now_ms=now_ms))

    def lost(self, proposal: int, reason: str) -> None:
        """What was written will never be in the state."""
        ticket = self._tickets.pop(proposal, None)
        if ticket is not None:
            self._perform(self.coordinator.lost(ticket, reason, now_ms=self._leading.now_ms))

    def _perform(self, effects: list[CoordinatorEffect]) -> None:
        leading = self._leading
        for effect in effects:
            match effect:
                case Write(ticket=ticket, entries=entries):
                    self._tickets[leading.propose(Log(entries))] = ticket
                case Send(shard=shard, message=message):
                    leading.send(shard, message)
                case End():
                    leading.effects.append(
                        Answer(
                            effect.request,
                            effect.ended,
                            effect.tx,
                            leading.shard.committed_at(effect.tx) or 0,
                            effect.reason,
                            effect.similarity,
                            effect.other,
                        )
                    )
                case Alarm(code=code, detail=detail):
                    leading.alarm(code, detail)
                case Refused() | WakeAt():
                    pass  # Counted already; and ``due_ms`` tells when to wake.
                case _:
                    assert_never(effect)

    @property
    def under_way(self) -> int:
        """Writes that were proposed and not heard of."""
        return len(self._tickets)
