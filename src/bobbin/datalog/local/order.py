"""In which order a rule reads its relations. Nothing decides the speed of a rule more.

Greedy, one scan after the other. Best is a scan whose variables are all bound: a mere test. Then one that shares a
bound variable, so that it is reached through an index; among those the one with the fewest expected rows. A scan that
shares nothing multiplies, however many constants it has, and comes last.
"""

from collections.abc import Callable, Sequence

from bobbin.datalog.local.conjunction import Read
from bobbin.datalog.syntax import Constant, Variable

Estimate = Callable[[Read, frozenset[str]], float]
"""Expected rows of a scan, given the variables that are bound when it is reached."""


def choose_order(reads: Sequence[Read], *, first: int | None, estimate: Estimate) -> tuple[int, ...]:
    """The positions of ``reads`` in the order in which to nest them; ``first`` comes first, where given."""
    order: list[int] = []
    bound: frozenset[str] = frozenset()
    waiting = list(range(len(reads)))
    if first is not None:
        order.append(first)
        waiting.remove(first)
        bound = reads[first].variables()
    while waiting:
        best = min(waiting, key=lambda number: (*_rank(reads[number], bound), estimate(reads[number], bound), number))
        order.append(best)
        waiting.remove(best)
        bound |= reads[best].variables()
    return tuple(order)


def bound_positions(read: Read, bound: frozenset[str]) -> tuple[int, ...]:
    """The argument positions that have a value before the scan begins."""
    return tuple(
        place
        for place, term in enumerate(read.terms)
        if isinstance(term, Constant) or (isinstance(term, Variable) and term.name in bound)
    )


def _rank(read: Read, bound: frozenset[str]) -> tuple[int]:
    variables = read.variables()
    if variables <= bound:
        return (0,)
    if variables & bound or not bound:
        return (1,)
    return (2,)


def is_test(read: Read, bound: frozenset[str]) -> bool:
    """Whether a scan binds nothing new: it only asks whether some row agrees."""
    return read.variables() <= bound
