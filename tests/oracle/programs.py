"""Random programs with facts for them, from a seed: small, safe, mostly stratified, and nasty in every way there is.

Each case draws from: recursion and mutual recursion over several levels, negation with wildcards and constants, every
built-in as test, function, chain of functions and negated, repeated variables, constants anywhere, facts in the
program, predicates without arguments, duplicate literals and rules, empty relations, values full of quotes, line
breaks and code, and now and then a body long enough that its loops no longer fit into one function.

The only way to make new values is a TAI sum, and a rule with one never reads its own level, so every case is finite.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Final

from bobbin.facts.text import quote
from tests.oracle.naive import FUNCTIONS, TESTS, Facts

BASE: Final[Mapping[str, int]] = {
    "Flag": 0,
    "Node": 1,
    "When": 1,
    "Amount": 1,
    "Tick": 1,
    "Stamp": 2,
    "Edge": 2,
    "Next": 2,
    "Triple": 3,
    "Field": 4,
    "AdvertisedField": 5,
    "Wide": 7,
    "Empty": 2,
}
"""Predicates that facts supply. ``Next`` is a function, so that long chains of it stay small; ``Empty`` is empty;
``Tick`` holds one time, and ``Stamp`` gives things times."""

_TIMES: Final = (
    "1640995200:000000000",
    "1640995200:000000001",
    "1640995199:999999999",
    "0000000000:000000000",
    "9999999999:999999999",
    "1640995200:00000000",
    "1640995201:000000000",
    "1640995205:000000000",
    "1640995210:000000000",
)
_AMOUNTS: Final = (
    "0",
    "1",
    "2",
    "10",
    "9",
    "007",
    "1000000000",
    "5000000000",
    "18446744073709551615",
    "99999999999999999999",
    "-1",
    "1.5",
)
_TEXTS: Final = ("a", "b", "ab", "abc", "A", "links/", "links/1", "", " ", "é", "zé", "𝄞", "￿", "u", "P", "Q")
_NASTY: Final = (
    "'",
    "\\",
    "\\'",
    "\n",
    "\r\n",
    "\t",
    '"',
    "'''",
    "{0}",
    "%s",
    "# not a comment",
    "c0",
    "v1",
    "texts[0]",
    "\n    raise SystemExit\n",
    "']); __import__('os').abort() #",
    "_",
    ").",
    ":-",
)
_LEVELS: Final = 3
_LONG_CHAIN: Final = 30


@dataclass(frozen=True, slots=True)
class Case:
    """A program, and facts for its base predicates."""

    seed: int
    text: str
    facts: Facts
    values: tuple[str, ...]
    """What facts and constants are made of, but for times and amounts."""
    features: frozenset[str] = field(default=frozenset(), compare=False)
    """What the program makes use of, for counting."""

    @property
    def has_long_body(self) -> bool:
        return "long body" in self.features

    def with_text(self, text: str) -> "Case":
        """The same facts under another program."""
        return replace(self, text=text)


def make_case(seed: int) -> Case:
    """The case of a seed, the same on every machine."""
    return _Maker(seed).case()


def make_fact(draw: Random, predicate: str, values: Sequence[str]) -> tuple[str, ...]:
    """A random fact of a base predicate, most of it from these values."""
    return tuple(draw.choice(_pool(predicate, place, values)) for place in range(BASE[predicate]))


def _pool(predicate: str, place: int, values: Sequence[str]) -> Sequence[str]:
    match predicate, place:
        case ("When" | "Tick", 0) | ("Stamp", 1):
            return _TIMES
        case "Amount", 0:
            return _AMOUNTS
        case ("Field", 1) | ("AdvertisedField", 2):
            return values[:3]
        case _:
            return values


class _Maker:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = Random(seed)
        draw = self._random
        self._values: list[str] = [
            *draw.sample(_TEXTS, draw.randint(1, 3)),
            *draw.sample(_NASTY, draw.randint(0, 2)),
            *draw.sample(_AMOUNTS, draw.randint(1, 2)),
            *draw.sample(_TIMES, 1),
        ]
        self._derived: dict[str, tuple[int, int]] = {}
        """Arity and level of each predicate that rules define."""
        for number in range(draw.randint(1, 7)):
            name = draw.choice(("P", "Select", "V", "Not", "N", "C", "Rule", "Lambda_")) + str(number)
            self._derived[name] = draw.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 4)), draw.randrange(_LEVELS)
        self._features: set[str] = set()

    def case(self) -> Case:
        draw = self._random
        rules = [self._rule(name) for name in self._derived for _ in range(draw.choice((1, 1, 2, 2, 3, 4)))]
        rules += [self._seed_rule(name) for name in self._derived if draw.random() < 0.6]
        if draw.random() < 0.2:
            rules.append(draw.choice(rules))
            self._features.add("duplicate rule")
        if draw.random() < 0.1:
            rules.append(self._long_rule())
        if draw.random() < 0.4:
            rules += [self._clock_rule(first=number == 0) for number in range(draw.choice((1, 1, 2, 3)))]
        draw.shuffle(rules)
        return Case(self._seed, "\n".join(rules) + "\n", self._facts(), tuple(self._values), frozenset(self._features))

    def _facts(self) -> Facts:
        draw = self._random
        facts: Facts = {"Empty": set(), "Next": {(value, draw.choice(self._values)) for value in self._values}}
        for name in BASE:
            if name not in facts:
                count = {"Flag": draw.randrange(2), "Tick": draw.choice((1, 1, 1, 0, 2))}.get(name)
                count = draw.choice((0, 2, 5, 10, 20)) if count is None else count
                facts[name] = {make_fact(draw, name, self._values) for _ in range(count)}
        return facts

    # ---- rules ----------------------------------------------------------------------------------------------------

    def _rule(self, head: str) -> str:
        draw = self._random
        arity, level = self._derived[head]
        if draw.random() < 0.12:
            self._features.add("fact in the program")
            return self._spell(head, [self._constant() for _ in range(arity)], ())
        calls = draw.random() < 0.25
        literals: list[str] = []
        bound: list[str] = []
        count = draw.choice((0, 1, 1, 2, 2, 2, 3, 4)) or (1 if arity and draw.random() < 0.8 else 0)
        literals += [self._positive(head, level, bound, recursive=not calls) for _ in range(count)]
        if calls:
            literals += self._functions(bound)
        literals += [self._test(bound) for _ in range(draw.choice((0, 0, 0, 0, 1, 2)))]
        literals += [self._negation(head, level, bound) for _ in range(draw.choice((0, 0, 0, 1, 1, 2)))]
        if literals and draw.random() < 0.1:
            literals.append(draw.choice(literals))
            self._features.add("duplicate literal")
        draw.shuffle(literals)
        terms = [draw.choice(bound) if bound and draw.random() < 0.85 else self._constant() for _ in range(arity)]
        if arity == 0:
            self._features.add("head without arguments")
        return self._spell(head, terms, literals)

    def _seed_rule(self, head: str) -> str:
        """A rule that almost surely derives something, so that those above it have something to work on."""
        draw = self._random
        terms = [draw.choice("XYZ") for _ in range(self._derived[head][0])]
        return self._spell(head, terms, ["Next(X,Y)", draw.choice(("Next(Y,Z)", "Next(Z,_)", "Edge(Z,Y)"))])

    def _clock_rule(self, *, first: bool) -> str:
        """A rule that compares times with the clock, directly or through sums."""
        draw = self._random
        self._features.add("clock")
        timed = draw.choice(("Stamp(P,T)", "Stamp(P,T)", "When(T)", *([] if first else ["Due(P,T)"])))
        bound = ["T"] if timed == "When(T)" else ["P"]
        literals = [timed, "Tick(Now)"]
        times = ["Now"]
        for number in range(draw.choice((0, 0, 1, 2))):
            literals.append(f"{draw.choice(FUNCTIONS)}({draw.choice(times)},{quote(draw.choice(_AMOUNTS))},R{number})")
            times.append(f"R{number}")
        for _ in range(draw.choice((1, 1, 2))):
            sides = ["T", draw.choice(times)]
            draw.shuffle(sides)
            negated = "not " if draw.random() < 0.2 else ""
            literals.append(f"{negated}{draw.choice(('Lt', 'Le', 'Gt', 'Ge'))}({','.join(sides)})")
        if draw.random() < 0.3:
            literals.append(draw.choice(("Node(P)", "not Node(T)", "Stamp(_,Now)", "Eq(T,Now)", "Edge(T,P)")))
            bound = ["T"]
        draw.shuffle(literals)
        head = "Due" if timed != "Due(P,T)" else "Late"
        return self._spell(head, [draw.choice([*bound, "T"]), draw.choice(["T", "T", "T", "Now"])], literals)

    def _long_rule(self) -> str:
        """A body of up to 32 literals whose loops nest deeper than Python allows in one function."""
        draw = self._random
        self._features.add("long body")
        length = draw.randint(16, _LONG_CHAIN)
        names = [f"X{number}" for number in range(length + 1)]
        literals = [f"Next({one},{other})" for one, other in pairwise(names)]
        bound = list(names)
        if draw.random() < 0.5:
            literals.append(self._test(bound))
        if draw.random() < 0.5:
            literals.append(f"not Edge({draw.choice(bound)},{draw.choice([*bound, '_'])})")
        draw.shuffle(literals)
        return self._spell("Long", [draw.choice(bound) for _ in range(2)], literals)

    def _positive(self, head: str, level: int, bound: list[str], *, recursive: bool) -> str:
        draw = self._random
        below = [name for name, (_, own) in self._derived.items() if own < level or (recursive and own == level)]
        if below and draw.random() < 0.45:
            name = draw.choice(below)
            arity, own = self._derived[name]
            if own == level:
                self._features.add("recursion" if name == head else "mutual recursion")
        else:
            name = draw.choice((*BASE, "Node", "Edge", "Edge", "Next", "Triple", "Field"))
            arity = BASE[name]
        terms = [self._term(bound, name, place) for place in range(arity)]
        names = [term for term in terms if term[0].isupper()]
        if len(set(names)) < len(names):
            self._features.add("repeated variable")
        bound += [name for name in names if name not in bound]
        return f"{name}({','.join(terms)})"

    def _term(self, bound: Sequence[str], name: str, place: int) -> str:
        draw = self._random
        kind = draw.random()
        if (name, place) in {("Field", 1), ("AdvertisedField", 2)} and kind < 0.6:
            self._features.add("constant field name")
            return quote(draw.choice(self._values[:3]))
        if kind < 0.15:
            return "_"
        if kind < 0.2:
            return self._constant()
        if bound and kind < 0.5:
            return draw.choice(bound)
        return draw.choice("XYZWABT") + draw.choice(("", "1"))

    def _functions(self, bound: list[str]) -> list[str]:
        draw = self._random
        literals = []
        if draw.random() < 0.7:
            literals.append("When(Start)")
            bound.append("Start")
        made = ["Start"] if "Start" in bound else []
        for number in range(draw.choice((1, 1, 2, 3))):
            time = draw.choice(made) if made and draw.random() < 0.7 else self._bound_or_constant(bound, _TIMES)
            amount = self._bound_or_constant([] if draw.random() < 0.6 else bound, _AMOUNTS)
            output = draw.choice((f"R{number}", f"R{number}", "_", *bound[:1], quote(draw.choice(_TIMES))))
            if time.startswith("R"):
                self._features.add("chain of functions")
            literals.append(f"{draw.choice(FUNCTIONS)}({time},{amount},{output})")
            if output == f"R{number}":
                made.append(output)
                bound.append(output)
        self._features.add("function")
        return literals

    def _test(self, bound: Sequence[str]) -> str:
        draw = self._random
        self._features.add("test")
        negated = draw.random() < 0.25
        if draw.random() < 0.12:
            self._features.add("negated function")
            last = draw.choice(("_", self._bound_or_constant(bound, _TIMES)))
            first, second = self._bound_or_constant(bound, _TIMES), self._bound_or_constant(bound, _AMOUNTS)
            return f"not {draw.choice(FUNCTIONS)}({first},{second},{last})"
        pool = draw.choice((_TEXTS, _AMOUNTS, _TIMES, self._values))
        left, right = self._bound_or_constant(bound, pool), self._bound_or_constant(bound, pool)
        return f"{'not ' if negated else ''}{draw.choice(TESTS)}({left},{right})"

    def _negation(self, head: str, level: int, bound: Sequence[str]) -> str:
        draw = self._random
        self._features.add("negation")
        # One in twelve looks at its own level: most of these are fine, some are cycles that must be refused.
        reach = level + (draw.random() < 0.08)
        below = [name for name, (_, own) in self._derived.items() if own < reach and name != head]
        if below and draw.random() < 0.5:
            name = draw.choice(below)
            arity = self._derived[name][0]
        else:
            name = draw.choice(list(BASE))
            arity = BASE[name]
        terms = []
        for place in range(arity):
            kind = draw.random()
            if (name, place) in {("Field", 1), ("AdvertisedField", 2)} and kind < 0.7:
                terms.append(quote(draw.choice(self._values[:3])))
            elif kind < 0.25 or not bound:
                terms.append("_" if kind < 0.15 else self._constant())
                self._features.add("negation with wildcard" if terms[-1] == "_" else "negation with constant")
            else:
                terms.append(draw.choice(bound))
        return f"not {name}({','.join(terms)})"

    # ---- spelling -------------------------------------------------------------------------------------------------

    def _constant(self) -> str:
        return quote(self._random.choice(self._values))

    def _bound_or_constant(self, bound: Sequence[str], pool: Sequence[str]) -> str:
        if bound and self._random.random() < 0.75:
            return self._random.choice(bound)
        return quote(self._random.choice(pool))

    def _spell(self, head: str, terms: Sequence[str], literals: Sequence[str]) -> str:
        body = f" :- {', '.join(literals)}" if literals else ""
        return f"{head}({','.join(terms)}){body}."
