"""The order in which predicates are computed: nothing is negated before it is complete.

Predicates that depend on one another form one component; a negation inside a component has no meaning and is an
error that names the cycle. The strata are the components in dependency order.
"""

from typing import Final

from msgspec import Struct

from bobbin.datalog.diagnostics import Fault, Report
from bobbin.datalog.limits import Limits
from bobbin.datalog.syntax import Place, Program, Rule

_SHOWN_MAX: Final = 10
"""Predicates of a cycle that a message names."""


class Stratum(Struct, frozen=True):
    """Predicates that are computed together, with their rules."""

    predicates: frozenset[str]
    rules: tuple[Rule, ...]
    recursive: bool


def stratify(program: Program, limits: Limits, report: Report) -> tuple[Stratum, ...]:
    """The strata of a program, lowest first; reports negation through recursion."""
    heads = program.heads()
    edges: dict[str, dict[str, None]] = {name: {} for name in sorted(heads)}
    for rule in program.rules:
        edges[rule.head.predicate].update(
            (literal.atom.predicate, None) for literal in rule.body if literal.atom.predicate in heads
        )
    components = _components(edges)
    home = {name: number for number, component in enumerate(components) for name in component}
    for rule in program.rules:
        if report.full:
            break  # each finding below searches the whole graph
        for literal in rule.body:
            if literal.negated and home.get(literal.atom.predicate) == home[rule.head.predicate]:
                path = _shorten(_path(edges, literal.atom.predicate, rule.head.predicate))
                sentence = (
                    f"{rule.head.predicate} depends on 'not {literal.atom.predicate}', "
                    f"which depends on {rule.head.predicate} again ({' → '.join(path)})"
                )
                report.add(Fault.UNSTRATIFIED, sentence, literal.place)
    depth = _negation_depth(program, components, home)
    if depth > limits.strata_max:
        report.add(Fault.LIMIT, f"at most {limits.strata_max} strata, not {depth}", Place(1, 1))
    rules: dict[str, list[Rule]] = {name: [] for name in heads}
    for rule in program.rules:
        rules[rule.head.predicate].append(rule)
    return tuple(
        Stratum(
            predicates=frozenset(component),
            rules=tuple(rule for name in component for rule in rules[name]),
            recursive=len(component) > 1 or component[0] in edges[component[0]],
        )
        for component in components
    )


def _components(edges: dict[str, dict[str, None]]) -> list[list[str]]:
    """Strongly connected components, dependencies first (Tarjan's algorithm, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    components: list[list[str]] = []
    for root, neighbours in edges.items():
        if root in index:
            continue
        work = [(root, iter(neighbours))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(edges[successor])))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[str] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    components.append(sorted(component))
    return components


def _path(edges: dict[str, dict[str, None]], start: str, end: str) -> list[str]:
    """A shortest way from one predicate to another along dependencies."""
    came_from: dict[str, str | None] = {start: None}
    frontier = [start]
    while end not in came_from and frontier:
        frontier = [
            successor
            for node in frontier
            for successor in edges[node]
            if successor not in came_from and came_from.setdefault(successor, node) == node
        ]
    way: list[str] = []
    node: str | None = end
    while node is not None:
        way.append(node)
        node = came_from.get(node)
    return way[::-1]


def _shorten(path: list[str]) -> list[str]:
    return path if len(path) <= _SHOWN_MAX else [*path[: _SHOWN_MAX // 2], "…", *path[-_SHOWN_MAX // 2 :]]


def _negation_depth(program: Program, components: list[list[str]], home: dict[str, int]) -> int:
    """How many levels negation forces: the strata of the textbook, before they are split into components."""
    level = [1] * len(components)
    by_home: dict[int, list[Rule]] = {}
    for rule in program.rules:
        by_home.setdefault(home[rule.head.predicate], []).append(rule)
    for number in range(len(components)):
        for rule in by_home.get(number, ()):
            for literal in rule.body:
                below = home.get(literal.atom.predicate)
                if below is not None and below != number:
                    level[number] = max(level[number], level[below] + literal.negated)
    return max(level, default=0)
