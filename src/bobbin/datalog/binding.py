"""Values for the variables of a rule, one literal after the other: what a search from the top works with.

A binding never changes; a literal that is met yields a larger one. An order of literals is safe when each guard (a
built-in, a negation) comes after the literals that give its variables a value; a safe rule always has one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from bobbin.datalog.builtins import BUILTINS, Function, holds
from bobbin.datalog.syntax import Atom, Constant, Literal, Variable, Wildcard
from bobbin.facts.relations import Pattern, Tuple

Binding: TypeAlias = Mapping[str, str]


def unify(head: Atom, pattern: Pattern) -> dict[str, str] | None:
    """The values that a head needs to agree with a pattern, or None where it cannot."""
    binding: dict[str, str] = {}
    for term, value in zip(head.terms, pattern, strict=True):
        if value is None:
            continue
        if isinstance(term, Variable):
            if binding.setdefault(term.name, value) != value:
                return None
        elif isinstance(term, Constant) and term.value != value:
            return None
    return binding


def extend(atom: Atom, values: Tuple, binding: Binding) -> Binding | None:
    """The binding with the variables that a tuple gives a value; None where a repeated variable disagrees."""
    fresh: dict[str, str] = {}
    for term, value in zip(atom.terms, values, strict=True):
        if isinstance(term, Variable) and term.name not in binding and fresh.setdefault(term.name, value) != value:
            return None
    return {**binding, **fresh} if fresh else binding


def pattern_of(atom: Atom, binding: Binding) -> Pattern:
    """The question that a literal asks: None for what has no value yet."""
    return tuple(
        term.value if isinstance(term, Constant) else binding.get(term.name) if isinstance(term, Variable) else None
        for term in atom.terms
    )


def compute(literal: Literal, binding: Binding) -> Binding | None:
    """What a built-in adds to a binding, or None where it does not hold."""
    arguments = pattern_of(literal.atom, binding)
    builtin = BUILTINS[literal.atom.predicate]
    result = literal.atom.terms[-1]
    if isinstance(builtin, Function) and not literal.negated and isinstance(result, Variable):
        value = builtin.value(*(argument for argument in arguments[:-1] if argument is not None))
        if value is None or binding.get(result.name, value) != value:
            return None
        return {**binding, result.name: value}
    return binding if holds(literal.atom.predicate, arguments) != literal.negated else None


def _needs(literal: Literal) -> frozenset[str]:
    """The variables that must have a value before a literal can be tried."""
    atom = literal.atom
    builtin = BUILTINS.get(atom.predicate)
    if isinstance(builtin, Function) and not literal.negated:
        return frozenset(term.name for term in atom.terms[:-1] if isinstance(term, Variable))
    return frozenset(atom.variables()) if literal.negated or builtin is not None else frozenset()


def written_order(body: Sequence[Literal], bound: frozenset[str]) -> list[int]:
    """The literals as written, each one that needs a value behind those that give it."""
    return _order(body, bound, lambda _place, _bound: 0)


def narrowing_order(body: Sequence[Literal], bound: frozenset[str], derived: Collection[str]) -> list[int]:
    """Guards as soon as they can be tried, then the literal with the fewest open places, given facts before others."""

    def openness(place: int, bound: frozenset[str]) -> int:
        atom = body[place].atom
        if body[place].negated or atom.predicate in BUILTINS:
            return -1
        fresh = set(atom.variables()) - bound
        wild = sum(isinstance(term, Wildcard) for term in atom.terms)
        connected = not bound.isdisjoint(atom.variables())
        return 4 * len(fresh) + 2 * wild + (atom.predicate in derived) + (0 if connected or not fresh else 1_000)

    return _order(body, bound, openness)


def _order(body: Sequence[Literal], bound: frozenset[str], rank: Callable[[int, frozenset[str]], int]) -> list[int]:
    order: list[int] = []
    waiting = list(range(len(body)))
    while waiting:
        ready = [place for place in waiting if _needs(body[place]) <= bound]
        place = min(ready, key=lambda place: (rank(place, bound), place))
        order.append(place)
        waiting.remove(place)
        bound |= frozenset(body[place].atom.variables())
    return order
