"""One case through every executor on Spark: each must give what the in-process engine and clingo give."""

from collections import Counter
from typing import TYPE_CHECKING

from bobbin.datalog.local.evaluate import Executable
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.evaluate import Answer, evaluate
from bobbin.pipeline.rules.limits import CannotExecute
from bobbin.pipeline.rules.planner import Executor
from bobbin.pipeline.rules.relations import listed, tagged
from tests.oracle.differential import database, expected, read_out
from tests.oracle.naive import Facts
from tests.oracle.programs import BASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bobbin.datalog.compile import Lacegram
    from tests.oracle.programs import Case


def check(session: "SparkSession", case: "Case", lacegram: "Lacegram", *, planned: bool = False) -> Counter[str]:
    """Compare, and count the executors that ran a stratum of the program. ``planned``: also as the planner has it."""
    heads = lacegram.program.heads()
    wanted = expected(case, lacegram)
    local = read_out(Executable(lacegram.plan).evaluate(database(case.facts)), heads)
    assert local == wanted, f"seed {case.seed}: the in-process engine differs"
    known = Known(
        session=session, relations={name: listed(session, BASE[name], facts) for name, facts in case.facts.items()}
    )
    recursive = any(stratum.recursive for stratum in lacegram.plan.strata)
    forced = [executor for executor in Executor if recursive or executor is Executor.FRAMES]
    applied: Counter[str] = Counter()
    for executor in [*forced, *([None] if planned else [])]:
        try:
            answer = evaluate(lacegram.plan, known, wanted=heads, executor=executor)
        except CannotExecute:
            assert executor in (Executor.FRAMES, Executor.PARTITIONED), f"seed {case.seed}: {executor} refuses"
            continue
        found = fetch(answer)
        assert found == wanted, f"seed {case.seed}, {executor}: {_first_difference(found, wanted)}"
        applied["planner" if executor is None else executor.value] += 1
    return applied


def fetch(answer: Answer) -> Facts:
    """Every row of an answer. A row that comes twice is a fault."""
    names = sorted(answer.relations)
    relations = [answer.relations[name] for name in names]
    width = max((relation.arity for relation in relations), default=0)
    frames = [(number, relation.frame, relation.arity) for number, relation in enumerate(relations)]
    table = tagged(frames, width).toArrow()
    found: dict[str, list[tuple[str, ...]]] = {name: [] for name in names}
    for number, *values in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found[names[number]].append(tuple(values[: relations[number].arity]))
    for name, rows in found.items():
        assert len(rows) == len(set(rows)), f"{name} has a row twice"
    return {name: set(rows) for name, rows in found.items()}


def _first_difference(found: Facts, wanted: Facts) -> str:
    name = next(name for name in sorted(wanted) if found[name] != wanted[name])
    missing, extra = wanted[name] - found[name], found[name] - wanted[name]
    return f"{name} lacks {sorted(missing)[:3]} and has {sorted(extra)[:3]} too many"
