"""What a program computes, as relational algebra: the form that every back end executes.

A node stands for a relation whose columns are named by variables (``Project`` and ``Union`` have positions instead).
The tree says what, not in which order: ``Join`` takes all its inputs at once, and each back end orders them by what it
knows about sizes. There are as few nodes as the language needs:

============  ==========================================================================================
``Scan``      the tuples of a predicate that agree with constants and repeated variables
``Join``      natural join of scans on equal variable names; without inputs, the one empty tuple
``Compute``   adds a column: the value of a built-in function, dropping tuples that have none
``Filter``    keeps the tuples for which a built-in test holds (or does not)
``AntiJoin``  keeps the tuples that no tuple of a scan agrees with
``Project``   the head of a rule: columns and constants in order
``Union``     the rules of one predicate
``Fixpoint``  the predicates of one stratum, repeated until nothing new appears
============  ==========================================================================================
"""

from typing import TypeAlias

from msgspec import Struct

from bobbin.datalog.syntax import Constant, Rule, Term, Variable


class Scan(Struct, frozen=True):
    """The tuples of a predicate, as the terms select and name them."""

    predicate: str
    terms: tuple[Term, ...]

    def variables(self) -> tuple[str, ...]:
        """The columns, in order of first appearance."""
        return tuple(dict.fromkeys(term.name for term in self.terms if isinstance(term, Variable)))


class Join(Struct, frozen=True):
    """All scans at once, on equal variable names."""

    inputs: tuple[Scan, ...]


class Compute(Struct, frozen=True):
    """``result`` is a variable of its own or, when already bound, must agree."""

    input: "Body"
    builtin: str
    arguments: tuple[Constant | Variable, ...]
    result: Term


class Filter(Struct, frozen=True):
    """A built-in as a condition."""

    input: "Body"
    builtin: str
    arguments: tuple[Term, ...]
    negated: bool


class AntiJoin(Struct, frozen=True):
    """A negated literal."""

    input: "Body"
    scan: Scan


Body: TypeAlias = Join | Compute | Filter | AntiJoin


class Project(Struct, frozen=True):
    """The head of one rule."""

    input: Body
    terms: tuple[Constant | Variable, ...]
    rule: Rule
    """The rule that this came from, for explanations."""


class Union(Struct, frozen=True):
    """Every rule of one predicate."""

    predicate: str
    inputs: tuple[Project, ...]


class Fixpoint(Struct, frozen=True):
    """One stratum."""

    unions: tuple[Union, ...]
    recursive: bool
    """Whether a predicate of this stratum depends on one of the same stratum."""

    @property
    def predicates(self) -> frozenset[str]:
        return frozenset(union.predicate for union in self.unions)


class Plan(Struct, frozen=True):
    """A whole program: its strata, lowest first."""

    strata: tuple[Fixpoint, ...]
