"""Rules about the time: when the clock moves, only what the bound has crossed is looked at.

A rule such as ``Due(P) :- Field(P,'TAI',_,T), TickTAI(Now), Le(T,Now).`` reads a *clock*, a relation of one row that is
replaced again and again. Taken literally, the new row is a new relation and everything is derived anew. But the time
enters only by comparison with ``T``: for a record whose ``T`` lies outside the stretch that the bound has moved over,
no comparison changes its answer. So the rows of that stretch, found by an ordered index, stand in for the clock's row.

A rule has this shape when the clock's variable, and what is computed from it and constants alone, occur in nothing but
order tests against variables of one base relation.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from bobbin.datalog.builtins import BUILTINS, Function
from bobbin.datalog.local.changes import Changes
from bobbin.datalog.local.conjunction import Absent, Computed, Conjunction, Tested
from bobbin.datalog.local.state import State
from bobbin.datalog.local.table import Row
from bobbin.datalog.syntax import Constant, Variable

_ORDER: Final = frozenset({"Lt", "Le", "Gt", "Ge"})


class Shape(Struct, frozen=True):
    """How a rule depends on a clock."""

    clock: int
    """The scan of the clock."""
    timed: int
    """The scan whose rows are compared with the time."""
    bounds: tuple[tuple[int, str], ...]
    """(position in the timed scan, variable compared with it)."""
    variable: str
    computed: tuple[Computed, ...]
    """How the compared variables follow from the clock's, in order."""


def shape_of(conjunction: Conjunction, clock: int) -> Shape | None:
    """The shape of a rule around one scan of a clock, or None when it depends on the time in another way."""
    term = conjunction.reads[clock].terms[0]
    if not isinstance(term, Variable):
        return None
    computed = _chain(conjunction, term.name)
    times = {term.name} | {guard.result.name for guard in computed if isinstance(guard.result, Variable)}
    if any(isinstance(head, Variable) and head.name in times for head in conjunction.head):
        return None
    if any(read.variables() & times for number, read in enumerate(conjunction.reads) if number != clock):
        return None
    tests = []
    for guard in conjunction.guards:
        if guard in computed:
            continue
        if isinstance(guard, Tested) and guard.builtin in _ORDER and len(guard.needs() & times) == 1:
            tests.append(guard)
        elif _mentions(guard, times):
            return None
    return _assemble(conjunction, clock, term.name, computed, tests, times)


def _assemble(
    conjunction: Conjunction,
    clock: int,
    variable: str,
    computed: tuple[Computed, ...],
    tests: list[Tested],
    times: set[str],
) -> Shape | None:
    compared = [_sides(test, times) for test in tests]
    if not compared or any(pair is None for pair in compared):
        return None
    pairs = [pair for pair in compared if pair is not None]
    for number, read in enumerate(conjunction.reads):
        places = {term.name: place for place, term in enumerate(read.terms) if isinstance(term, Variable)}
        if number != clock and all(name in places for name, _ in pairs):
            bounds = tuple((places[name], time) for name, time in pairs)
            return Shape(clock, number, bounds, variable, computed)
    return None


def stretch(shape: Shape, conjunction: Conjunction, changes: Changes, state: State) -> list[Row] | None:
    """The rows of the timed scan that the clock's move can concern, or None when it was no plain move."""
    source = conjunction.reads[shape.clock].source
    timed = conjunction.reads[shape.timed].source
    before, after = changes.removed.get(source, []), changes.added.get(source, [])
    if len(before) != 1 or len(after) != 1 or timed in state.derived:
        return None
    texts = state.database.values.texts
    old, new = _times(shape, texts[before[0][0]]), _times(shape, texts[after[0][0]])
    if len(old) <= len(shape.computed) or len(new) <= len(shape.computed):
        return None  # a sum without a value makes the rule false for every row, compared or not
    rows: dict[Row, None] = {}
    for place, name in shape.bounds:
        first, second = old[name], new[name]
        index = state.table(timed).index((place,))
        ordered = state.database.ordered(timed, place)
        for number in ordered.between(min(first, second), max(first, second)):
            rows.update(dict.fromkeys(index.get(number, ())))
    return list(rows)


def _chain(conjunction: Conjunction, clock: str) -> tuple[Computed, ...]:
    """The functions that see nothing but the clock and constants, in an order in which each finds its inputs."""
    known = {clock}
    chain: list[Computed] = []
    waiting = [guard for guard in conjunction.guards if isinstance(guard, Computed)]
    while ready := [guard for guard in waiting if guard.needs() and guard.needs() <= known]:
        for guard in ready:
            waiting.remove(guard)
            if not isinstance(guard.result, Variable) or guard.result.name in known:
                continue
            chain.append(guard)
            known.add(guard.result.name)
    return tuple(chain)


def _mentions(guard: Absent | Computed | Tested, times: set[str]) -> bool:
    names = set(guard.needs())
    if isinstance(guard, Computed) and isinstance(guard.result, Variable):
        names.add(guard.result.name)
    return bool(names & times)


def _sides(test: Tested, times: set[str]) -> tuple[str, str] | None:
    """(variable of the record, variable of the time) of an order test."""
    names = [term.name for term in test.arguments if isinstance(term, Variable)]
    if len(names) != 2:
        return None
    first, second = names
    return (second, first) if first in times else (first, second)


def _times(shape: Shape, clock: str) -> dict[str, str]:
    """Every time that the rule computes from one reading of the clock; those without a value are left out."""
    times = {shape.variable: clock}
    for guard in shape.computed:
        function = BUILTINS[guard.builtin]
        assert isinstance(function, Function)
        inputs = list(_inputs(guard, times))
        value = function.value(inputs[0], inputs[1]) if len(inputs) == 2 else None
        if value is not None and isinstance(guard.result, Variable):
            times[guard.result.name] = value
    return times


def _inputs(guard: Computed, times: dict[str, str]) -> Iterator[str]:
    for term in guard.arguments:
        if isinstance(term, Constant):
            yield term.value
        elif term.name in times:
            yield times[term.name]
