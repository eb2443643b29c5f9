"""One rule as this back end sees it: scans in any order, guards that wait for their variables, a head.

Reading a relation that is asked for by one constant field name (``Field(P,'Group',_,V)``) as a relation of its own
(``Field`` with name ``Group``) makes keys shorter and indexes smaller. ``Source`` names such a relation or a plain one.
"""

from collections.abc import Container
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.datalog.algebra import AntiJoin, Body, Compute, Filter, Join, Project, Scan
from bobbin.datalog.syntax import Constant, Rule, Term, Variable

SLICED: Final = {"Field": 1, "AdvertisedField": 2}
"""Predicates that are kept apart by the constant at this position."""


class Source(Struct, frozen=True):
    """A relation to read: a predicate, or the part of it that has this field name."""

    predicate: str
    name: str | None = None


class Read(Struct, frozen=True):
    """A scan, told apart by the relation that it reads."""

    source: Source
    terms: tuple[Term, ...]

    def variables(self) -> frozenset[str]:
        return frozenset(term.name for term in self.terms if isinstance(term, Variable))


class Absent(Struct, frozen=True):
    """A negated literal: no row of the relation may agree."""

    read: Read

    def needs(self) -> frozenset[str]:
        return self.read.variables()


class Computed(Struct, frozen=True):
    """A built-in function: binds its result, or checks it where that is bound already."""

    builtin: str
    arguments: tuple[Constant | Variable, ...]
    result: Term

    def needs(self) -> frozenset[str]:
        return frozenset(term.name for term in self.arguments if isinstance(term, Variable))


class Tested(Struct, frozen=True):
    """A built-in as a condition."""

    builtin: str
    arguments: tuple[Term, ...]
    negated: bool

    def needs(self) -> frozenset[str]:
        return frozenset(term.name for term in self.arguments if isinstance(term, Variable))


Guard: TypeAlias = Absent | Computed | Tested


class Conjunction(Struct, frozen=True):
    """A rule, taken apart."""

    predicate: str
    """What the head defines."""
    head: tuple[Constant | Variable, ...]
    reads: tuple[Read, ...]
    guards: tuple[Guard, ...]
    rule: Rule


def flatten(predicate: str, project: Project, defined: Container[str] = ()) -> Conjunction:
    """A projection of the algebra as one conjunction. What rules have ``defined`` is not kept apart by name."""
    guards: list[Guard] = []
    node: Body = project.input
    while not isinstance(node, Join):
        match node:
            case Compute(_, builtin, arguments, result):
                guards.append(Computed(builtin, arguments, result))
            case Filter(_, builtin, terms, negated):
                guards.append(Tested(builtin, terms, negated))
            case AntiJoin(_, scan):
                guards.append(Absent(_read(scan, defined)))
        node = node.input
    reads = tuple(_read(scan, defined) for scan in node.inputs)
    return Conjunction(predicate, project.terms, reads, tuple(reversed(guards)), project.rule)


def _read(scan: Scan, defined: Container[str]) -> Read:
    position = SLICED.get(scan.predicate)
    if position is not None and scan.predicate not in defined and position < len(scan.terms):
        term = scan.terms[position]
        if isinstance(term, Constant):
            rest = scan.terms[:position] + scan.terms[position + 1 :]
            return Read(Source(scan.predicate, term.value), rest)
    return Read(Source(scan.predicate), scan.terms)
