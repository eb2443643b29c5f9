"""One program, kept up to date."""

import numpy as np
import pytest

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.relation import relation_of
from bobbin.datalog.local.values import Values
from bobbin.facts import relations
from bobbin.facts.relations import FactSource
from bobbin.policy import running
from bobbin.policy.executables import Budgets, Part, PolicyLimitExceeded
from bobbin.policy.frozen import Pool
from bobbin.policy.running import Running, computes, fields_read, slice_of
from tests.policy_worlds import plex, policy, record, stored

TEXT = (
    "SelectHave(P) :- Have(P), Field(P,'App',_,'a'), not Hidden(P).\n"
    "Hidden(P) :- Field(P,'Level',_,'closed').\n"
    "Any() :- Have(_).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), Any().\n"
)
HASHES = [plex(number) for number in range(4)]


def _sources(*records: list[tuple[str, tuple[str, ...]]]) -> dict[str, FactSource]:
    return dict.fromkeys(relations.ARITY, stored(*records))


def _running(text: str = TEXT, budgets: Budgets | None = None) -> Running:
    return Running(policy(text, budgets=budgets), Part.OWN_SELECTOR)


def test_it_reads_what_its_rules_read_and_nothing_else() -> None:
    program = _running()
    assert set(program.reads(relations.ARITY)) == {Source("Have"), Source("Field", "App"), Source("Field", "Level")}
    assert program.reads(("Advertised",)) == [Source("Advertised")]
    assert slice_of(Source("Field", "App"), 4) == (None, "App", None, None)
    assert slice_of(Source("Have"), 1) == (None,)


def test_fields_that_any_of_several_programs_reads() -> None:
    every = _running("SelectHave(P) :- Field(P,N,_,'x'), Have(P).\n")
    assert fields_read([_running()]) == frozenset({"App", "Level"})
    assert fields_read([_running(), _running("SelectHave(P) :- Field(P,'Name',_,_).\n")]) == frozenset(
        {"App", "Level", "Name"}
    )
    assert fields_read([_running(), every]) is None
    assert fields_read([]) == frozenset()


def test_what_is_loaded_stays_as_it_was_loaded() -> None:
    program = _running()
    program.evaluate(_sources(record(HASHES[0], App="a")))
    assert set(program.tuples("SelectHave")) == {(HASHES[0],)}
    assert program.about(relations.ARITY, [HASHES[0], HASHES[1], "unknown"]) == {
        "Have": [(HASHES[0],)],
        "Field": [(HASHES[0], "App", "0", "a")],
    }
    assert program.holds("Have", (HASHES[0],))
    assert not program.holds("Have", ("unknown",))
    assert program.derives("Hidden")
    assert not program.derives("Have")
    assert list(program.tuples("Nothing")) == []
    assert program.subjects(program.state.derived[Source("SelectHave")].rows) == {HASHES[0]}
    rows = program.state.database.table(Source("Field", "App")).rows
    assert program.subjects(rows, "0", "a") == {HASHES[0]}
    assert program.subjects(rows, "0", "unknown") == set()


