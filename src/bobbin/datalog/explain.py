"""Why a fact holds, and why another does not: found again from the top, over the finished answer of an evaluation.

``why`` searches a derivation that rests on given facts and on nothing else. In a recursive program a fact may also
follow from itself, which explains nothing. So the search keeps goals and the rule instances that would prove them, and
settles a goal only when every premise of an instance is settled already: what it finds is well-founded by
construction. It goes broadly first, which finds short derivations, and deeply once half of its steps are used up.

``why_not`` reads each rule for the missing fact in the written order of its literals (a literal that needs a value
waits for it) and reports how far any choice of values got: the first literal that fails, and the facts nearest to it.

Both are bounded in steps and in the size of the answer. Where a bound cuts, the answer says so.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from bobbin.datalog.binding import Binding, compute, extend, narrowing_order, pattern_of, unify, written_order
from bobbin.datalog.builtins import BUILTINS
from bobbin.datalog.explanation import (
    CUT_BOUND,
    CUT_REPEATED,
    Bounds,
    Checked,
    Cut,
    Derived,
    Explanation,
    Failure,
    Given,
    Missing,
    Reason,
    Statement,
)
from bobbin.datalog.syntax import Literal, Program, Rule
from bobbin.facts.relations import FactSource, Pattern, Tuple

_Goal: TypeAlias = tuple[str, Tuple]


# ---- what there is to look at ---------------------------------------------------------------------------------------


class _Replay:
    """An answer of a source, read as far as somebody needed it and kept: no source is asked the same thing twice."""

    def __init__(self, answer: Iterator[Tuple]) -> None:
        self._rest = answer
        self._read: list[Tuple] = []

    def __iter__(self) -> Iterator[Tuple]:
        place = 0
        while True:
            if place == len(self._read):
                following = next(self._rest, None)
                if following is None:
                    return
                self._read.append(following)
            yield self._read[place]
            place += 1


class Model:
    """The finished answer of an evaluation: given facts from their sources, derived ones from the result."""

    def __init__(
        self,
        program: Program,
        derived: Callable[[str], frozenset[Tuple]],
        sources: Mapping[str, FactSource],
    ) -> None:
        self.rules: dict[str, list[Rule]] = {}
        for rule in program.rules:
            self.rules.setdefault(rule.head.predicate, []).append(rule)
        self._derived = derived
        self._sources = sources
        self._asked: dict[tuple[str, Pattern], _Replay] = {}
        self._known: dict[str, frozenset[Tuple]] = {}
        self._indexes: dict[tuple[str, tuple[int, ...]], dict[Tuple, list[Tuple]]] = {}

    def is_given(self, predicate: str) -> bool:
        """Whether facts of this predicate come from a source."""
        return predicate in self._sources

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        """The tuples that agree with a pattern."""
        if predicate not in self.rules:
            asked = self._asked.get((predicate, pattern))
            if asked is None:
                source = self._sources.get(predicate)
                answer = iter(()) if source is None else source.match(predicate, pattern)
                asked = self._asked[predicate, pattern] = _Replay(answer)
            return iter(asked)
        places = tuple(place for place, value in enumerate(pattern) if value is not None)
        key = tuple(value for value in pattern if value is not None)
        tuples = self.tuples(predicate)
        if not places:
            return iter(sorted(tuples))
        if len(places) == len(pattern):
            return iter((key,) if key in tuples else ())
        index = self._indexes.get((predicate, places))
        if index is None:
            index = self._indexes[predicate, places] = {}
            # In order, so that one question gets one answer, whatever order sets have today.
            for values in sorted(tuples):
                index.setdefault(tuple(values[place] for place in places), []).append(values)
        return iter(index.get(key, ()))

    def tuples(self, predicate: str) -> frozenset[Tuple]:
        """Everything derived for a predicate."""
        known = self._known.get(predicate)
        if known is None:
            known = self._known[predicate] = self._derived(predicate)
        return known


class _OutOfSteps(Exception):
    """The search has used up its steps."""


class _Steps:
    def __init__(self, limit: int) -> None:
        self.left = limit

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _OutOfSteps


class _Instance(Struct, frozen=True):
    """A rule with a value for every variable: the tuple that each literal met, None for guards."""

    rule: Rule
    binding: Binding
    met: Mapping[int, Tuple]


class _Candidate(Struct):
    """An instance that waits until its derived premises are settled."""

    goal: _Goal
    instance: _Instance
    open: set[_Goal]


class _Attempt(Struct, frozen=True):
    """How far one rule gets towards a missing fact: ``reached`` literals of ``order``, with ``binding``."""

    rule: Rule
    order: list[int]
    reached: int
    binding: Binding
    missing: int
    note: str = ""


# ---- the two questions ----------------------------------------------------------------------------------------------


class Explainer:
    """Answers for one program and one model."""

    def __init__(self, model: Model, bounds: Bounds = Bounds()) -> None:  # noqa: B008 (a frozen value)
        self._model = model
        self._bounds = bounds
        self._steps = _Steps(0)
        self._nodes = 0

    def explain(self, predicate: str, values: Tuple) -> Explanation:
        """Why a fact holds, or why it does not, whichever is the case."""
        holds_now = next(self._model.match(predicate, values), None) is not None
        return self.why(predicate, values) if holds_now else self.why_not(predicate, values)

    def why(self, predicate: str, values: Tuple) -> Reason:
        """A derivation of a fact that holds."""
        self._begin()
        return self._derivation((predicate, values))

    def why_not(self, predicate: str, pattern: Pattern) -> Missing:
        """What keeps every rule from deriving a fact that does not hold."""
        self._begin()
        return self._missing(predicate, pattern, path=())

    def _begin(self) -> None:
        self._steps = _Steps(self._bounds.steps_max)
        self._nodes = self._bounds.nodes_max

    # ---- derivations ------------------------------------------------------------------------------------------------

    def _derivation(self, goal: _Goal) -> Reason:
        if goal[0] not in self._model.rules:
            return Given(Statement(*goal))
        proven = self._prove(goal)
        if goal not in proven:
            return Cut(Statement(*goal), CUT_BOUND)
        return self._tree(goal, proven, shown=set(), depth=0)

    def _prove(self, root: _Goal) -> dict[_Goal, _Instance]:
        """Settled goals, each with an instance whose premises were settled before; the root too, unless cut."""
        proven: dict[_Goal, _Instance] = {}
        waiting: dict[_Goal, list[_Candidate]] = {}
        agenda = deque([(root, self._instances(root))])
        seen = {root}
        half = self._steps.left // 2
        while agenda and root not in proven:
            goal, instances = agenda.popleft() if self._steps.left > half else agenda.pop()
            if goal in proven:
                continue
            try:
                instance = next(instances, None)
            except _OutOfSteps:
                break
            if instance is None:
                continue
            agenda.append((goal, instances))
            candidate = _Candidate(goal, instance, set(self._premises(instance)) - proven.keys())
            if not candidate.open:
                _settle(candidate, proven, waiting)
            for needed in candidate.open:
                waiting.setdefault(needed, []).append(candidate)
                if needed not in seen:
                    seen.add(needed)
                    agenda.append((needed, self._instances(needed)))
        return proven

    def _instances(self, goal: _Goal) -> Iterator[_Instance]:
        """The rule instances that have this goal as their head."""
        predicate, values = goal
        for rule in self._model.rules[predicate]:
            binding = unify(rule.head, values)
            if binding is not None:
                order = narrowing_order(rule.body, frozenset(binding), self._model.rules)
                for found, met in self._solve(rule.body, order, binding, {}):
                    yield _Instance(rule, found, met)

    def _premises(self, instance: _Instance) -> Iterator[_Goal]:
        for place, values in instance.met.items():
            predicate = instance.rule.body[place].atom.predicate
            if predicate in self._model.rules:
                yield predicate, values

    def _tree(self, goal: _Goal, proven: Mapping[_Goal, _Instance], shown: set[_Goal], depth: int) -> Reason:
        self._nodes -= 1
        statement = Statement(*goal)
        if goal in shown:
            return Cut(statement, CUT_REPEATED)
        if depth >= self._bounds.depth_max or self._nodes < 0:
            return Cut(statement, CUT_BOUND)
        shown.add(goal)
        instance = proven[goal]
        because: list[Reason] = []
        for place, literal in enumerate(instance.rule.body):
            values = instance.met.get(place)
            if values is None:
                self._nodes -= 1
                because.append(Checked(_statement(literal, instance.binding)))
            elif literal.atom.predicate in self._model.rules:
                because.append(self._tree((literal.atom.predicate, values), proven, shown, depth + 1))
            else:
                self._nodes -= 1
                because.append(Given(Statement(literal.atom.predicate, values)))
        return Derived(statement, str(instance.rule), instance.rule.place.line, tuple(because))

    # ---- failures ---------------------------------------------------------------------------------------------------

    def _missing(self, predicate: str, pattern: Pattern, path: tuple[Statement, ...]) -> Missing:
        self._nodes -= 1
        wanted = Statement(predicate, pattern)
        rules = self._model.rules.get(predicate)
        if rules is None:
            return Missing(
                wanted, (), "no such fact is there" if self._model.is_given(predicate) else "no rule derives it"
            )
        if wanted in path:
            return Missing(wanted, (), CUT_REPEATED)
        if len(path) >= self._bounds.depth_max or self._nodes < 0:
            return Missing(wanted, (), CUT_BOUND)
        attempts = [
            self._attempt(rule, pattern, self._steps.left // (len(rules) - number)) for number, rule in enumerate(rules)
        ]
        attempts.sort(key=lambda attempt: (attempt.missing, -attempt.reached, attempt.rule.place.line))
        hidden = len(attempts) - self._bounds.rules_max
        note = f"{hidden} more rules fail too" if hidden > 0 else ""
        kept = attempts[: self._bounds.rules_max]
        return Missing(wanted, tuple(self._failure(attempt, (*path, wanted)) for attempt in kept), note)

    def _attempt(self, rule: Rule, pattern: Pattern, steps: int) -> _Attempt:
        """How far a rule gets towards a missing fact. One that wanders leaves the other rules their steps."""
        size = len(rule.body)
        binding = unify(rule.head, pattern)
        if binding is None:
            return _Attempt(rule, [], 0, {}, missing=size + 1, note=f"it is about {rule.head}")
        order = written_order(rule.body, frozenset(binding))
        left = self._steps.left - steps
        self._steps.left = steps
        try:
            reached, found = self._furthest(rule.body, order, binding)
        except _OutOfSteps:
            return _Attempt(rule, order, 0, binding, missing=size, note=CUT_BOUND)
        finally:
            self._steps.left = left + max(self._steps.left, 0)
        return _Attempt(rule, order, reached, found, missing=size - reached)

    def _failure(self, attempt: _Attempt, path: tuple[Statement, ...]) -> Failure:
        self._nodes -= 1
        rule, size = attempt.rule, len(attempt.rule.body)
        if attempt.note or attempt.reached == size:
            # Only a fact that holds after all meets a whole body: the question does not belong to this model.
            note = attempt.note or "it holds"
            return Failure(rule=str(rule), line=rule.place.line, literal=None, literals=size, note=note)
        literal = rule.body[attempt.order[attempt.reached]]
        nearest, because = self._about(literal, attempt.binding, path)
        return Failure(
            rule=str(rule),
            line=rule.place.line,
            literal=str(literal),
            instance=_statement(literal, attempt.binding),
            met=attempt.reached,
            literals=size,
            nearest=nearest,
            because=because,
        )

    def _furthest(self, body: Sequence[Literal], order: Sequence[int], binding: Binding) -> tuple[int, Binding]:
        """How many literals some choice of values meets, and the first such choice."""
        best: tuple[int, Binding] = (0, binding)
        stack = [(binding, self._meet(body[order[0]], binding))] if order else []
        while stack:
            following = next(stack[-1][1], None)
            if following is None:
                stack.pop()
                continue
            found, _ = following
            if len(stack) > best[0]:
                best = (len(stack), found)
            if len(stack) == len(order):
                break
            stack.append((found, self._meet(body[order[len(stack)]], found)))
        return (len(order), binding) if not order else best

    def _about(
        self, literal: Literal, binding: Binding, path: tuple[Statement, ...]
    ) -> tuple[tuple[Statement, ...], Explanation | None]:
        """The facts near to a failing literal, and more about the fact that fails or contradicts it."""
        atom = literal.atom
        if atom.predicate in BUILTINS:
            return (), None
        pattern = pattern_of(atom, binding)
        if literal.negated:
            contradiction = next(self._model.match(atom.predicate, pattern), None)
            if contradiction is None or self._nodes < 0:
                return (), None
            return (), self._derivation((atom.predicate, contradiction))
        nearest = self._nearest(atom.predicate, pattern)
        if atom.predicate in self._model.rules:
            return nearest, self._missing(atom.predicate, pattern, path)
        return nearest, None

    def _nearest(self, predicate: str, pattern: Pattern) -> tuple[Statement, ...]:
        """Facts that differ from the pattern in one place, the last place first."""
        bound = [place for place, value in enumerate(pattern) if value is not None]
        # What agrees in too few places is not near: one record is not like another because both are stored.
        agreeing = min(2, len(pattern) - 1) if predicate in self._model.rules else max(1, min(2, len(pattern) - 1))
        if len(bound) <= agreeing:
            return ()
        for place in reversed(bound):
            relaxed = tuple(None if number == place else value for number, value in enumerate(pattern))
            found = []
            for values in self._model.match(predicate, relaxed):
                found.append(Statement(predicate, values))
                if len(found) == self._bounds.nearest_max:
                    break
            if found:
                return tuple(sorted(found, key=str))
        return ()

    # ---- matching ---------------------------------------------------------------------------------------------------

    def _solve(
        self, body: Sequence[Literal], order: Sequence[int], binding: Binding, met: Mapping[int, Tuple]
    ) -> Iterator[tuple[Binding, Mapping[int, Tuple]]]:
        """Every choice of values that meets a whole body."""
        if not order:
            yield binding, met
            return
        place = order[0]
        for found, values in self._meet(body[place], binding):
            following = met if values is None else {**met, place: values}
            yield from self._solve(body, order[1:], found, following)

    def _meet(self, literal: Literal, binding: Binding) -> Iterator[tuple[Binding, Tuple | None]]:
        """The ways to meet one literal: what is bound afterwards, and the tuple met, None for a guard."""
        self._steps.take()
        atom = literal.atom
        if atom.predicate in BUILTINS:
            found = compute(literal, binding)
            if found is not None:
                yield found, None
            return
        pattern = pattern_of(atom, binding)
        if literal.negated:
            if next(self._model.match(atom.predicate, pattern), None) is None:
                yield binding, None
            return
        for values in self._model.match(atom.predicate, pattern):
            self._steps.take()
            extended = extend(atom, values, binding)
            if extended is not None:
                yield extended, values


def _settle(candidate: _Candidate, proven: dict[_Goal, _Instance], waiting: dict[_Goal, list[_Candidate]]) -> None:
    """Settle a goal and everything that waited for nothing else."""
    ready = [candidate]
    while ready:
        settled = ready.pop()
        if settled.goal in proven:
            continue
        proven[settled.goal] = settled.instance
        for waiter in waiting.pop(settled.goal, ()):
            waiter.open.discard(settled.goal)
            if not waiter.open:
                ready.append(waiter)


def _statement(literal: Literal, binding: Binding) -> Statement:
    return Statement(literal.atom.predicate, pattern_of(literal.atom, binding), literal.negated)
