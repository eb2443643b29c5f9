"""A rule prepared for every question that evaluation asks of it.

The plain form derives everything. The others derive little, from a few rows that come first: rows that are new in one
relation, rows that appeared in or vanished from a negated one, or facts whose derivation is in doubt. Each form is
ordered and compiled when it is first needed and kept.
"""

from collections.abc import Callable, Container, Sequence
from typing import Final

from msgspec import structs

from bobbin.datalog.algebra import Fixpoint
from bobbin.datalog.local.budget import PLAN_STEPS
from bobbin.datalog.local.codegen import CompiledRule, generate
from bobbin.datalog.local.conjunction import Absent, Conjunction, Read, Source
from bobbin.datalog.local.order import Estimate, choose_order
from bobbin.datalog.syntax import Term, Variable

IN_DOUBT: Final = Source("")
"""The relation that no program can name: rows handed in by evaluation itself."""

_REPLAN_FACTOR: Final = 8
"""A rule is ordered anew when a relation that it reads has grown or shrunk by this factor."""


class PreparedRule:
    """One conjunction, with at most one scan that gets its rows handed in."""

    def __init__(self, conjunction: Conjunction, given: int | None = None) -> None:
        self.conjunction = conjunction
        self.given = given
        """The scan whose rows are handed in."""
        self.target = Source(conjunction.predicate)
        self.reads = frozenset(read.source for read in conjunction.reads)
        self.absent = frozenset(guard.read.source for guard in conjunction.guards if isinstance(guard, Absent))
        self._sized = [None if number == given else read.source for number, read in enumerate(conjunction.reads)]
        """The relation of each scan, None for the one that is given."""
        self._compiled: tuple[tuple[int, ...], CompiledRule] | None = None
        self._forms: dict[tuple[str, int], PreparedRule] = {}

    def compiled(
        self, size: Callable[[Source], int], estimate: Estimate, spend: Callable[[int], None] | None = None
    ) -> CompiledRule:
        """The rule as a function, ordered for relations of about these sizes; ``spend`` hears what a new one costs."""
        sizes = tuple([0 if source is None else size(source) for source in self._sized])
        if self._compiled is None or not (self._compiled[0] == sizes or _similar(self._compiled[0], sizes)):
            if spend is not None:
                spend(PLAN_STEPS * len(sizes))
            rule = generate(self.conjunction, self.order(estimate), delta=self.given)
            self._compiled = sizes, rule
        return self._compiled[1]

    def order(self, estimate: Estimate) -> tuple[int, ...]:
        """The order in which to read, the given scan first."""
        return choose_order(self.conjunction.reads, first=self.given, estimate=estimate)

    def echoes(self, number: int, unfinished: Container[Source]) -> tuple[int, ...]:
        """The places of a scan whose variable an earlier scan has too, relations that still grow left out.

        A row that has a value there that no row had before can only be joined with rows of the earlier scan that are
        new themselves; so what it derives, the new rows of the earlier scan derive.
        """
        reads = self.conjunction.reads
        earlier = [read.variables() for read in reads[:number] if read.source not in unfinished]
        names = frozenset().union(*earlier)
        terms = enumerate(reads[number].terms)
        return tuple(place for place, term in terms if isinstance(term, Variable) and term.name in names)

    # ---- forms ----------------------------------------------------------------------------------------------------

    def on_new(self, number: int) -> "PreparedRule":
        """What new rows of one scan make true."""
        return self._form("new", number, lambda: PreparedRule(self.conjunction, number))

    def on_lost(self, number: int) -> "PreparedRule":
        """What may no longer be true when one scan has lost rows. Negations are left out: more is not wrong."""
        return self._form("lost", number, lambda: PreparedRule(self._without_negation(), number))

    def on_vanished(self, number: int) -> "PreparedRule":
        """What becomes true when rows of the relation that this guard negates have vanished."""
        return self._form("vanished", number, lambda: self._reading(self.conjunction, self._negated(number)))

    def on_appeared(self, number: int) -> "PreparedRule":
        """What may no longer be true when rows have appeared in the relation that this guard negates."""
        return self._form("appeared", number, lambda: self._reading(self._without_negation(), self._negated(number)))

    def on_doubt(self) -> "PreparedRule":
        """Which of some facts this rule still derives."""
        return self._form("doubt", 0, lambda: self._reading(self.conjunction, self.conjunction.head))

    def _form(self, what: str, number: int, make: "Callable[[], PreparedRule]") -> "PreparedRule":
        form = self._forms.get((what, number))
        if form is None:
            form = self._forms[what, number] = make()
        return form

    def _negated(self, number: int) -> tuple[Term, ...]:
        guard = self.conjunction.guards[number]
        assert isinstance(guard, Absent), "the caller counts guards that negate"
        return guard.read.terms

    def _without_negation(self) -> Conjunction:
        guards = tuple(guard for guard in self.conjunction.guards if not isinstance(guard, Absent))
        return structs.replace(self.conjunction, guards=guards)

    def _reading(self, conjunction: Conjunction, terms: tuple[Term, ...]) -> "PreparedRule":
        reads = (*conjunction.reads, Read(IN_DOUBT, terms))
        return PreparedRule(structs.replace(conjunction, reads=reads), len(reads) - 1)


class PreparedStratum:
    """The rules of one stratum, and what they read."""

    def __init__(self, fixpoint: Fixpoint, rules: Sequence[PreparedRule]) -> None:
        self.rules = tuple(rules)
        self.recursive = fixpoint.recursive
        self.targets = tuple(Source(union.predicate) for union in fixpoint.unions)
        self.reads: frozenset[Source] = frozenset().union(*(rule.reads for rule in rules))
        self.absent: frozenset[Source] = frozenset().union(*(rule.absent for rule in rules))
        self.echoes = {
            (rule, number): rule.echoes(number, self.targets)
            for rule in rules
            for number in range(len(rule.conjunction.reads))
        }
        """For each rule and scan what ``PreparedRule.echoes`` says."""


def _similar(before: tuple[int, ...], now: tuple[int, ...]) -> bool:
    return all(
        old <= new * _REPLAN_FACTOR + _REPLAN_FACTOR and new <= old * _REPLAN_FACTOR + _REPLAN_FACTOR
        for old, new in zip(before, now, strict=True)
    )
