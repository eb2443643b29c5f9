"""The parts of a program (Lace-030): terms, atoms, literals, rules.

A program is a list of rules. A rule says that its head holds whenever every literal of its body does; a rule without
body is a fact. Values are texts and nothing else. ``str()`` of every part is its canonical spelling.
"""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from bobbin.facts.text import quote


class Place(Struct, frozen=True):
    """Where something stands in the text: line and column, both counted from 1, the column in characters."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class Constant(Struct, frozen=True):
    """A text."""

    value: str

    def __str__(self) -> str:
        return quote(self.value)


class Variable(Struct, frozen=True):
    """A name for whatever value makes the rule true."""

    name: str

    def __str__(self) -> str:
        return self.name


class Wildcard(Struct, frozen=True):
    """``_``: a fresh variable each time; in a negated literal, "for no value"."""

    def __str__(self) -> str:
        return "_"


Term: TypeAlias = Constant | Variable | Wildcard


class Atom(Struct, frozen=True):
    """A predicate with its arguments."""

    predicate: str
    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.predicate}({','.join(map(str, self.terms))})"

    @property
    def arity(self) -> int:
        return len(self.terms)

    def variables(self) -> Iterator[str]:
        """Names of the variables, left to right, repeated where they are."""
        return (term.name for term in self.terms if isinstance(term, Variable))


class Literal(Struct, frozen=True):
    """An atom of a body, perhaps negated."""

    atom: Atom
    negated: bool = False
    place: Place = Place(0, 0)

    def __str__(self) -> str:
        return f"not {self.atom}" if self.negated else str(self.atom)


class Rule(Struct, frozen=True):
    """A head that holds whenever its whole body does."""

    head: Atom
    body: tuple[Literal, ...] = ()
    place: Place = Place(0, 0)

    def __str__(self) -> str:
        if not self.body:
            return f"{self.head}."
        return f"{self.head} :- {', '.join(map(str, self.body))}."


class Program(Struct, frozen=True):
    """Rules, in the order of the text."""

    rules: tuple[Rule, ...]

    def heads(self) -> frozenset[str]:
        """The predicates that rules define."""
        return frozenset(rule.head.predicate for rule in self.rules)
