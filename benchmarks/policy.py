"""Rule evaluation: the engine in this process, DuckDB and clingo; and what one more record costs."""

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import clingo
import duckdb

from benchmarks.policy_material import EVIDENCE, EVIDENCE_ARITIES, FIELDS, REACH, Evidence, edges
from benchmarks.rounds import setting
from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.limits import Limits
from bobbin.datalog.local.database import Database, Facts
from bobbin.datalog.local.evaluate import Executable, State
from bobbin.datalog.vocabulary import Vocabulary
from bobbin.facts.relations import Pattern, Tuple, agrees
from bobbin.policy.executables import PolicyCache
from bobbin.policy.modules import compile_selector
from bobbin.policy.operands import Operand, anonymous_origin
from bobbin.policy.plan import make_plan
from measurement.result import Ratio, Result, Row

QUESTION = (
    "How long does a full evaluation take with warm indexes, against DuckDB with resident tables and clingo with the "
    "facts as text; and what does one record more cost in a store of a million?"
)
LIMITS = Limits(derived_tuples_max=10_000_000, program_bytes_max=1 << 20)

DUCKDB_EVIDENCE = """
WITH RECURSIVE member(v) AS (
  SELECT v FROM root
  UNION
  SELECT n.value FROM member m
  JOIN field s ON s.name = 'Signed-By' AND s.value = m.v
  JOIN field a ON a.p = s.p AND a.name = 'App' AND a.value = 'member'
  JOIN field g ON g.p = s.p AND g.name = 'Group' AND g.value = 'u'
  JOIN have h ON h.p = s.p
  JOIN field n ON n.p = s.p AND n.name = 'Name'
  WHERE NOT EXISTS (SELECT 1 FROM revoked r WHERE r.v = n.value)
), selected(p) AS (
  SELECT h.p FROM have h
  JOIN field g ON g.p = h.p AND g.name = 'Group' AND g.value = 'u'
  JOIN field a ON a.p = h.p AND a.name = 'App' AND a.value = 'member'
  UNION
  SELECT h.p FROM have h
  JOIN field g ON g.p = h.p AND g.name = 'Group' AND g.value = 'u'
  JOIN field a ON a.p = h.p AND a.name = 'App' AND a.value = 'ding'
  JOIN field s ON s.p = h.p AND s.name = 'Signed-By'
  JOIN member m ON m.v = s.value
)
SELECT p FROM selected WHERE NOT EXISTS (SELECT 1 FROM blocked b WHERE b.p = selected.p)
"""
DUCKDB_REACH = """
WITH RECURSIVE reach(x, y) AS (
  SELECT x, y FROM edge UNION SELECT r.x, e.y FROM reach r JOIN edge e ON e.x = r.y
)
SELECT count(*) FROM reach
"""
CLINGO_EVIDENCE = """
member(V) :- root(V).
member(V) :- member(W), field(P,"Signed-By",W), field(P,"App","member"), field(P,"Group","u"), have(P),
    field(P,"Name",V), not revoked(V).
selected(P) :- have(P), field(P,"Group","u"), field(P,"App","member").
selected(P) :- have(P), field(P,"Group","u"), field(P,"App","ding"), field(P,"Signed-By",V), member(V).
offered(P) :- selected(P), not blocked(P).
#show offered/1.
"""


def run() -> Result:
    """Measure."""
    rounds = setting("POLICY_ROUNDS", 7)
    rows: list[Row] = []
    ratios: list[Ratio] = []
    for facts, bar in ((1_000, 0.1), (100_000, 1.0), (1_000_000, 1.25)):
        _compare_evidence(facts, bar, rounds, rows, ratios)
    _compare_reach(setting("POLICY_EDGES", 100_000), rows, ratios)
    _compare_set_up(rows, ratios)
    _one_more(setting("POLICY_RECORDS", 1_000_000), rows, ratios)
    return Result(question=QUESTION, rows=rows, ratios=ratios)


def _evidence() -> Executable:
    return Executable(compile_program(EVIDENCE, Vocabulary(base=EVIDENCE_ARITIES), LIMITS).plan, LIMITS)


