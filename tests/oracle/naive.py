"""A second evaluator, written for tests only: what a program means, as slowly and plainly as it can be said.

It reads the syntax tree and the definitions of Lace-030, and shares nothing with the engine: no algebra, no indexes,
no deltas, no order of joins, and its own built-ins. A stratum repeats all its rules on all facts until nothing changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from bobbin.datalog.syntax import Atom, Constant, Literal, Rule, Variable, Wildcard

Facts: TypeAlias = dict[str, set[tuple[str, ...]]]
Substitution: TypeAlias = dict[str, str]

FUNCTIONS: Final = ("TaiAdd", "TaiSub")
TESTS: Final = (
    "Eq",
    "Ne",
    "Lt",
    "Le",
    "Gt",
    "Ge",
    "StartsWith",
    "EndsWith",
    "Contains",
    "NumLt",
    "NumLe",
)
_SUBSTITUTIONS_MAX: Final = 200_000


class TooMuch(Exception):
    """A program is too expensive for a slow evaluator. It says nothing about the program's meaning."""


def evaluate(rules: Sequence[Rule], facts: Mapping[str, set[tuple[str, ...]]]) -> Facts:
    """Everything that the rules derive from the facts, per predicate that a rule defines."""
    strata = stratify(rules)
    assert strata is not None, "the program has no stratification"
    known: Facts = {name: set(tuples) for name, tuples in facts.items()}
    for rule in rules:
        known.setdefault(rule.head.predicate, set())
    for level in sorted(set(strata.values())):
        own = [rule for rule in rules if strata[rule.head.predicate] == level]
        changed = True
        while changed:
            changed = False
            for rule in own:
                target = known[rule.head.predicate]
                derived = {_ground(rule.head, substitution) for substitution in _solve(rule.body, known)}
                if not derived <= target:
                    target |= derived
                    changed = True
    return {rule.head.predicate: known[rule.head.predicate] for rule in rules}


def stratify(rules: Sequence[Rule]) -> dict[str, int] | None:
    """A level for each defined predicate, above everything it negates; None when there is none."""
    levels = {rule.head.predicate: 0 for rule in rules}
    for _ in range(len(levels) + 1):
        changed = False
        for rule in rules:
            for literal in rule.body:
                below = levels.get(literal.atom.predicate)
                if below is not None and levels[rule.head.predicate] < below + literal.negated:
                    levels[rule.head.predicate] = below + literal.negated
                    changed = True
        if not changed:
            return levels
    return None  # a level higher than there are predicates: some cycle negates


# ---- one rule --------------------------------------------------------------------------------------------------------


def _solve(body: Sequence[Literal], known: Facts) -> list[Substitution]:
    """Every substitution that makes a body true."""
    found: list[Substitution] = [{}]
    waiting = list(body)
    while relations := [literal for literal in waiting if _is_relation(literal)]:
        # Any order gives the same answer; with the fewest unbound variables first, long bodies stay payable.
        bound = found[0] if found else {}
        literal = min(relations, key=lambda literal: len(set(literal.atom.variables()) - bound.keys()))
        found = _distinct(
            extended
            for substitution in found
            for values in known.get(literal.atom.predicate, ())
            if (extended := _match(literal.atom, values, substitution)) is not None
        )
        waiting.remove(literal)
    while functions := [literal for literal in waiting if _is_open_function(literal)]:
        # A safe body always has a function whose inputs are bound. Without substitutions nothing is left to bind.
        if not found:
            return []
        literal = next(literal for literal in functions if _inputs_bound(literal.atom, found[0]))
        found = [extended for one in found if (extended := _apply_function(literal.atom, one)) is not None]
        waiting.remove(literal)
    return [substitution for substitution in found if all(_holds(literal, substitution, known) for literal in waiting)]


def _is_relation(literal: Literal) -> bool:
    return not literal.negated and not is_builtin(literal.atom.predicate)


def _distinct(substitutions: Iterable[Substitution]) -> list[Substitution]:
    kept: dict[tuple[tuple[str, str], ...], Substitution] = {}
    for substitution in substitutions:
        kept[tuple(sorted(substitution.items()))] = substitution
        if len(kept) > _SUBSTITUTIONS_MAX:
            raise TooMuch
    return list(kept.values())


