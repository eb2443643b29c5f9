"""Do all executors on Spark mean what the language says? Hundreds of random programs against three other evaluators.

Each program runs through every executor that can do it, through the engine in this process, through the naive evaluator
of the tests and through clingo. Then random pairs of policies are decided over wide tables, as a node decides them. The
programs, and what is compared, are those of ``tests/backends``; `make test` runs the first few.
"""

from collections import Counter
from itertools import islice
from pathlib import Path

from bobbin.pipeline.spark import Profile, session
from measurement.result import Ratio, Result, Row
from tests.backends.cases import any_cases, flat_cases, keyed_cases
from tests.backends.executors import check
from tests.backends.lowering import check_lowering
from tests.oracle.naive import TooMuch

_PROGRAMS_MIN = 300
_ANY = 130
_KEYED = 130
_FLAT = 70
_DECISIONS = 40
_EACH_MIN = 50
"""Programs that each executor must have done."""
_PLANNED_EVERY = 5


def run(out: Path) -> Result:  # noqa: ARG001 -- all of it is in the report
    """Run every case. A difference raises, with the seed that shows it."""
    applied: Counter[str] = Counter()
    compared = tuples = 0
    with session(master="local[2]", profile=Profile.TEST, memory="2g", application="evidence") as spark:
        for cases, wanted in ((any_cases(), _ANY), (keyed_cases(), _KEYED), (flat_cases(), _FLAT)):
            for number, (case, lacegram) in enumerate(islice(cases, wanted)):
                try:
                    applied += check(spark, case, lacegram, planned=number % _PLANNED_EVERY == 0)
                except TooMuch:
                    continue
                compared += 1
                tuples += sum(len(facts) for facts in case.facts.values())
        decided = sum(check_lowering(spark, seed) for seed in range(_DECISIONS))
    rows = [
        Row(name="programs compared", value=compared, note=f"{_ANY} any, {_KEYED} keyed, {_FLAT} without recursion"),
        Row(name="facts in all programs", value=tuples),
        Row(name="pairs of policies decided", value=_DECISIONS, note="over wide tables, against the node's decision"),
        Row(name="records sent or requested by those decisions", value=decided),
        Row(name="programs run as the planner has it", value=applied["planner"]),
    ]
    ratios = [
        Ratio(
            name="programs in which all executors, the engine, a naive evaluator and clingo agree",
            value=compared,
            bar=_PROGRAMS_MIN,
            note="all that were compared; the first difference would have ended the run",
        ),
        *(
            Ratio(name=f"programs that {name} has executed", value=applied[name], bar=_EACH_MIN)
            for name in ("frames", "collected", "partitioned", "loop")
        ),
    ]
    return Result(
        question="Do four executors on Spark, the engine in process and clingo give random programs the same answer?",
        rows=rows,
        ratios=ratios,
    )
