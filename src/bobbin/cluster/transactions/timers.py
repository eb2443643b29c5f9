"""When which transaction is to be looked at: one moment for each, the earliest first."""

from heapq import heappop, heappush

from bobbin.cluster.transactions.names import TxId


class Timers:
    """Moments of a forward clock. Setting one takes the place of the one before."""

    __slots__ = ("_heap", "_moments")

    def __init__(self) -> None:
        self._heap: list[tuple[int, TxId]] = []
        """Those that ``_moments`` does not confirm are over."""
        self._moments: dict[TxId, int] = {}

    @property
    def due_ms(self) -> int | None:
        """The earliest; None if there is none."""
        heap = self._heap
        while heap and self._moments.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def set(self, tx: TxId, moment_ms: int | None) -> None:
        """None: nothing is due."""
        if moment_ms is None:
            self._moments.pop(tx, None)
        elif self._moments.get(tx) != moment_ms:
            self._moments[tx] = moment_ms
            heappush(self._heap, (moment_ms, tx))

    def take(self, now_ms: int) -> list[TxId]:
        """All that are due, the earliest first; they are set no more."""
        taken = []
        while (due_ms := self.due_ms) is not None and due_ms <= now_ms:
            tx = heappop(self._heap)[1]
            del self._moments[tx]
            taken.append(tx)
        return taken
