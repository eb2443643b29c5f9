"""Circles of transactions that wait for each other, and who of them has to go.

**Where the circles are.** Transactions lie on a circle exactly if they are in one strongly connected component of the
wait graph with somebody else. Tarjan's search finds all components in one pass over the edges. It is done with a list
and not by recursion, so a ring may be as long as there are transactions.

**Who goes.** All members of a component are put in a fixed order, the one that the policy prefers to lose last. The
last one goes; what is left falls into components again; and so on until nobody waits in a circle. That is what is
meant, but a pass over the edges for every victim would be too much in a component that needs many. The same victims are
had otherwise: *a transaction goes exactly if it is the last in order on some circle.* (The first on such a circle that
goes is the last of a component which holds the whole circle, so nobody of the circle comes after it. And who goes was,
at that moment, on a circle of which it was the last.) So members are let in one after the other in their order, and one
that closes a circle at its own coming goes. For which ones that holds is found by halving: the graph without the later
half is split into components; circles within these were closed before, and are looked into further there; for the later
half each of these components is a single point. Every edge goes one of the two ways, so the cost is that of the edges
times the number of halvings. At first not the half but a few are left out, and then more; and before anything is put in
order, it is tried whether the loss of the last one alone is enough, as it mostly is.

**Evidence.** With each victim comes a circle on which it is the last in order. Circles may share edges, and writing
them all down may take longer than anything else; where the work for that passes a bound in proportion to the edges, the
rest is left to the next pass, which finds what then still waits. Any of the victims may go without the others, for each
is the last on a circle of its own. And each component gets one victim at least, so there is an end to it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.cluster.settings import VictimSelectionPolicy
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph

EVIDENCE_STEPS_MIN: Final = 100_000
EVIDENCE_STEPS_PER_EDGE: Final = 8
"""The bound on the search for circles to show, in edges looked at."""

_LEFT_OUT_FIRST: Final = 32
_LEFT_OUT_GROWTH: Final = 8
"""How many of the last ones are left out at first, and how many times more from time to time, up to a half."""

LockCount: TypeAlias = Callable[[TxId], int]
"""How many locks a transaction holds."""


class DeadlockInfo(Struct, frozen=True):
    """A circle, and who of it has to go."""

    cycle: tuple[TxId, ...]
    """Each waits for the next, and the last for the first."""
    victim: TxId
    """The first of them."""


class DeadlockStats(Struct, kw_only=True):
    """What the search for deadlocks has found."""

    passes: int = 0
    deadlocks_detected: int = 0
    """Circles that stood when they were checked again; each has cost one victim, or none where nobody is aborted."""
    victims: int = 0
    """Transactions that were told to go."""
    dissolved: int = 0
    """Components that were gone when they were checked again."""
    unanswered: int = 0
    """Checks that were given up because a shard did not answer."""
    over_length: int = 0
    """Circles longer than ``max_cycle_length``. They are broken like any other."""
    cycle_length_max: int = 0
    cycle_length_total: int = 0
    stood_ms_max: int = 0
    """How long a circle had stood when it was reported, from the wait that closed it."""
    stood_ms_total: int = 0

    def note(self, length: int, *, length_max: int, stood_ms: int) -> None:
        """A circle is there."""
        self.deadlocks_detected += 1
        self.over_length += length > length_max
        self.cycle_length_max = max(self.cycle_length_max, length)
        self.cycle_length_total += length
        self.stood_ms_max = max(self.stood_ms_max, stood_ms)
        self.stood_ms_total += stood_ms


class DeadlockDetector:
    """Searches wait graphs. It keeps nothing between two searches."""

    def __init__(self, policy: VictimSelectionPolicy) -> None:
        self._policy: Final = policy

    def components(self, graph: WaitForGraph) -> list[tuple[TxId, ...]]:
        """The transactions that wait in circles, component by component, in a fixed order."""
        waiting = list(graph.edges)
        return sorted(tuple(sorted(waiting[at] for at in some)) for some in _tangled(_flatten(waiting, graph)))

    def detect(self, graph: WaitForGraph, *, locks: LockCount | None = None) -> list[DeadlockInfo]:
        """Who has to go so that no circle is left, each with a circle of which it is the last in order.

        The order is that of the victims: who is the worst by the policy comes first.
        """
        waiting = list(graph.edges)
        waits = _flatten(waiting, graph)
        steps = EVIDENCE_STEPS_MIN + EVIDENCE_STEPS_PER_EDGE * len(waits.targets)
        found: list[tuple[tuple[int, int, bytes], DeadlockInfo]] = []

        def rank(at: int) -> tuple[int, int, bytes]:
            return self._rank(graph, waiting[at], locks)

        for members in _tangled(waits):
            order, among, before, victims = _choose(members, rank, waits)
            for last in victims:
                circle, spent = _circle(among, before, last)
                info = DeadlockInfo(tuple(waiting[order[at]] for at in circle), waiting[order[last]])
                found.append((rank(order[last]), info))
                steps -= spent
                if steps <= 0:
                    break
        found.sort(key=lambda pair: pair[0], reverse=True)
        return [info for _, info in found]

    def _rank(self, graph: WaitForGraph, tx: TxId, locks: LockCount | None) -> tuple[int, int, bytes]:
        """The greatest goes first. Equal ones are told apart by their first start, and in the end by their ids."""
        born = graph.born[tx]
        match self._policy:
            case VictimSelectionPolicy.OLDEST:
                return -graph.wait_started[tx], born, tx
            case VictimSelectionPolicy.LOWEST_PRIORITY:
                return graph.priorities[tx], born, tx
            case VictimSelectionPolicy.MOST_LOCKS if locks is not None:
                return locks(tx), born, tx
            case _:
                return 0, born, tx


def still_stands(graph: WaitForGraph, info: DeadlockInfo) -> bool:
    """Whether a circle is there: each of its members waits for the next one."""
    following = (*info.cycle[1:], info.cycle[0])
    return all(to in graph.edges.get(tx, ()) for tx, to in zip(info.cycle, following, strict=True))


class _Waits:
    """The edges among some nodes, in flat lists of numbers: there may be very many."""

    __slots__ = ("sources", "starts", "targets")

    def __init__(self, starts: list[int], targets: list[int]) -> None:
        self.starts = starts
        """For each node its first edge, and in the end the number of all."""
        self.targets = targets
        """For each edge where it leads to."""
        self.sources: list[int] = []
        """For each edge where it begins; ascending."""
        for node in range(len(starts) - 1):
            self.sources += [node] * (starts[node + 1] - starts[node])

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.starts) - 1

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        return zip(self.sources, self.targets, strict=True)

    def after(self, node: int) -> list[int]:
        return self.targets[self.starts[node] : self.starts[node + 1]]

    def reversed(self) -> "_Waits":
        """The same edges, the other way about."""
        starts = [0] * (len(self.starts) + 1)
        for target in self.targets:
            starts[target + 2] += 1
        starts = list(accumulate(starts))
        sources = [0] * len(self.targets)
        for source, target in self.edges:
            sources[starts[target + 1]] = source
            starts[target + 1] += 1
        return _Waits(starts[:-1], sources)


def _flatten(waiting: Sequence[TxId], graph: WaitForGraph) -> _Waits:
    """All edges between those that wait, who are called by their places from here on.

    Whoever waits for nobody lies on no circle, and edges to it are left out.
    """
    place = {tx: at for at, tx in enumerate(waiting)}
    edges = graph.edges
    targets: list[int] = []
    starts = [0]
    for tx in waiting:
        # Sorted, for a set has another order in each process.
        targets += sorted([at for to in edges[tx] if (at := place.get(to)) is not None])
        starts.append(len(targets))
    return _Waits(starts, targets)


def _among(order: Sequence[int], waits: _Waits) -> _Waits:
    """The edges among some nodes, who are called by their places in an order from here on."""
    place = {node: at for at, node in enumerate(order)}
    targets: list[int] = []
    starts = [0]
    for node in order:
        targets += [at for to in waits.after(node) if (at := place.get(to)) is not None]
        starts.append(len(targets))
    return _Waits(starts, targets)


def _tangled(waits: _Waits) -> list[list[int]]:
    """The components with more than one member."""
    components = _Components(len(waits), waits.sources, waits.targets)
    components.find(range(len(waits.targets)))
    members: defaultdict[int, list[int]] = defaultdict(list)
    for node in components.nodes:
        members[components.number[node]].append(node)
    return [some for some in members.values() if len(some) > 1]


class _Components:
    """Tarjan's search, for the graphs that some of a set of edges form."""

    def __init__(self, count: int, sources: list[int], targets: list[int]) -> None:
        self.sources: Final = sources
        """Where an edge begins and ends. May be changed between two searches."""
        self.targets: Final = targets
        self.nodes: list[int] = []
        """At the ends of the edges of the last search."""
        self.number: Final = [-1] * count
        """Of the component of each of these nodes; -1 for all others."""
        self.count = 0
        """How many components there were."""
        self._order: Final = [-1] * count
        """When a node was seen, from 1; 0 for not yet, -1 for a node that is not in this graph."""
        self._low: Final = [0] * count
        """The earliest node of the stack that is known to be reached from here."""
        self._first: Final = [-1] * count
        """The next edge to follow from a node; -1 for none."""
        self._after: Final = [-1] * len(sources)
        """The one to follow after an edge."""

    def find(self, edges: Iterable[int]) -> None:
        """Number the components of the graph that these edges form."""
        self._lay_out(edges)
        order, low, number, targets = self._order, self._low, self.number, self.targets
        first, after = self._first, self._after
        stack: list[int] = []
        seen = found = 0
        for root in self.nodes:
            path = [] if order[root] else [root]
            while path:
                node = path[-1]
                if not order[node]:
                    seen += 1
                    order[node] = low[node] = seen
                    stack.append(node)
                edge = first[node]
                while edge >= 0:
                    further = targets[edge]
                    edge = after[edge]
                    if not order[further]:
                        path.append(further)
                        break
                    # One whose component is complete was left for good: an edge to it closes nothing.
                    if number[further] < 0 and order[further] < low[node]:
                        low[node] = order[further]
                first[node] = edge
                if path[-1] != node:
                    continue
                path.pop()
                if path and low[node] < low[path[-1]]:
                    low[path[-1]] = low[node]
                if low[node] == order[node]:
                    member = -1
                    while member != node:
                        member = stack.pop()
                        number[member] = found
                    found += 1
        self.count = found
        for node in self.nodes:
            order[node] = -1

    def _lay_out(self, edges: Iterable[int]) -> None:
        sources, targets, order, number = self.sources, self.targets, self._order, self.number
        first, after = self._first, self._after
        for node in self.nodes:
            number[node] = -1
        self.nodes = nodes = []
        for edge in edges:
            source, target = sources[edge], targets[edge]
            for node in (source, target):
                if order[node] < 0:
                    order[node] = 0
                    first[node] = -1
                    nodes.append(node)
            after[edge] = first[source]
            first[source] = edge


