"""Whether one order of all transactions explains the lists that they saw.

Transactions append to lists and read whole lists, and no value is appended to a list twice. Such a list is its own
history: what a read saw is the order in which the values came. So who wrote before whom (ww), who read from whom (wr)
and who read before somebody wrote (rw) follow from what was seen, and a history is serialisable exactly if none of
these chase each other in a circle. It is strict if the circle stays away when a transaction that ended before another
one was called must stand before it as well (after Adya's phenomena, and Kingsbury and Alvaro's Elle).

What nobody can know does not count. A transaction of unknown outcome takes part once somebody has seen a value of it;
before that it may never have been. A value that no read has seen stands behind all that were seen, since a list loses
nothing; among several such the order is open.

Everything but the naming of a circle is linear in what was seen: real time is a chain of moments, and the readers of
the last known value of a list share one edge to those who wrote after them.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import pairwise
from typing import Final, TypeAlias

from msgspec import Struct

_WORK_MAX: Final = 5_000_000
"""Edges looked at for a circle with a single rw; beyond that it is called by the wider name."""


_ENOUGH_FOR_A_CIRCLE: Final = 2


class Outcome(Enum):
    """What the client was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Append(Struct, frozen=True):
    """Put a value at the end of a list."""

    key: bytes
    value: int


class Read(Struct, frozen=True):
    """See a whole list."""

    key: bytes
    seen: tuple[int, ...]


Step: TypeAlias = Append | Read


class Transaction(Struct, frozen=True, kw_only=True):
    """One transaction of one client, as that client knows it."""

    client: str
    steps: tuple[Step, ...]
    outcome: Outcome
    called: int
    returned: int | None = None
    """None as long as nobody knows the outcome."""


class Kind(Enum):
    """What is wrong with a history, the worst last. The first six are Adya's."""

    G0 = "G0: writes in a circle"
    G1A = "G1a: something of an aborted transaction was read"
    G1B = "G1b: something was read in the middle of a transaction"
    G1C = "G1c: information in a circle"
    G_SINGLE = "G-single: a circle with one read that came too early"
    G2 = "G2: a circle with several reads that came too early"
    INTERNAL = "internal: a transaction does not see what it did itself"
    GARBAGE = "garbage: a value that nobody wrote"
    DOUBLED = "doubled: a value stands in a list twice"
    FORKED = "forked: two reads of one list, neither of which begins with the other"


class Anomaly(Struct, frozen=True, kw_only=True):
    """Why no order explains a history."""

    kind: Kind
    transactions: tuple[int, ...]
    """Their places in the history; of a circle, each before the next and the last before the first."""
    edges: tuple[str, ...] = ()
    """Between one and the next: ww, wr, rw, or time."""
    key: bytes | None = None

    @property
    def is_only_of_time(self) -> bool:
        """Serialisable, but in no order that agrees with the clock on the wall."""
        return "time" in self.edges

    def __str__(self) -> str:
        if self.edges:
            steps = " ".join(f"{one} -{edge}->" for one, edge in zip(self.transactions, self.edges, strict=True))
            return f"{self.kind.value}: {steps} {self.transactions[0]}"
        return f"{self.kind.value}: transactions {self.transactions}, list {self.key!r}"


def find_anomaly(history: Sequence[Transaction], *, is_strict: bool = True) -> Anomaly | None:
    """The first thing that is wrong: what one list shows alone, then circles, the narrowest name first."""
    lists = _Lists(history)
    if (found := lists.look()) is not None:
        return found
    graph = _Graph(len(history))
    lists.add_edges(graph)
    data = (("ww",), ("ww", "wr"), ("ww", "wr", "rw"))
    for allowed in data:
        if (found := graph.find_circle(allowed)) is not None:
            return found
    if is_strict:
        _add_moments(graph, history, lists.is_present)
        for allowed in data:
            if (found := graph.find_circle((*allowed, "time"))) is not None:
                return found
    return None


