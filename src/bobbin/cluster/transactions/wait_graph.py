"""Who waits for whom.

An edge leads from a transaction that waits to one that holds what it waits for, and stands as long as the wait does: no
edge goes because it is old, and none is left out because there are many. Every edge is kept from both ends, so taking a
transaction away costs what it has edges, and leaves no trace of it.

What is known of a transaction here is known because it waits. Once it waits for nobody, only the edges that lead to it
are left.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from bobbin.cluster.transactions.names import TxId
from bobbin.errors import UsageError


class WaitForGraph:
    """Transactions, and the edges between them."""

    def __init__(self) -> None:
        self._edges: Final[dict[TxId, set[TxId]]] = {}
        """From each that waits, to all that it waits for; never to nobody."""
        self._reverse_edges: Final[dict[TxId, set[TxId]]] = {}
        """The same edges, from the other end."""
        self._wait_started: Final[dict[TxId, int]] = {}
        """Of exactly those that wait, like the two below."""
        self._born: Final[dict[TxId, int]] = {}
        self._priorities: Final[dict[TxId, int]] = {}

    def __len__(self) -> int:
        """How many edges there are."""
        return sum(map(len, self._edges.values()))

    # ---- what there is ---------------------------------------------------------------------------------------------

    @property
    def edges(self) -> Mapping[TxId, AbstractSet[TxId]]:
        """From each transaction that waits, to all that it waits for."""
        return self._edges

    @property
    def reverse_edges(self) -> Mapping[TxId, AbstractSet[TxId]]:
        """From each transaction that is waited for, to all that wait for it."""
        return self._reverse_edges

    @property
    def wait_started(self) -> Mapping[TxId, int]:
        """In ms; of those that wait."""
        return self._wait_started

    @property
    def born(self) -> Mapping[TxId, int]:
        """When a transaction was first tried, in ms; of those that wait. A retry is as old as the first try."""
        return self._born

    @property
    def priorities(self) -> Mapping[TxId, int]:
        """Low is important; of those that wait."""
        return self._priorities

    def would_create_cycle(self, waiter: TxId, holder: TxId) -> bool:
        """Whether an edge between these two would close a circle. Nothing is changed."""
        if waiter == holder:
            return True
        seen = {holder}
        ahead = [holder]
        while ahead:
            for further in self._edges.get(ahead.pop(), ()):
                if further == waiter:
                    return True
                if further not in seen:
                    seen.add(further)
                    ahead.append(further)
        return False

    # ---- changes ---------------------------------------------------------------------------------------------------

    def wait(
        self, waiter: TxId, holders: Iterable[TxId], *, started_ms: int, born_ms: int = 0, priority: int = 0
    ) -> None:
        """A transaction waits for these now, and for nobody else any more."""
        now = set(holders)
        if waiter in now:
            raise UsageError(f"transaction {waiter.hex()} cannot wait for itself")
        self.stop_waiting(waiter)
        if now:
            self._edges[waiter] = now
            self._wait_started[waiter] = started_ms
            self._born[waiter] = born_ms
            self._priorities[waiter] = priority
            for holder in now:
                self._reverse_edges.setdefault(holder, set()).add(waiter)

    def stop_waiting(self, waiter: TxId) -> None:
        """A transaction has got what it waited for, or has given up. Others may go on waiting for it."""
        for holder in self._edges.pop(waiter, ()):
            self._drop_end(self._reverse_edges, holder, waiter)
        self._forget(waiter)

    def remove(self, tx: TxId) -> None:
        """A transaction is over: it waits for nobody, and nobody waits for it."""
        self.stop_waiting(tx)
        for waiter in self._reverse_edges.pop(tx, ()):
            if self._drop_end(self._edges, waiter, tx):
                self._forget(waiter)

    def clear(self) -> None:
        """Nobody waits."""
        for part in (self._edges, self._reverse_edges, self._wait_started, self._born, self._priorities):
            part.clear()

    def _forget(self, waiter: TxId) -> None:
        for part in (self._wait_started, self._born, self._priorities):
            part.pop(waiter, None)

    @staticmethod
    def _drop_end(ends: dict[TxId, set[TxId]], at: TxId, other: TxId) -> bool:
        """Take one end of an edge away; True if it was the last one there."""
        left = ends[at]
        left.discard(other)
        if not left:
            del ends[at]
        return not left

    def check(self) -> None:
        """What always holds."""
        forward = {(waiter, holder) for waiter, holders in self._edges.items() for holder in holders}
        backward = {(waiter, holder) for holder, waiters in self._reverse_edges.items() for waiter in waiters}
        assert forward == backward, "an edge is known from one end only"
        assert all(self._edges.values()), "a wait for nobody"
        assert all(self._reverse_edges.values()), "somebody for whom nobody waits"
        for part in (self._wait_started, self._born, self._priorities):
            assert part.keys() == self._edges.keys(), "something is known of a transaction that does not wait"