def _compare_evidence(facts: int, bar: float, rounds: int, rows: list[Row], ratios: list[Ratio]) -> None:
    source = Evidence(facts // 6)
    database = Database(dict.fromkeys(EVIDENCE_ARITIES, source), EVIDENCE_ARITIES)
    executable = _evidence()
    expected = executable.evaluate(database).tuples("Offered")
    duck = _duckdb_evidence(source)
    if {row[0] for row in duck.execute(DUCKDB_EVIDENCE).fetchall()} != {row[0] for row in expected}:
        raise AssertionError("the two engines disagree")
    alternatives: dict[str, Callable[[], object]] = {
        "Bobbin": lambda: executable.evaluate(database),
        "DuckDB": lambda: duck.execute(DUCKDB_EVIDENCE).fetchall(),
    }
    if facts == 100_000:
        text = _clingo_facts(source)
        alternatives["clingo"] = lambda: _clingo_evidence(text, len(expected))
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for _ in range(rounds):
        for name, work in alternatives.items():
            times[name].append(_seconds(work))
    for name, seconds in times.items():
        note = f"{len(expected)} records offered; median of {rounds} rounds"
        milliseconds = round(statistics.median(seconds) * 1000, 3)
        rows.append(Row(name=f"evidence closure, {facts} facts, {name}", value=milliseconds, unit="ms", note=note))
    ratios.append(_ratio(f"evidence closure, {facts} facts: Bobbin / DuckDB", times, "DuckDB", bar))
    if "clingo" in times:
        ratios.append(_ratio(f"evidence closure, {facts} facts: Bobbin / clingo", times, "clingo", 0.2))


def _compare_reach(count: int, rows: list[Row], ratios: list[Ratio]) -> None:
    pairs = edges(count)
    program = compile_program(REACH, Vocabulary(base={"Edge": 2}), LIMITS)
    executable = Executable(program.plan, LIMITS)
    duck = duckdb.connect()
    duck.execute("CREATE TABLE edge(x VARCHAR, y VARCHAR)")
    duck.execute("INSERT INTO edge SELECT unnest(?), unnest(?)", [[x for x, _ in pairs], [y for _, y in pairs]])
    database = Database({"Edge": _Pairs(pairs)}, {"Edge": 2})
    derived = len(executable.evaluate(database).tuples("Reach"))
    (counted,) = duck.execute(DUCKDB_REACH).fetchall()[0]
    if counted != derived:
        raise AssertionError(f"the two engines disagree: {derived} against {counted}")
    times: dict[str, list[float]] = {"Bobbin": [], "DuckDB": []}
    for _ in range(3):
        times["Bobbin"].append(_seconds(lambda: executable.evaluate(database)))
        times["DuckDB"].append(_seconds(lambda: duck.execute(DUCKDB_REACH).fetchall()))
    for name, seconds in times.items():
        note = f"{derived} tuples"
        milliseconds = round(statistics.median(seconds) * 1000, 1)
        rows.append(Row(name=f"transitive closure, {count} edges, {name}", value=milliseconds, unit="ms", note=note))
    ratios.append(_ratio(f"transitive closure, {count} edges: Bobbin / DuckDB", times, "DuckDB", 3.0))


CLOSURE: Final = """
ActiveMember(V) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member'), Field(P,'Name',_,V).
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'member').
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'ding'),
    AdvertisedField(P,S,'Signed-By',_,V), ActiveMember(V).
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Signed-By',_,V), ActiveMember(V).
"""
"""The evidence closure of the protocol page, as a selector."""


def _compare_set_up(rows: list[Row], ratios: list[Ratio]) -> None:
    """Setting up an exchange: the plan is known, or the peer's module has to be compiled."""
    own = compile_selector(CLOSURE)
    first, second = (Operand(module=own.identifier, origin=anonymous_origin(index)) for index in (0, 1))
    plan = make_plan(first, second)

    def prepare(cache: PolicyCache) -> object:
        return cache.prepare(plan, 0, own=own, peer_module=own.canonical)

    warm = PolicyCache()
    prepare(warm)
    new = statistics.median(_seconds(lambda: prepare(PolicyCache())) for _ in range(50))
    known = statistics.median(_seconds(lambda: prepare(warm)) for _ in range(500))
    rows.append(Row(name="a new plan, made ready", value=round(new * 1000, 3), unit="ms"))
    rows.append(Row(name="a known plan, made ready", value=round(known * 1000, 4), unit="ms"))
    note = "the bytes of the peer's module are hashed either way"
    value = round(known / new, 4)
    ratios.append(Ratio(name="known plan / new plan", value=value, bar=0.02, comparison="<=", note=note))
    vocabulary = Vocabulary(base=EVIDENCE_ARITIES)
    database = Database(dict.fromkeys(EVIDENCE_ARITIES, Evidence(10)), EVIDENCE_ARITIES)

    def answer() -> Executable:
        executable = Executable(compile_program(EVIDENCE, vocabulary, LIMITS).plan, LIMITS)
        executable.evaluate(database)
        return executable

    ready = answer()
    first_answer = statistics.median(_seconds(answer) for _ in range(30))
    next_answer = statistics.median(_seconds(lambda: ready.evaluate(database)) for _ in range(200))
    name = "known program to its answer / new program to its first answer"
    ratios.append(Ratio(name=name, value=round(next_answer / first_answer, 4), note="10 records; evaluation included"))


def _one_more(records: int, rows: list[Row], ratios: list[Ratio]) -> None:
    """In a process of its own, so that its memory is its own."""
    command = [sys.executable, "-c", f"from benchmarks.policy import one_more; one_more({records})"]
    full, step, tick, megabytes, derived = (
        float(word) for word in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    )
    facts = records * (len(FIELDS) + 1)
    note = f"{facts} facts, {derived:.0f} records offered"
    rows.append(Row(name=f"full evaluation, {records} records", value=round(full * 1000, 1), unit="ms", note=note))
    rows.append(Row(name="one record more", value=round(step * 1000, 4), unit="ms", note="median of 200"))
    rows.append(Row(name="a tick of the clock", value=round(tick * 1000, 4), unit="ms", note="10 records cross it"))
    rows.append(Row(name="resident memory", value=round(megabytes), unit="MB", note="the whole process, at its peak"))
    name = f"one record more / full evaluation, {records} records"
    ratios.append(Ratio(name=name, value=round(step / full, 6), bar=0.001, comparison="<="))
    name = f"a tick / full evaluation, {records} records"
    ratios.append(Ratio(name=name, value=round(tick / full, 6)))
    ratios.append(Ratio(name="resident memory, MB", value=round(megabytes), bar=512, comparison="<="))


def one_more(records: int) -> None:
    """Print: seconds of a full evaluation, of one record more, of one tick; megabytes at the peak; records offered.

    Every fact is loaded, also those that the rules do not read.
    """
    source = Evidence(records, fields=FIELDS)
    arities = {**EVIDENCE_ARITIES, "TickTAI": 1}
    timed = EVIDENCE + "Due(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(Now), Le(T,Now), Field(P,'App',_,'member').\n"
    limits = Limits(derived_tuples_max=10_000_000)
    executable = Executable(compile_program(timed, Vocabulary(base=arities), limits).plan, limits)
    now = 1_640_995_200
    clock = _Pairs([(f"{now:010d}:000000000",)])
    database = Database({**dict.fromkeys(EVIDENCE_ARITIES, source), "TickTAI": clock}, arities)
    database.load(FIELDS, source.wide(FIELDS))
    state = executable.evaluate(database)
    full = min(_seconds(lambda: executable.evaluate(database)) for _ in range(3))
    more = Evidence(records + 1_000, fields=FIELDS)
    steps = [
        _seconds(partial(_follow, executable, state, added=more.facts(number)))
        for number in range(records, records + 200)
    ]
    ticks = []
    for turn in range(50):
        before, after = ([(f"{now + seconds:010d}:000000000",)] for seconds in (turn * 10, turn * 10 + 10))
        move = partial(_follow, executable, state, added={"TickTAI": after}, removed={"TickTAI": before})
        ticks.append(_seconds(move))
    status = Path("/proc/self/status").read_text()
    megabytes = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024
    offered = state.count("Offered")
    sys.stdout.write(f"{full} {statistics.median(steps)} {statistics.median(ticks)} {megabytes} {offered}\n")


def _follow(executable: Executable, state: State, *, added: Facts, removed: Facts = MappingProxyType({})) -> None:
    executable.advance(state, state.database.change(added=added, removed=removed))


class _Pairs:
    """A list of tuples as a fact source."""

    def __init__(self, rows: Sequence[Tuple]) -> None:
        self._rows = rows

    def enumerate(self, predicate: str) -> Iterator[Tuple]:  # noqa: ARG002 (it has one predicate)
        """Every tuple."""
        return iter(self._rows)

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:  # noqa: ARG002
        """The tuples that agree with the pattern."""
        return (row for row in self._rows if agrees(row, pattern))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _ratio(name: str, times: dict[str, list[float]], peer: str, bar: float) -> Ratio:
    values = sorted(mine / theirs for mine, theirs in zip(times["Bobbin"], times[peer], strict=True))
    note = f"{len(values)} rounds, {values[0]:.3g} to {values[-1]:.3g}"
    return Ratio(name=name, value=round(statistics.median(values), 4), bar=bar, comparison="<=", note=note)


def _duckdb_evidence(source: Evidence) -> duckdb.DuckDBPyConnection:
    duck = duckdb.connect()
    duck.execute("CREATE TABLE have(p VARCHAR); CREATE TABLE field(p VARCHAR, name VARCHAR, value VARCHAR)")
    duck.execute("CREATE TABLE root(v VARCHAR); CREATE TABLE revoked(v VARCHAR); CREATE TABLE blocked(p VARCHAR)")
    for name in ("root", "revoked", "blocked", "have"):
        values = [row[0] for row in source.enumerate(name.capitalize())]
        duck.execute(f"INSERT INTO {name} SELECT unnest(?)", [values])
    rows = list(source.enumerate("Field"))
    columns = [[row[place] for row in rows] for place in (0, 1, 3)]
    duck.execute("INSERT INTO field SELECT unnest(?), unnest(?), unnest(?)", columns)
    return duck


def _clingo_facts(source: Evidence) -> str:
    lines = [f'have("{row[0]}").' for row in source.enumerate("Have")]
    lines += [f'field("{p}","{name}","{value}").' for p, name, _, value in source.enumerate("Field")]
    for predicate in ("Root", "Revoked", "Blocked"):
        lines += [f'{predicate.lower()}("{row[0]}").' for row in source.enumerate(predicate)]
    return "\n".join(lines)


def _clingo_evidence(facts: str, expected: int) -> None:
    control = clingo.Control(["--warn=none"])
    control.add("base", [], CLINGO_EVIDENCE + facts)
    control.ground([("base", [])])
    shown: list[int] = []
    control.solve(on_model=lambda model: shown.append(len(model.symbols(shown=True))))
    if shown != [expected]:
        raise AssertionError(f"clingo finds {shown}, not {expected}")
