"""What an explanation says: a tree of statements for a fact that holds, the failing literals for one that does not.

These are plain values, made by ``explain``. They turn into JSON as they are; ``kind`` tells the sorts apart.
"""

from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.datalog.syntax import Constant
from bobbin.facts.relations import Pattern


class Bounds(Struct, frozen=True, kw_only=True):
    """How much one explanation may cost and say."""

    steps_max: int = 100_000
    """Tuples looked at, in one call of ``why`` or ``why_not``."""
    nodes_max: int = 200
    """Statements in one answer."""
    depth_max: int = 16
    """Rules on top of one another in one answer."""
    nearest_max: int = 3
    """Facts shown that come near to a failing literal."""
    rules_max: int = 16
    """Failing rules shown for one missing fact; the nearest ones are kept."""


class Statement(Struct, frozen=True):
    """A fact, or with None for "any value" a question about facts."""

    predicate: str
    values: Pattern
    negated: bool = False

    def __str__(self) -> str:
        terms = ",".join("_" if value is None else str(Constant(value)) for value in self.values)
        return f"{'not ' if self.negated else ''}{self.predicate}({terms})"


class Given(Struct, frozen=True, tag_field="kind", tag="given"):
    """A fact that no rule derives: it was there."""

    fact: Statement


class Checked(Struct, frozen=True, tag_field="kind", tag="checked"):
    """A literal that holds without a fact: a built-in, or a negation that nothing contradicts."""

    literal: Statement


class Cut(Struct, frozen=True, tag_field="kind", tag="cut"):
    """A statement whose reasons are not repeated or not looked for further; ``why`` says which."""

    fact: Statement
    why: str


class Derived(Struct, frozen=True, tag_field="kind", tag="derived"):
    """A fact, the rule that gives it, and why each literal of the rule's body holds."""

    fact: Statement
    rule: str
    line: int
    because: tuple["Reason", ...]


class Failure(Struct, frozen=True, kw_only=True):
    """One rule that could have derived a missing fact, and the first literal that kept it from doing so."""

    rule: str
    line: int
    literal: str | None
    """As written; None where the head itself is about something else, or the search was cut."""
    instance: Statement | None = None
    """The same with the values that were found by then."""
    met: int = 0
    """How many literals of the body held before."""
    literals: int = 0
    nearest: tuple[Statement, ...] = ()
    because: "Explanation | None" = None
    """More about it: why the contradicting fact holds, or why the wanted one is missing in turn."""
    note: str = ""


class Missing(Struct, frozen=True, tag_field="kind", tag="missing"):
    """A fact that does not hold, with every rule that failed to derive it."""

    fact: Statement
    failures: tuple[Failure, ...]
    note: str = ""


Reason: TypeAlias = Given | Checked | Cut | Derived
Explanation: TypeAlias = Given | Checked | Cut | Derived | Missing

CUT_REPEATED: Final = "shown above"
CUT_BOUND: Final = "not followed further"
