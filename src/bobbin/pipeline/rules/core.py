"""The recursive core of a stratum: what has to be repeated, apart from what can be computed once.

A rule of a recursive stratum joins predicates of the stratum with others that are finished. The finished part is joined
and filtered once, as data frames, and only the variables that the rest of the rule asks for are kept: these are the
*inputs* of the core. What remains is a small program over the inputs, which any engine may repeat.

``Member(V) :- Member(W), Field(P,'Signed-By',_,W), Field(P,'App',_,'member'), Field(P,'Name',_,V), not Revoked(V).``
becomes ``Member(V) :- Member(W), in0(W,V).``, and the records stay where they are.

Finished literals go into one input only where that cannot make it larger than the largest of them: about one record,
or one with no variable that the other has not. Others are inputs of their own, and the core joins them as it needs.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Final

from msgspec import Struct, structs

from bobbin.datalog.algebra import AntiJoin, Body, Compute, Filter, Fixpoint, Join, Plan, Project, Scan, Union
from bobbin.datalog.local.conjunction import SLICED, Absent, Computed, Conjunction, Guard, Read, Source, Tested, flatten
from bobbin.datalog.syntax import Atom, Constant, Rule, Term, Variable, Wildcard

_NO_RULE: Final = Rule(Atom("", ()))
"""Stands where no single rule of the program is meant."""


class Input(Struct, frozen=True):
    """A finished relation that the core reads."""

    name: str
    """No predicate of a program can have this name: it begins with a small letter."""
    arity: int
    rules: tuple[Conjunction, ...]
    """Whose union it is."""


class Core(Struct, frozen=True):
    """A recursive program over its inputs."""

    arities: dict[str, int]
    """The predicates that it defines."""
    inputs: tuple[Input, ...]
    rules: tuple[Conjunction, ...]

    def plan(self) -> Plan:
        """The same as algebra, for the in-process engine."""
        unions = [
            Union(predicate, tuple(_project(rule) for rule in self.rules if rule.predicate == predicate))
            for predicate in self.arities
        ]
        return Plan((Fixpoint(tuple(union for union in unions if union.inputs), recursive=True),))


def conjunctions(stratum: Fixpoint) -> list[Conjunction]:
    """The rules of a stratum, taken apart."""
    return [flatten(union.predicate, rule, SLICED) for union in stratum.unions for rule in union.inputs]


def split(stratum: Fixpoint, records: Container[str]) -> Core:
    """The core of a stratum. ``records`` are the predicates whose first argument is a record with one wide row."""
    return _Splitter(stratum, records).split()


class _Group(Struct):
    """Finished literals of one rule that are joined beforehand."""

    reads: list[Read]
    subjects: set[str]
    """Variables for records of which at most a few rows of the group have the same value. What is joined to the group
    by such a variable does not grow."""

    def variables(self) -> frozenset[str]:
        return frozenset().union(*(read.variables() for read in self.reads))


class _Splitter:
    def __init__(self, stratum: Fixpoint, records: Container[str]) -> None:
        self._rules = conjunctions(stratum)
        self._own = stratum.predicates
        self._records = records
        self._arities = {union.predicate: len(union.inputs[0].terms) for union in stratum.unions}
        self._inputs: dict[tuple[Conjunction, ...], Input] = {}

    def split(self) -> Core:
        rules = [self._start(predicate) for predicate in sorted(self._own)]
        rules += [self._repeat(rule) for rule in self._rules if self._is_recursive(rule)]
        kept = tuple(rule for rule in rules if rule is not None)
        return Core(self._arities, tuple(self._inputs.values()), kept)

    def _is_recursive(self, rule: Conjunction) -> bool:
        return any(read.source.predicate in self._own for read in rule.reads)

    def _start(self, predicate: str) -> Conjunction | None:
        """What the rules derive that read nothing of the stratum: one input, taken over as it is."""
        rules = [rule for rule in self._rules if rule.predicate == predicate and not self._is_recursive(rule)]
        if not rules:
            return None
        terms = tuple(Variable(f"X{place}") for place in range(self._arities[predicate]))
        source = self._input(tuple(rules), len(terms))
        return Conjunction(predicate, terms, (Read(source, terms),), (), rules[0].rule)

    def _repeat(self, rule: Conjunction) -> Conjunction:
        own = [read for read in rule.reads if read.source.predicate in self._own]
        groups = self._group([read for read in rule.reads if read.source.predicate not in self._own])
        waiting = list(rule.guards)
        inside: list[list[Guard]] = [_take_bound(waiting, group.variables()) for group in groups]
        outside = [self._outside(guard) for guard in waiting]
        wanted = {term.name for term in rule.head if isinstance(term, Variable)}
        wanted = wanted.union(*(read.variables() for read in own), *map(_mentioned, outside))
        offered = [_bound(group.variables(), guards) for group, guards in zip(groups, inside, strict=True)]
        reads = [*own]
        for number, (group, guards) in enumerate(zip(groups, inside, strict=True)):
            others = frozenset().union(*(names for place, names in enumerate(offered) if place != number))
            shown = tuple(Variable(name) for name in sorted(offered[number] & (wanted | others)))
            part = Conjunction("", shown, tuple(group.reads), tuple(guards), rule.rule)
            reads.append(Read(self._input((part,), len(shown)), shown))
        return structs.replace(rule, reads=tuple(reads), guards=tuple(outside))

    def _group(self, reads: Iterable[Read]) -> list[_Group]:
        groups = [_Group([read], self._subjects(read)) for read in reads]
        merged = True
        while merged:
            merged = False
            for one in groups:
                other = next((other for other in groups if other is not one and _fits(other, one)), None)
                if other is not None:
                    groups.remove(other)
                    one.reads += other.reads
                    merged = True
                    break
        return groups

    def _subjects(self, read: Read) -> set[str]:
        first = read.terms[0] if read.terms else None
        is_record = read.source.predicate in self._records and isinstance(first, Variable)
        return {first.name} if is_record and isinstance(first, Variable) else set()

    def _outside(self, guard: Guard) -> Guard:
        """A guard of the core: a negation reads an input."""
        if not isinstance(guard, Absent):
            return guard
        shown = tuple(Variable(name) for name in sorted(guard.read.variables()))
        part = Conjunction("", shown, (guard.read,), (), _NO_RULE)
        return Absent(Read(self._input((part,), len(shown)), shown))

    def _input(self, rules: tuple[Conjunction, ...], arity: int) -> Source:
        key = tuple(_renamed(rule) for rule in rules)
        if key not in self._inputs:
            self._inputs[key] = Input(f"in{len(self._inputs)}", arity, rules)
        return Source(self._inputs[key].name)


def _fits(other: _Group, one: _Group) -> bool:
    """Whether joining ``other`` into ``one`` leaves ``one`` about as large as it was, or makes it smaller."""
    theirs = other.variables()
    return theirs <= one.variables() or bool(other.subjects & one.variables())


def _take_bound(waiting: list[Guard], names: frozenset[str]) -> list[Guard]:
    """Take out the guards that need nothing but these variables and what other such guards compute."""
    taken: list[Guard] = []
    while ready := [guard for guard in waiting if guard.needs() <= names and guard.needs()]:
        for guard in ready:
            waiting.remove(guard)
            taken.append(guard)
            names = _bound(names, [guard])
    return taken


def _bound(names: frozenset[str], guards: Sequence[Guard]) -> frozenset[str]:
    results = (guard.result for guard in guards if isinstance(guard, Computed))
    return names | {result.name for result in results if isinstance(result, Variable)}


def _mentioned(guard: Guard) -> frozenset[str]:
    return _bound(guard.needs(), [guard])


def _project(rule: Conjunction) -> Project:
    body: Body = Join(tuple(Scan(read.source.predicate, read.terms) for read in rule.reads))
    for guard in rule.guards:
        match guard:
            case Computed(builtin, arguments, result):
                body = Compute(body, builtin, arguments, result)
            case Tested(builtin, terms, negated):
                body = Filter(body, builtin, terms, negated)
            case Absent(read):
                body = AntiJoin(body, Scan(read.source.predicate, read.terms))
    return Project(body, rule.head, rule.rule)


def _renamed(rule: Conjunction) -> Conjunction:
    """The same rule with its variables numbered, so that rules which differ in names alone are equal."""
    numbers: dict[str, Variable] = {}

    def term(one: Term) -> Term:
        return numbers.setdefault(one.name, Variable(f"X{len(numbers)}")) if isinstance(one, Variable) else one

    def given(one: Constant | Variable) -> Constant | Variable:
        renamed = term(one)
        assert not isinstance(renamed, Wildcard)
        return renamed

    def read(one: Read) -> Read:
        return Read(one.source, tuple(map(term, one.terms)))

    def guard(one: Guard) -> Guard:
        match one:
            case Absent(scan):
                return Absent(read(scan))
            case Tested(builtin, arguments, negated):
                return Tested(builtin, tuple(map(term, arguments)), negated)
            case Computed(builtin, arguments, result):
                return Computed(builtin, tuple(map(given, arguments)), term(result))

    reads = tuple(map(read, rule.reads))
    guards = tuple(map(guard, rule.guards))
    return Conjunction("", tuple(map(given, rule.head)), reads, guards, _NO_RULE)