class _Lists:
    """What was seen of each list, and who wrote what."""

    def __init__(self, history: Sequence[Transaction]) -> None:
        self._history: Final = history
        self._writers: Final[dict[tuple[bytes, int], int]] = {}
        self._last_of: Final[dict[tuple[bytes, int], int]] = {}
        """Of a list and a transaction, the value that it wrote last."""
        self._orders: Final[dict[bytes, tuple[int, ...]]] = {}
        """Of each list, the longest read."""
        self._reads: Final[list[tuple[int, bytes, tuple[int, ...]]]] = []
        """Of others' values, by transactions that took place."""
        self.is_present: Final = [one.outcome is Outcome.COMMITTED for one in history]
        """Which transactions are known to have taken place."""

    def look(self) -> Anomaly | None:
        """What is wrong with single reads and lists."""
        self._note_writers()
        if (found := self._note_presence()) is not None:
            return found
        for at, transaction in enumerate(self._history):
            if self.is_present[at] and (found := self._note_reads(at, transaction)) is not None:
                return found
        return self._compare_orders()

    def _note_writers(self) -> None:
        for at, transaction in enumerate(self._history):
            for step in transaction.steps:
                if isinstance(step, Append):
                    other = self._writers.setdefault((step.key, step.value), at)
                    if other != at:
                        raise ValueError(f"{step.value} is appended to {step.key!r} by {other} and by {at}")
                    self._last_of[step.key, at] = step.value

    def _note_presence(self) -> Anomaly | None:
        """An unknown one of which something was seen has taken place; what it read counts as well, and so on."""
        looked_at = [False] * len(self._history)
        waiting = [at for at, is_present in enumerate(self.is_present) if is_present]
        while waiting:
            at = waiting.pop()
            if looked_at[at]:
                continue
            looked_at[at] = True
            for step in self._history[at].steps:
                if not isinstance(step, Read):
                    continue
                for value in step.seen:
                    writer = self._writers.get((step.key, value))
                    if writer is None:
                        return Anomaly(kind=Kind.GARBAGE, transactions=(at,), key=step.key)
                    if self._history[writer].outcome is Outcome.ABORTED:
                        return Anomaly(kind=Kind.G1A, transactions=(writer, at), key=step.key)
                    if not self.is_present[writer]:
                        self.is_present[writer] = True
                        waiting.append(writer)
        return None

    def _note_reads(self, at: int, transaction: Transaction) -> Anomaly | None:
        own: dict[bytes, list[int]] = {}
        before: dict[bytes, tuple[int, ...]] = {}
        for step in transaction.steps:
            mine = own.setdefault(step.key, [])
            if isinstance(step, Append):
                mine.append(step.value)
                continue
            seen = step.seen
            if len(set(seen)) != len(seen):
                return Anomaly(kind=Kind.DOUBLED, transactions=(at,), key=step.key)
            others = len(seen) - len(mine)
            is_own_last = others >= 0 and list(seen[others:]) == mine
            if not is_own_last or any(self._writers[step.key, value] == at for value in seen[:others]):
                return Anomaly(kind=Kind.INTERNAL, transactions=(at,), key=step.key)
            if before.setdefault(step.key, seen[:others]) != seen[:others]:
                return Anomaly(kind=Kind.INTERNAL, transactions=(at,), key=step.key)
            if others:
                writer = self._writers[step.key, seen[others - 1]]
                if self._last_of[step.key, writer] != seen[others - 1]:
                    return Anomaly(kind=Kind.G1B, transactions=(writer, at), key=step.key)
            self._reads.append((at, step.key, seen[:others]))
            if others > len(self._orders.get(step.key, ())):
                self._orders[step.key] = seen[:others]
        return None

    def _compare_orders(self) -> Anomaly | None:
        for at, key, seen in self._reads:
            if self._orders.get(key, ())[: len(seen)] != seen:
                return Anomaly(kind=Kind.FORKED, transactions=(at,), key=key)
        return None

    def add_edges(self, graph: "_Graph") -> None:
        """What stands before what, by the data alone."""
        for key, order in self._orders.items():
            writers = [self._writers[key, value] for value in order]
            for first, second in pairwise(writers):
                graph.add(first, second, "ww")
        unseen = self._unseen()
        gates = {key: graph.add_node() for key in unseen}
        for key, writers in unseen.items():
            order = self._orders.get(key, ())
            for writer in writers:
                graph.add(gates[key], writer, "rw")
                if order:
                    graph.add(self._writers[key, order[-1]], writer, "ww")
        wrote = {(key, writer) for key, writers in unseen.items() for writer in writers}
        both: dict[bytes, int] = {}
        for at, key, seen in self._reads:
            order = self._orders.get(key, ())
            if seen:
                graph.add(self._writers[key, seen[-1]], at, "wr")
            if len(seen) < len(order):
                graph.add(at, self._writers[key, order[len(seen)]], "rw")
            elif (key, at) in wrote:
                # Whoever reads the end and writes behind it stands before all others who do: two are a circle already.
                both[key] = both.get(key, 0) + 1
                if both[key] <= _ENOUGH_FOR_A_CIRCLE:
                    for other in unseen[key]:
                        graph.add(at, other, "rw")
            elif key in gates:
                graph.add(at, gates[key], "gate")

    def _unseen(self) -> dict[bytes, list[int]]:
        """Of each list, those who wrote what no read has seen, each once."""
        known = {(key, value) for key, order in self._orders.items() for value in order}
        found: dict[bytes, dict[int, None]] = {}
        for (key, value), writer in self._writers.items():
            if self.is_present[writer] and (key, value) not in known:
                found.setdefault(key, {})[writer] = None
        return {key: list(writers) for key, writers in found.items()}


def _add_moments(graph: "_Graph", history: Sequence[Transaction], is_present: Sequence[bool]) -> None:
    """A transaction that ended before another one was called stands before it: by a chain of moments."""
    events: list[tuple[int, bool, int]] = []
    for at, transaction in enumerate(history):
        if is_present[at]:
            events.append((transaction.called, False, at))
            if transaction.returned is not None:
                events.append((transaction.returned, True, at))
    events.sort()
    moment: int | None = None
    for _, is_return, at in events:
        if not is_return:
            if moment is not None:
                graph.add(moment, at, "time")
            continue
        after = graph.add_node()
        if moment is not None:
            graph.add(moment, after, "time")
        graph.add(at, after, "time")
        moment = after