@pytest.mark.parametrize("again_min", [1, 1_000])
def test_a_change_flows_through(again_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: from what changed, and over all that is loaded."""
    monkeypatch.setattr(running, "_AGAIN_MIN", again_min)
    program = _running()
    program.evaluate(_sources(record(HASHES[0], App="a")))
    closed = [(HASHES[0], "Level", "0", "closed")]
    added: dict[str, list[tuple[str, ...]]] = {
        "Have": [(HASHES[1],), (HASHES[2],)],
        "Field": [*closed, (HASHES[1], "App", "0", "a"), (HASHES[2], "App", "0", "b")],
    }
    changes = program.advance(added=added, removed={})
    assert set(program.texts(changes.added[Source("SelectHave")])) == {(HASHES[1],)}
    assert set(program.texts(changes.removed[Source("SelectHave")])) == {(HASHES[0],)}
    assert Source("Any") not in changes.added
    changes = program.advance(added={}, removed={"Field": closed})
    assert set(program.texts(changes.added[Source("SelectHave")])) == {(HASHES[0],)}
    assert not changes.removed.get(Source("SelectHave"))
    changes = program.advance(added={"Field": [(HASHES[3], "Unread", "0", "x")]}, removed={})
    assert not changes.added
    assert not changes.removed
    assert set(program.spell(program.column("SelectHave"))) == {HASHES[0], HASHES[1]}


def test_a_program_resumes_where_it_was() -> None:
    program = _running()
    sources = _sources(*(record(hash, App="a") for hash in HASHES[:2]))
    program.evaluate(sources)
    pool = Pool()
    frozen = program.freeze(pool)
    resumed = _running()
    resumed.resume(frozen, pool.texts)
    for predicate in ("SelectHave", "Hidden", "Any", "SelectAdvertised"):
        assert set(resumed.tuples(predicate)) == set(program.tuples(predicate))
    assert set(resumed.tuples("Any")) == {()}
    resumed.advance(added={}, removed=resumed.about(relations.ARITY, HASHES[:2]))
    assert set(resumed.tuples("Any")) == set(resumed.tuples("SelectHave")) == set()


def test_programs_hand_over_columns() -> None:
    """What is cut out for another program is another relation, of the same numbers."""
    values = Values()
    first, second = (Running(policy(TEXT), Part.OWN_SELECTOR, values) for _ in range(2))
    first.evaluate(_sources(*(record(hash, App="a") for hash in HASHES[:3])))
    seen = np.zeros(len(values), dtype=np.bool_)
    seen[values.encode_many(HASHES[1:3])] = True
    reads = second.reads(relations.ARITY)
    second.evaluate({}, first.part_of([*reads, Source("RecordLink")], seen))
    assert set(second.tuples("SelectHave")) == {(hash,) for hash in HASHES[1:3]}
    assert second.about(relations.ARITY, HASHES[:2]) == {
        "Have": [(HASHES[1],)],
        "Field": [(HASHES[1], "App", "0", "a")],
    }
    second.advance(added={}, removed={"Have": [(HASHES[1],)]})
    assert set(first.tuples("SelectHave")) == {(hash,) for hash in HASHES[:3]}
    second.evaluate({}, first.part_of(reads))
    assert set(second.tuples("SelectHave")) == set(first.tuples("SelectHave"))


def test_some_relations_are_replaced() -> None:
    program = _running()
    program.evaluate(_sources(record(HASHES[0], App="a")))
    values = program.values.encode_many([HASHES[1], "source", "another"])
    state = program.state
    program.replace({})
    assert program.state is state, "nothing is different"
    program.replace({Source("Advertised"): relation_of([values[:1], values[1:2]])})
    assert set(program.tuples("SelectAdvertised")) == {(HASHES[1], "source")}
    assert set(program.tuples("SelectHave")) == {(HASHES[0],)}
    assert program.spell(program.column("SelectAdvertised", "source")) == [HASHES[1]]
    assert program.spell(program.column("SelectAdvertised", "another")) == []
    assert program.spell(program.column("SelectAdvertised", "unknown")) == []
    assert program.spell(program.column("Nothing")) == []
    program.replace({Source("Advertised"): relation_of([values[:1], values[2:3]])})
    assert set(program.tuples("SelectAdvertised")) == {(HASHES[1], "another")}


def test_cells_are_what_is_held() -> None:
    program = _running()
    assert program.cells == 0
    program.evaluate(_sources(record(HASHES[0], App="a")))
    assert program.cells == 1 + 3 + 1, "Have, the fields of one name, SelectHave"
    program.forget()
    assert program.cells == 0


def test_some_programs_make_up_texts() -> None:
    assert not computes(policy(TEXT).own.program)
    later = "SelectHave(P) :- Field(P,'TAI',_,T), TaiAdd(T,'1',_).\n"
    assert computes(policy(later).own.program)


def test_its_budget_is_that_of_its_part() -> None:
    program = _running(budgets=Budgets(own=Limits(derived_tuples_max=2)))
    program.evaluate(_sources(record(HASHES[0], App="a")))
    with pytest.raises(PolicyLimitExceeded) as caught:
        program.advance(added={"Have": [(HASHES[1],)], "Field": [(HASHES[1], "App", "0", "a")]}, removed={})
    assert caught.value.part is Part.OWN_SELECTOR
    with pytest.raises(PolicyLimitExceeded):
        program.evaluate(_sources(*(record(hash, App="a") for hash in HASHES)))
