"""Transactions of this shard alone that the codebook refuses, on their way to being refused for good.

A codebook may be replaced, and a vector may be moved by somebody else: what it refuses now, a later state may take. So
that it is refused is not said before the id has ended in the state. A copy of the request that is still on its way
then finds it so, whoever leads. The entry is that which drops a part: nothing was promised, and the id is noted.
"""

from typing import Final

from bobbin.cluster.shard.commands import Drop
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.shard.leading import Leading
from bobbin.cluster.shard.waiting import Waiting
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import Ended


class Refusing:
    """Those of one leader. They are in no block, and go into none."""

    def __init__(self, leading: Leading) -> None:
        self._leading: Final = leading
        self._open: Final[dict[TxId, tuple[Waiting, str]]] = {}
        """With the reason."""
        self._by_proposal: Final[dict[int, TxId]] = {}

    def refuse(self, waiting: Waiting, reason: str) -> None:
        """Write down that it has ended, and tell its clients afterwards."""
        self._open[waiting.tx] = waiting, reason
        self._by_proposal[self._leading.propose(Drop(waiting.tx))] = waiting.tx

    def find(self, tx: TxId) -> Waiting | None:
        """One whose end is on its way to the log."""
        known = self._open.get(tx)
        return None if known is None else known[0]

    def dropped(self, proposal: int | None) -> None:
        """An end has been applied. It is this one's: while this node leads, nobody else can have committed it."""
        known = self._take(proposal)
        if known is not None:
            self._answer(*known, Ended.REFUSED)

    def lost(self, proposal: int) -> None:
        """It never came to the log, so nothing is final."""
        known = self._take(proposal)
        if known is not None:
            self._answer(*known, Ended.BUSY)

    def _take(self, proposal: int | None) -> tuple[Waiting, str] | None:
        tx = None if proposal is None else self._by_proposal.pop(proposal, None)
        return None if tx is None else self._open.pop(tx)

    def _answer(self, waiting: Waiting, reason: str, ended: Ended) -> None:
        for request in waiting.requests:
            self._leading.effects.append(Answer(request, ended, waiting.tx, 0, reason))

    @property
    def under_way(self) -> int:
        """Ends that were proposed and not heard of."""
        return len(self._open)
