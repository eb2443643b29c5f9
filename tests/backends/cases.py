"""Programs for comparing back ends: three kinds, so that each executor has enough to do.

*Any*: the random programs of the engine's own tests, as long as they are short. *Flat*: those among them without
recursion, which data frames do alone. *Keyed*: recursion in which every literal of a stratum shares an argument, in
random places, with inputs that have it and inputs that lack it, negation, built-ins, mutual and non-linear recursion.
All facts are those of the random programs, with every nasty value.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from random import Random

from bobbin.datalog.compile import Lacegram
from tests.oracle.differential import compile_case
from tests.oracle.programs import Case, make_case

_RULES_MAX = 12
_STRATA_MAX = 5


def any_cases(first: int = 0) -> Iterator[tuple[Case, Lacegram]]:
    """Short random programs with recursion."""
    return (found for found in _short(first) if any(stratum.recursive for stratum in found[1].plan.strata))


def flat_cases(first: int = 0) -> Iterator[tuple[Case, Lacegram]]:
    """Short random programs without recursion."""
    return (found for found in _short(first) if not any(stratum.recursive for stratum in found[1].plan.strata))


def keyed_cases(first: int = 0) -> Iterator[tuple[Case, Lacegram]]:
    """Programs whose recursion falls apart by a key."""
    for seed in count(first):
        case = keyed_case(seed)
        lacegram = compile_case(case)
        assert lacegram is not None, f"seed {seed}: a keyed program negates only what is finished"
        yield case, lacegram


def keyed_case(seed: int) -> Case:
    """One of them."""
    return replace(make_case(seed), text="\n".join(_Keyed(Random(seed)).rules()) + "\n")


def _short(first: int) -> Iterator[tuple[Case, Lacegram]]:
    for seed in count(first):
        case = make_case(seed)
        if case.has_long_body or case.text.count("\n") > _RULES_MAX:
            continue
        lacegram = compile_case(case)
        if lacegram is not None and len(lacegram.plan.strata) <= _STRATA_MAX:
            yield case, lacegram


class _Keyed:
    """Rules for one or two recursive predicates; the key of each stands at a place of its own."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._places = {"Reach": draw.randrange(3), "Near": draw.randrange(2)}

    def rules(self) -> Iterator[str]:
        draw = self._draw
        mutual = draw.random() < 0.4
        start = draw.choice(("Triple(G,X,Y)", "Edge(G,X), Next(X,Y)"))
        yield f"{self._reach('G', 'X', 'Y')} :- {start}{self._guard()}."
        for _ in range(draw.choice((1, 1, 2))):
            yield f"{self._reach('G', 'X', 'Z')} :- {', '.join(self._step(mutual=mutual))}{self._guard()}."
        if mutual:
            guard = draw.choice(("", ", Node(X)", ", Ne(X,G)"))
            yield f"{self._near('G', 'X')} :- {self._reach('G', 'X', '_')}{guard}."
            yield f"{self._near('G', 'Z')} :- {self._near('G', 'X')}, Next(X,Z)."
        if draw.random() < 0.7:
            absent = draw.choice(("Node(X)", "Edge(X,Y)", "Empty(X,_)"))
            yield f"Far(X,Y) :- {self._reach('_', 'X', 'Y')}, not {absent}."

    def _step(self, *, mutual: bool) -> list[str]:
        """One round of the recursion, from X over Y to Z."""
        draw = self._draw
        first = self._reach("G", "X", "Y")
        over = [self._reach("G", "Y", "Z"), "Triple(G,Y,Z)", "Triple(G,Y,Z)", "Edge(Y,Z)", "Next(Y,Z)"]
        if mutual:
            over.append(f"{self._near('G', 'Y')}, Next(Y,Z)")
        literals = [first, draw.choice(over)]
        draw.shuffle(literals)
        return literals

    def _guard(self) -> str:
        return self._draw.choice(
            (
                "",
                "",
                "",
                ", Ne(G,X)",
                ", not Edge(G,X)",
                ", Node(X)",
                ", not Node(G)",
                ", not Flag()",
                ", Le(X,G)",
                ", Stamp(G,_)",
            )
        )

    def _reach(self, key: str, one: str, other: str) -> str:
        terms = [one, other]
        terms.insert(self._places["Reach"], key)
        return f"Reach({','.join(terms)})"

    def _near(self, key: str, one: str) -> str:
        terms = [one]
        terms.insert(self._places["Near"], key)
        return f"Near({','.join(terms)})"