def _match(atom: Atom, values: tuple[str, ...], substitution: Substitution) -> Substitution | None:
    extended = dict(substitution)
    for term, value in zip(atom.terms, values, strict=True):
        match term:
            case Wildcard():
                continue
            case Constant(expected):
                if value != expected:
                    return None
            case Variable(name):
                if extended.setdefault(name, value) != value:
                    return None
    return extended


def _ground(atom: Atom, substitution: Substitution) -> tuple[str, ...]:
    return tuple(_value(term, substitution) for term in atom.terms)


def _value(term: object, substitution: Substitution) -> str:
    match term:
        case Constant(value):
            return value
        case Variable(name):
            return substitution[name]
        case _:
            raise AssertionError("a wildcard has no value")


def _holds(literal: Literal, substitution: Substitution, known: Facts) -> bool:
    """A literal whose variables are all bound."""
    atom = literal.atom
    if is_builtin(atom.predicate):
        truth = _builtin_holds(atom, substitution)
    else:
        truth = any(_match(atom, values, substitution) is not None for values in known.get(atom.predicate, ()))
    return truth != literal.negated


# ---- built-ins -------------------------------------------------------------------------------------------------------


def is_builtin(predicate: str) -> bool:
    return predicate in TESTS or predicate in FUNCTIONS


def _is_open_function(literal: Literal) -> bool:
    return literal.atom.predicate in FUNCTIONS and not literal.negated


def _inputs_bound(atom: Atom, substitution: Substitution) -> bool:
    return all(term.name in substitution for term in atom.terms[:-1] if isinstance(term, Variable))


def _apply_function(atom: Atom, substitution: Substitution) -> Substitution | None:
    *inputs, result = atom.terms
    value = function_value(atom.predicate, *(_value(term, substitution) for term in inputs))
    if value is None:
        return None
    if isinstance(result, Variable) and result.name not in substitution:
        return {**substitution, result.name: value}
    return substitution if isinstance(result, Wildcard) or _value(result, substitution) == value else None


def _builtin_holds(atom: Atom, substitution: Substitution) -> bool:
    if atom.predicate in FUNCTIONS:
        return _apply_function(atom, substitution) is not None
    return is_true(atom.predicate, *(_value(term, substitution) for term in atom.terms))


def is_true(name: str, left: str, right: str) -> bool:
    """Whether a test is true of two texts."""
    match name:
        case "Eq":
            return left == right
        case "Ne":
            return left != right
        case "Lt":
            return left.encode() < right.encode()
        case "Le":
            return left.encode() <= right.encode()
        case "Gt":
            return left.encode() > right.encode()
        case "Ge":
            return left.encode() >= right.encode()
        case "StartsWith":
            return left[: len(right)] == right
        case "EndsWith":
            return right == "" or left[-len(right) :] == right
        case "Contains":
            return any(left[at : at + len(right)] == right for at in range(len(left) + 1))
        case "NumLt" | "NumLe":
            first, second = _decimal(left), _decimal(right)
            if first is None or second is None:
                return False
            return first < second if name == "NumLt" else first <= second
        case _:
            raise AssertionError(name)


def function_value(name: str, time: str, nanoseconds: str) -> str | None:
    """The result of a TAI sum, or None where there is none."""
    amount = _decimal(nanoseconds)
    if amount is None or not _is_tai(time):
        return None
    total = int(time[:10]) * 10**9 + int(time[11:]) + (amount if name == "TaiAdd" else -amount)
    text = str(total).zfill(19)
    return f"{text[:-9]}:{text[-9:]}" if total >= 0 and len(text) == 19 else None


def _decimal(text: str) -> int | None:
    digits = text != "" and all(character in "0123456789" for character in text)
    return int(text) if digits and (text == "0" or text[0] != "0") else None


def _is_tai(text: str) -> bool:
    shape = "".join("9" if character in "0123456789" else character for character in text)
    return shape == "9999999999:999999999"
