"""Does the rule engine mean what the language says? Thousands of random programs against two other evaluators.

Each program runs through every way of the engine (compiled, warm, on columns, compiled on columns), through the naive
evaluator of the tests and through clingo. Then its facts change at random, and the state carried forward is compared
with the naive evaluator on the changed facts. The programs, and what is compared, are those of ``tests/oracle``;
`make test` runs the first few seeds.
"""

from collections import Counter
from pathlib import Path

from measurement.result import Ratio, Result, Row
from tests.oracle.differential import check_case, check_incremental
from tests.oracle.naive import TooMuch
from tests.oracle.programs import make_case

_PROGRAMS_MIN = 2_000
_SEEDS = 2_500
_CHANGES_EACH = 5


def run(out: Path) -> Result:  # noqa: ARG001 -- all of it is in the report
    """Run every seed. A difference raises, with the seed that shows it."""
    features: Counter[str] = Counter()
    compared = refused = changes = tuples = 0
    for seed in range(_SEEDS):
        case = make_case(seed)
        try:
            lacegram = check_case(case)
        except TooMuch:
            continue
        if lacegram is None:
            refused += 1
            continue
        compared += 1
        features.update(case.features)
        tuples += sum(len(facts) for facts in case.facts.values())
        changes += check_incremental(case, lacegram, rounds=_CHANGES_EACH)
    rows = [
        Row(name="programs compared", value=compared, note=f"seeds 0 to {_SEEDS - 1}"),
        Row(name="programs with negation through recursion", value=refused, note="refused by engine and oracle alike"),
        Row(name="facts in all programs", value=tuples),
        *(Row(name=f"programs with: {name}", value=count) for name, count in sorted(features.items())),
    ]
    ratios = [
        Ratio(
            name="programs in which engine, naive evaluator and clingo agree",
            value=compared,
            bar=_PROGRAMS_MIN,
            note="all that were compared; the first difference would have ended the run",
        ),
        Ratio(
            name="changes after which the state carried forward equals a new evaluation",
            value=changes,
            bar=_PROGRAMS_MIN,
        ),
    ]
    return Result(
        question="Do the engine, a naive evaluator and clingo give the same answer to random programs?",
        rows=rows,
        ratios=ratios,
    )
