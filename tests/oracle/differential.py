"""One case through the engine in each of its ways, and through both oracles: all answers must be one.

The ways of the engine: compiled rules on tables, the same a second time with warm indexes, the columnar evaluator, and
compiled rules on relations that are held as columns.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Final
from unittest import mock

from bobbin.datalog.compile import Lacegram
from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.diagnostics import Fault, InvalidProgram
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Changes, Executable, State
from bobbin.datalog.local.table import Row
from bobbin.datalog.parse import parse
from bobbin.datalog.vocabulary import Vocabulary
from bobbin.facts.relations import Pattern, Tuple, agrees
from tests.oracle import clingo_solver, naive
from tests.oracle.naive import Facts
from tests.oracle.programs import BASE, Case, make_fact

VOCABULARY: Final = Vocabulary(base=BASE)
_NEVER: Final = 1 << 60


class MemorySource:
    """Facts in a dictionary, as a source that enumerates and answers patterns."""

    def __init__(self, facts: Mapping[str, set[Tuple]]) -> None:
        self.facts = facts

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        return iter(self.facts.get(predicate, ()))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        return (values for values in self.facts.get(predicate, ()) if agrees(values, pattern))


def database(facts: Mapping[str, set[Tuple]], arities: Mapping[str, int] = BASE) -> Database:
    """A database over facts in memory."""
    source = MemorySource(facts)
    return Database(dict.fromkeys(arities, source), arities)


def compile_case(case: Case) -> Lacegram | None:
    """The program of a case; None where both the compiler and the oracle say that it negates through recursion."""
    try:
        return compile_program(case.text, VOCABULARY)
    except InvalidProgram as problem:
        refused = problem
    assert {found.fault for found in refused.diagnostics} == {Fault.UNSTRATIFIED}, f"seed {case.seed}: {refused}"
    assert naive.stratify(parse(case.text).rules) is None, f"seed {case.seed}: refused, but stratified"
    return None


def expected(case: Case, lacegram: Lacegram) -> Facts:
    """The answer of both oracles."""
    rules = lacegram.program.rules
    assert naive.stratify(rules) is not None, f"seed {case.seed}: accepted, but not stratified"
    answer = naive.evaluate(rules, case.facts)
    assert clingo_solver.evaluate(rules, case.facts) == answer, f"seed {case.seed}: the oracles disagree"
    return answer


def answers(case: Case, lacegram: Lacegram) -> dict[str, Facts]:
    """The engine's answer, per way of getting it."""
    predicates = lacegram.program.heads()
    compiled = Executable(lacegram.plan, columns_min=_NEVER)
    facts = database(case.facts)
    found = {
        "compiled": read_out(compiled.evaluate(facts), predicates),
        "compiled, warm": read_out(compiled.evaluate(facts), predicates),
        "columnar": read_out(Executable(lacegram.plan, columns_min=0).evaluate(database(case.facts)), predicates),
    }
    with columns_everywhere():
        found["compiled on columns"] = read_out(compiled.evaluate(database(case.facts)), predicates)
    return found


def read_out(state: State, predicates: frozenset[str]) -> Facts:
    """Everything that a state derived."""
    return {name: set(state.tuples(name)) for name in predicates}


@contextmanager
def columns_everywhere() -> Iterator[None]:
    """Base relations of any size are held as columns while this lasts."""
    with mock.patch("bobbin.datalog.local.relation.COLUMNS_MIN", 1):
        yield


def check_case(case: Case) -> Lacegram | None:
    """Compare every way with both oracles. The program, or None where it was rightly refused."""
    lacegram = compile_case(case)
    if lacegram is not None:
        wanted = expected(case, lacegram)
        for way, answer in answers(case, lacegram).items():
            assert answer == wanted, f"seed {case.seed}, {way}: {_first_difference(answer, wanted)}"
    return lacegram


def _first_difference(answer: Facts, wanted: Facts) -> str:
    for name in sorted(wanted):
        missing, extra = wanted[name] - answer[name], answer[name] - wanted[name]
        if missing or extra:
            return f"{name} lacks {sorted(missing)[:3]} and has {sorted(extra)[:3]} too many"
    return "nothing"


def check_incremental(case: Case, lacegram: Lacegram, *, rounds: int) -> int:
    """Change the facts at random, again and again, and carry each change forward: as if evaluated anew.

    Returns how many changes were compared: now and then they make a program too much for the slow evaluator.
    """
    draw = Random(case.seed)
    facts = {name: set(tuples) for name, tuples in case.facts.items()}
    predicates = lacegram.program.heads()
    executable = Executable(lacegram.plan, columns_min=draw.choice((0, 30, _NEVER)))
    held = database(facts)
    state = executable.evaluate(held)
    for number in range(rounds):
        before = read_out(state, predicates)
        reported = executable.advance(state, _change(draw, case, lacegram, facts, held))
        try:
            wanted = naive.evaluate(lacegram.program.rules, facts)
        except naive.TooMuch:
            return number
        answer = read_out(state, predicates)
        place = f"seed {case.seed}, change {number}"
        assert answer == wanted, f"{place}: {_first_difference(answer, wanted)}"
        for name in predicates:
            added, removed = (_decoded(held, side, name) for side in (reported.added, reported.removed))
            assert added == wanted[name] - before[name], f"{place}: what {name} gained is reported wrongly"
            assert removed == before[name] - wanted[name], f"{place}: what {name} lost is reported wrongly"
    return rounds


def _change(draw: Random, case: Case, lacegram: Lacegram, facts: Facts, held: Database) -> Changes:
    """Take some facts out and put others in, in the source and in the database. Mostly such as the program reads."""
    read = {literal.atom.predicate for rule in lacegram.program.rules for literal in rule.body} & facts.keys()
    added: Facts = {}
    removed: Facts = {}
    if facts["Tick"] and draw.random() < 0.5:
        # Mostly the clock moves as clocks do: one time goes, another comes.
        removed["Tick"], added["Tick"] = {min(facts["Tick"])}, {make_fact(draw, "Tick", case.values)}
        facts["Tick"] = (facts["Tick"] - removed["Tick"]) | added["Tick"]
    # A long chain of Next is payable only while Next is a function.
    choices = [name for name in (*sorted(read), draw.choice(sorted(facts))) if name != "Next" or not case.has_long_body]
    for name in sorted(
        {draw.choice(choices) for _ in range(draw.choice((0, 1, 1, 2, 3)) if choices else 0)} - added.keys()
    ):
        gone = draw.sample(sorted(facts[name]), min(len(facts[name]), draw.choice((0, 0, 1, 3))))
        come = [make_fact(draw, name, case.values) for _ in range(draw.choice((0, 1, 3, 6)))]
        removed[name], added[name] = set(gone), set(come)
        facts[name] = (facts[name] - removed[name]) | added[name]
    return held.change(added=added, removed=removed)


def _decoded(held: Database, side: Mapping[Source, list[Row]], name: str) -> set[Tuple]:
    rows = side.get(Source(name), [])
    assert len(rows) == len(set(rows)), f"a change of {name} is reported twice"
    return {held.values.decode_row(row) for row in rows}