def _choose(
    members: Sequence[int], rank: Callable[[int], tuple[int, int, bytes]], waits: _Waits
) -> tuple[list[int], _Waits, _Waits | None, Iterable[int]]:
    """Who of a component has to go: the places of the victims in an order of the members, the worst first.

    With them the members in that order and the edges among them; and the same edges the other way about, unless there
    is one victim only, whose circle may be looked for along all edges.
    """
    worst = max(members, key=rank)
    order = [*(node for node in members if node != worst), worst]
    among = _among(order, waits)
    last = len(order) - 1
    components = _Components(len(order), among.sources, among.targets)
    components.find([at for at, (one, other) in enumerate(among.edges) if one != last and other != last])
    if components.count == len(components.nodes):
        # Most of the time one is enough, and no order of the others is needed.
        return order, among, None, [last]
    order = sorted(members, key=rank)
    among = _among(order, waits)
    return order, among, among.reversed(), _last_of_circles(among)


def _last_of_circles(waits: _Waits) -> Iterator[int]:
    """Which nodes are the highest on some circle of a strongly connected graph, which has such besides the last one.

    The highest of all comes first. What is not asked for is not worked out.
    """
    since = [max(ends) for ends in waits.edges]
    """From when on an edge is there, if nodes come one after the other."""
    components = _Components(len(waits), waits.sources.copy(), waits.targets.copy())
    sources, targets, number = components.sources, components.targets, components.number
    work = [(list(range(len(number))), list(range(len(since))), _LEFT_OUT_FIRST)]
    while work:
        # The edges form a strongly connected graph, which falls apart without the nodes in question (ascending).
        nodes, edges, step = work.pop()
        late = min(step, len(nodes) // 2)
        if late == 0:
            yield nodes[0]
            continue
        latest = nodes[-late]
        components.find([edge for edge in edges if since[edge] < latest])
        inside: defaultdict[int, list[int]] = defaultdict(list)
        between: list[int] = []
        for edge in edges:
            if since[edge] < latest and number[sources[edge]] == number[targets[edge]]:
                inside[number[sources[edge]]].append(edge)
            else:
                between.append(edge)
        within: defaultdict[int, list[int]] = defaultdict(list)
        for node in nodes[:-late]:
            within[number[node]].append(node)
        work.extend((within[part], some, step * _LEFT_OUT_GROWTH) for part, some in inside.items())
        if late == 1:
            yield nodes[-1]
            continue
        # For those that come later, a component is a point: one of its nodes stands for all.
        stand_in = {number[node]: node for node in components.nodes}
        for edge in between:
            for ends in (sources, targets):
                ends[edge] = stand_in.get(number[ends[edge]], ends[edge])
        work.append((nodes[-late:], between, late // 2))


def _circle(waits: _Waits, before: _Waits | None, last: int) -> tuple[list[int], int]:
    """A short circle of which a node is the highest, beginning there; and how many edges were looked at.

    With the edges ``before`` each node, too, it is looked for from both sides, the smaller one first: so little is
    looked at where there are many ways.
    """
    sides = ({last: last}, {last: last})
    """From where each node was reached, along the edges and against them."""
    fronts = [[last], [last]]
    spent = 0
    while True:
        side = int(before is not None and len(fronts[1]) < len(fronts[0]))
        edges = waits if before is None or not side else before
        mine, other = sides[side], sides[1 - side]
        front: list[int] = []
        for node in fronts[side]:
            for further in edges.after(node):
                spent += 1
                if further > last:
                    continue
                if further in other:
                    start, end = (further, node) if side else (node, further)
                    return [*_way(sides[0], start)[::-1], *_way(sides[1], end)[:-1]], spent
                if further not in mine:
                    mine[further] = node
                    front.append(further)
        fronts[side] = front
        assert front, "a victim lies on a circle of those before it"


def _way(came_from: dict[int, int], node: int) -> list[int]:
    """From a node back to where the search began."""
    way = [node]
    while came_from[way[-1]] != way[-1]:
        way.append(came_from[way[-1]])
    return way