class _Graph:
    """Transactions, nodes in between that stand for none, and edges of several kinds."""

    def __init__(self, transactions: int) -> None:
        self._transactions: Final = transactions
        self._edges: Final[list[list[tuple[int, str]]]] = [[] for _ in range(transactions)]

    def add_node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def add(self, first: int, second: int, kind: str) -> None:
        """``first`` stands before ``second``; nothing stands before itself."""
        if first != second:
            self._edges[first].append((second, kind))

    def find_circle(self, allowed: Iterable[str]) -> Anomaly | None:
        """A circle of edges of these kinds, named after what it takes at least."""
        kinds = frozenset(allowed) | ({"gate"} if "rw" in allowed else set())
        component = self._first_component(kinds)
        if not component:
            return None
        inside = frozenset(component)
        if "rw" not in kinds:
            start = min(inside)
            circle = self._path(start, start, kinds, inside)
            assert circle is not None, "a component is one circle at least"
            return self._anomaly(Kind.G1C if "wr" in kinds else Kind.G0, circle)
        return self._circle_with_rw(kinds, inside)

    def _circle_with_rw(self, kinds: frozenset[str], inside: frozenset[int]) -> Anomaly:
        """One rw if there is such a circle, else several."""
        work = 0
        size = sum(len(self._edges[node]) for node in inside)
        for node in sorted(inside):
            for target, kind in self._edges[node]:
                if kind != "rw" or target not in inside or work > _WORK_MAX:
                    continue
                work += size
                # A gate is behind its readers: their edge to it is the first half of a rw.
                sources = [node] if node < self._transactions else self._readers(node, inside)
                for source in sources:
                    back = self._path(target, source, kinds - {"rw", "gate"}, inside)
                    if back is not None:
                        return self._anomaly(Kind.G_SINGLE, [*back, (target, "rw")])
        # Of data alone without time, or with it: whichever edge of the component closes a circle.
        node = min(one for one in inside if one < self._transactions)
        circle = self._path(node, node, kinds, inside)
        assert circle is not None, "a component is one circle at least"
        return self._anomaly(Kind.G2, circle)

    def _readers(self, gate: int, inside: frozenset[int]) -> list[int]:
        return [node for node in sorted(inside) if any(target == gate for target, _ in self._edges[node])]

    def _path(
        self, start: int, end: int, kinds: frozenset[str], inside: frozenset[int]
    ) -> list[tuple[int, str]] | None:
        """The shortest way, as (node, kind of the edge that leads to it); ``start == end`` asks for a circle."""
        came: dict[int, tuple[int, str]] = {}
        waiting = deque([start])
        if start == end and not kinds:
            return None
        while waiting:
            node = waiting.popleft()
            for target, kind in self._edges[node]:
                if kind not in kinds or target not in inside or target in came:
                    continue
                came[target] = (node, kind)
                if target == end:
                    return _unwound(came, start, end)
                waiting.append(target)
        return None

    def _anomaly(self, kind: Kind, circle: Sequence[tuple[int, str]]) -> Anomaly:
        """Nodes that stand for no transaction are left out."""
        nodes: list[int] = []
        edges: list[str] = []
        for node, edge in circle:
            if node < self._transactions:
                nodes.append(node)
                edges.append(edge)
        # Each edge leads to its node; shown is the one that leaves it.
        return Anomaly(kind=kind, transactions=tuple(nodes), edges=(*edges[1:], edges[0]))

    def _first_component(self, kinds: frozenset[str]) -> list[int]:
        """The first strongly connected component of more than one node, after Tarjan, without recursion."""
        edges = [[target for target, kind in node if kind in kinds] for node in self._edges]
        number = [0] * len(edges)
        low = [0] * len(edges)
        is_open = [False] * len(edges)
        stack: list[int] = []
        count = 0
        for root in range(len(edges)):
            if number[root]:
                continue
            count += 1
            number[root] = low[root] = count
            stack.append(root)
            is_open[root] = True
            work = [(root, iter(edges[root]))]
            while work:
                node, targets = work[-1]
                for target in targets:
                    if not number[target]:
                        count += 1
                        number[target] = low[target] = count
                        stack.append(target)
                        is_open[target] = True
                        work.append((target, iter(edges[target])))
                        break
                    if is_open[target]:
                        low[node] = min(low[node], number[target])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == number[node]:
                        component: list[int] = []
                        while not component or component[-1] != node:
                            component.append(stack.pop())
                            is_open[component[-1]] = False
                        if len(component) > 1:
                            return component
        return []


def _unwound(came: dict[int, tuple[int, str]], start: int, end: int) -> list[tuple[int, str]]:
    """From the end back to the start."""
    steps: list[tuple[int, str]] = []
    node = end
    while True:
        before, kind = came[node]
        steps.append((node, kind))
        node = before
        if node == start:
            return steps[::-1]
