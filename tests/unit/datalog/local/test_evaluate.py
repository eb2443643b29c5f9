import tracemalloc
from itertools import combinations, islice, permutations

import pytest

from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable
from bobbin.datalog.vocabulary import Vocabulary
from bobbin.facts.relations import Tuple
from tests.unit.datalog.local.worlds import database, evaluate, program

WAYS = pytest.mark.parametrize("columns_min", [0, 10**9], ids=["columns", "compiled"])
MANY: dict[str, list[Tuple]] = {
    "A": [(str(number),) for number in range(300)],
    "B": [(str(number), str(number + 1)) for number in range(300)],
}


def derive(text: str, facts: dict[str, list[Tuple]], columns_min: int, name: str = "P") -> frozenset[Tuple]:
    return evaluate(text, facts, columns_min=columns_min).tuples(name)


def limit_of(text: str, facts: dict[str, list[Tuple]], columns_min: int, **limits: int) -> str:
    """The limit that an evaluation goes past."""
    executable = Executable(program(text).plan, Limits(**limits), columns_min=columns_min)
    with pytest.raises(LimitExceeded) as caught:
        executable.evaluate(database(facts))
    return caught.value.limit


# ---- what rules mean -----------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P('x').", {("x",)}),
        ("P().", {()}),
        ("P() :- Z().", {()}),
        ("P() :- not Z().", set()),
        ("P(X) :- A(X).", {("1",), ("2",)}),
        ("P(X,X) :- A(X).", {("1", "1"), ("2", "2")}),
        ("P('c') :- A(_).", {("c",)}),
        ("P(X) :- B(X,_).", {("1",), ("2",), ("3",)}),
        ("P(X,Y) :- B(X,_), B(_,Y), Eq(X,Y).", {("2", "2"), ("3", "3")}),
        ("P(X) :- B(X,X).", {("3",)}),
        ("P(X) :- B('1',X).", {("2",)}),
        ("P(X) :- A(X), not B(X,'2').", {("2",)}),
        ("P(X) :- A(X), not B(_,X).", {("1",)}),
        ("P(X) :- A(X), not B(_,_).", set()),
        ("P(X) :- A(X), not C(_,_).", {("1",), ("2",)}),
        ("P(X) :- A(X), not B(X,X).", {("1",), ("2",)}),
        ("P(X,Y) :- A(X), A(Y).", {("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")}),
        ("P(X) :- A(X), C(X,_).", set()),
        ("P(X) :- A(X), Lt(X,'2').", {("1",)}),
        ("P(X) :- A(X), not Lt(X,'2').", {("2",)}),
        ("P('y') :- Eq('x','x').", {("y",)}),
        ("P('y') :- Eq('x','y').", set()),
        ("P(X) :- A(X), A(X), A(X).", {("1",), ("2",)}),
        ("P(X) :- A(X). P(X) :- B(_,X).", {("1",), ("2",), ("3",)}),
        ("P(R) :- TaiAdd('0000000000:000000000','5',R).", {("0000000000:000000005",)}),
        (
            "P(S) :- A(X), TaiAdd('0000000001:000000000',X,R), TaiSub(R,'1',S).",
            {("0000000001:000000000",), ("0000000001:000000001",)},
        ),
        ("P(X) :- A(X), TaiAdd(X,'1',_).", set()),
        ("P(X) :- A(X), not TaiAdd(X,'1',_).", {("1",), ("2",)}),
        ("P(X) :- A(X), TaiAdd('0000000000:000000000',X,'0000000000:000000002').", {("2",)}),
        ("P(X) :- A(X), not TaiAdd('0000000000:000000000',X,'0000000000:000000002').", {("1",)}),
        ("P(V) :- Field('p','n',_,V).", {("a",), ("b",)}),
        ("P(V) :- Field('p',N,_,V), Field('q',N,_,_).", {("a",), ("b",)}),
        ("P(V) :- Field(_,_,_,V), not Field('q',_,_,V).", {("b",)}),
        ("P(X) :- Q(X), not R(X). Q(X) :- B(X,_). R(X) :- A(X).", {("3",)}),
        ("P(X,Y) :- B(X,Y). P(X,Z) :- P(X,Y), P(Y,Z).", {("1", "2"), ("2", "3"), ("3", "3"), ("1", "3")}),
        ("P(X) :- Even(X). Even('1'). Even(Y) :- Odd(X), B(X,Y). Odd(Y) :- Even(X), B(X,Y).", {("1",), ("3",)}),
    ],
)
def test_answers(text: str, expected: set[Tuple], columns_min: int) -> None:
    facts: dict[str, list[Tuple]] = {
        "A": [("1",), ("2",)],
        "B": [("1", "2"), ("2", "3"), ("3", "3")],
        "Z": [()],
        "Field": [("p", "n", "0", "a"), ("p", "n", "1", "b"), ("q", "n", "0", "a")],
    }
    assert derive(text, facts, columns_min) == expected


@WAYS
def test_each_wildcard_is_a_variable_of_its_own(columns_min: int) -> None:
    assert derive("P('y') :- B(_,_).", {"B": [("1", "2")]}, columns_min) == {("y",)}


@WAYS
def test_values_are_texts_and_nothing_else(columns_min: int) -> None:
    facts: dict[str, list[Tuple]] = {"A": [("1",), ("01",), ("1.0",), ("",), ("é",)]}
    assert derive("P(X) :- A(X), Eq(X,'1').", facts, columns_min) == {("1",)}
    assert derive("P(X) :- A(X), Eq(X,'').", facts, columns_min) == {("",)}


@WAYS
def test_a_malformed_number_makes_a_literal_false_and_its_negation_true(columns_min: int) -> None:
    facts: dict[str, list[Tuple]] = {"A": [("9",), ("x",), ("010",)]}
    assert derive("P(X) :- A(X), NumLt(X,'10').", facts, columns_min) == {("9",)}
    assert derive("P(X) :- A(X), not NumLt(X,'10').", facts, columns_min) == {("x",), ("010",)}


@WAYS
def test_no_predicate_name_has_a_meaning_of_its_own(columns_min: int) -> None:
    text = "SelectHave(X) :- A(X). Viewer(X) :- SelectHave(X). MaySend(X) :- Viewer(X)."
    assert derive(text, {"A": [("x",)]}, columns_min, "MaySend") == {("x",)}


def test_a_relation_of_the_engine_may_be_defined_by_rules_where_no_fact_has_its_name() -> None:
    """``Field`` is kept apart by field name inside; a program that defines it must not notice."""
    text = "Field('p','n'). Field('q','m'). P(X) :- Field(X,'n'), not Field(X,'m')."
    plan = compile_program(text, Vocabulary(base={})).plan
    assert Executable(plan).evaluate(Database({}, {})).tuples("P") == {("p",)}


@WAYS
def test_neither_the_order_of_rules_nor_that_of_facts_matters(columns_min: int) -> None:
    """ILC-039."""
    rules = [
        "P(X,Y) :- B(X,Y).",
        "P(X,Z) :- P(X,Y), B(Y,Z).",
        "Q(X) :- A(X), not P(X,X), not R(X).",
        "R(X) :- P('2',X).",
    ]
    loop: list[Tuple] = [("1", "2"), ("2", "3"), ("3", "2")]
    numbers: list[Tuple] = [("1",), ("2",), ("4",)]
    for order in permutations(rules):
        for first in (loop, loop[::-1]):
            state = evaluate(
                "\n".join(order), {"A": numbers[:: 1 if first is loop else -1], "B": first}, columns_min=columns_min
            )
            assert state.tuples("P") == {(x, y) for x in "123" for y in "23"}
            assert state.tuples("Q") == {("1",), ("4",)}


def test_the_empty_program_derives_nothing() -> None:
    state = Executable(program("# nothing").plan).evaluate(database({}))
    assert state.tuples("P") == frozenset()


def test_one_executable_serves_any_number_of_databases() -> None:
    executable = Executable(program("P(X) :- A(X), not B(X,_).").plan)
    few = database({"A": [("1",), ("2",)], "B": [("1", "x")]})
    many = database({"A": [(str(number),) for number in range(5000)]})
    for _ in range(2):
        assert executable.evaluate(few).tuples("P") == {("2",)}
        assert executable.evaluate(many).count("P") == 5000


def test_equal_texts_from_different_sources_are_one_value() -> None:
    facts: dict[str, list[Tuple]] = {"A": [(str(10**9),)], "B": [(str(10**9), "x")]}
    assert derive("P(X) :- A(X), B(X,_).", facts, 10**9) == {("1000000000",)}


# ---- limits ----------------------------------------------------------------------------------------------------------


@WAYS
def test_derived_tuples(columns_min: int) -> None:
    text = "P(X) :- A(X). Q(X) :- P(X)."
    executable = Executable(program(text).plan, Limits(derived_tuples_max=600), columns_min=columns_min)
    assert executable.evaluate(database(MANY)).count("Q") == 300
    assert limit_of(text, MANY, columns_min, derived_tuples_max=599) == "derived_tuples_max"


@WAYS
def test_a_tuple_that_is_derived_again_counts_once(columns_min: int) -> None:
    rules = "".join(f"P(X) :- A(X), Ne(X,'{number}').\n" for number in range(300, 320))
    executable = Executable(program(rules).plan, Limits(derived_tuples_max=300), columns_min=columns_min)
    assert executable.evaluate(database(MANY)).count("P") == 300


def test_a_tuple_that_is_derived_again_counts_once_even_in_a_long_run() -> None:
    """A run that finds far more known tuples than there is room for new ones sorts them out on the way."""
    text = "P(X,Y) :- A(X), A(Y). Q(X,Y) :- P(X,Y). P(X,Y) :- Q(X,Y), Q(Y,X)."
    executable = Executable(program(text).plan, Limits(derived_tuples_max=180_000), columns_min=10**9)
    state = executable.evaluate(database(MANY))
    assert (state.count("P"), state.count("Q")) == (90_000, 90_000)


@WAYS
def test_fixed_point_rounds(columns_min: int) -> None:
    text = "P(X,Y) :- B(X,Y). P(X,Z) :- P(X,Y), B(Y,Z)."
    chain: dict[str, list[Tuple]] = {"B": [(str(number), str(number + 1)) for number in range(20)]}
    Executable(program(text).plan, Limits(rounds_max=21), columns_min=columns_min).evaluate(database(chain))
    assert limit_of(text, chain, columns_min, rounds_max=9) == "rounds_max"


def test_the_default_limits_of_an_evaluation() -> None:
    """ILC-050: a million tuples and ten thousand rounds are allowed, one more is not."""
    pairs = "P(X,Y) :- A(X), A(Y)."
    thousand: dict[str, list[Tuple]] = {"A": [(str(number),) for number in range(1000)]}
    assert evaluate(pairs, thousand, columns_min=0).count("P") == 1_000_000
    assert limit_of(f"{pairs} Q('x').", thousand, 0) == "derived_tuples_max"

    def count(steps: int) -> str:
        return f"P('0000000000:000000000'). P(R) :- P(T), TaiAdd(T,'1',R), Lt(T,'0000000000:{steps:09d}')."

    assert evaluate(count(10_000), {}).count("P") == 10_001
    assert limit_of(count(10_001), {}, 10**9) == "rounds_max"


@WAYS
@pytest.mark.parametrize(
    "text",
    [
        "P(X,Y,Z) :- A(X), A(Y), A(Z).",
        "P() :- A(X), A(Y), A(Z), Lt(X,Y), Lt(Y,Z), Lt(Z,X).",
        "P() :- B(X,_), B(Y,_), B(Z,_), Gt(Z,X), Gt(X,Y), Gt(Y,Z).",
        "P() :- A(X), A(Y), NumLt(X,Y), NumLt(Y,X).",
        "P() :- " + ", ".join(f"B(X{number},_)" for number in range(31)) + ", Lt(X30,X0).",
        "Q('0'). Q('1'). P() :- " + ", ".join(f"Q(X{number})" for number in range(30)) + ", Lt(X29,X0), Lt(X0,X29).",
    ],
)
def test_a_cross_join_is_stopped_by_its_steps(text: str, columns_min: int) -> None:
    assert limit_of(text, MANY, columns_min, steps_max=200_000) in {"steps_max", "derived_tuples_max", "held_cells_max"}


@WAYS
def test_computed_values(columns_min: int) -> None:
    """Sums that no head keeps still take a number each: they are bounded like tuples."""
    text = "P() :- A(X), A(Y), TaiAdd('0000000000:000000000',X,R), TaiAdd(R,Y,S), Eq(S,'no')."
    assert limit_of(text, MANY, columns_min, computed_values_max=500) == "computed_values_max"
    executable = Executable(program(text).plan, Limits(computed_values_max=700), columns_min=columns_min)
    assert executable.evaluate(database(MANY)).count("P") == 0


@WAYS
def test_a_program_that_counts_for_ever_is_stopped(columns_min: int) -> None:
    text = "P('0000000000:000000000'). P(R) :- P(T), TaiAdd(T,'1',R)."
    assert limit_of(text, {}, columns_min, rounds_max=50) == "rounds_max"
    assert limit_of(text, {}, columns_min, derived_tuples_max=50) == "derived_tuples_max"
    assert limit_of(text, {}, columns_min, computed_values_max=50) == "computed_values_max"


@WAYS
def test_an_exponential_program_is_stopped(columns_min: int) -> None:
    """Each level doubles: sixteen bits are 65,536 tuples, and thirty levels of pairs would be 2 to the 30."""
    levels = "".join(f"P{n + 1}(X,Y) :- P{n}(X,Z), P{n}(W,Y). " for n in range(30))
    text = f"P0('a','b'). P0('b','c'). P0('c','a'). {levels}"
    assert limit_of(text, {}, columns_min, derived_tuples_max=200) == "derived_tuples_max"
    bits = (
        "B0('0'). B0('1'). P("
        + ",".join(f"X{n}" for n in range(16))
        + ") :- "
        + ", ".join(f"B0(X{n})" for n in range(16))
        + "."
    )
    assert limit_of(bits, {}, columns_min, derived_tuples_max=10_000, steps_max=10**6) in {
        "derived_tuples_max",
        "steps_max",
    }


@WAYS
def test_a_stopped_cross_join_has_held_little(columns_min: int) -> None:
    text = "P(X,Y,Z,W) :- A(X), A(Y), A(Z), A(W)."
    executable = Executable(program(text).plan, Limits(derived_tuples_max=20_000), columns_min=columns_min)
    facts = database(MANY)
    executable.evaluate(database({}))
    tracemalloc.start()
    with pytest.raises(LimitExceeded):
        executable.evaluate(facts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 2**20


def test_nothing_of_a_stopped_evaluation_is_left_behind() -> None:
    executable = Executable(program("P(X,Y) :- A(X), A(Y).").plan, Limits(derived_tuples_max=100))
    facts = database(MANY)
    for _ in range(2):
        with pytest.raises(LimitExceeded):
            executable.evaluate(facts)
    assert Executable(program("P(X) :- A(X).").plan).evaluate(facts).count("P") == 300


@WAYS
def test_making_indexes_over_facts_is_charged_once(columns_min: int) -> None:
    text = "P() :- A(X), B(X,Y), Eq(Y,'none')."
    facts = database({"A": [("1",)], "B": [(str(number), "y") for number in range(1_000)]})
    plan = program(text).plan
    with pytest.raises(LimitExceeded) as caught:
        Executable(plan, Limits(steps_max=1_000), columns_min=columns_min).evaluate(facts)
    assert caught.value.limit == "steps_max"
    Executable(plan, columns_min=columns_min).evaluate(facts)
    Executable(plan, Limits(steps_max=1_000), columns_min=columns_min).evaluate(facts)


@pytest.mark.parametrize("columns_min", [0, 10**9])
def test_plans_of_many_long_rules_are_charged(columns_min: int) -> None:
    """Each scan of a recursive rule is planned for itself: this takes seconds and hardly looks at a row."""
    body = ", ".join(f"T(X{number},X{number + 1})" for number in range(30))
    rules = "".join(f"T(X0,X30) :- {body}, C(X0,'{number}').\n" for number in range(60))
    facts: dict[str, list[Tuple]] = {"B": [("1", "1")], "C": [("1", str(number)) for number in range(60)]}
    text = f"T(X,Y) :- B(X,Y).\n{rules}"
    assert limit_of(text, facts, columns_min, steps_max=20_000 if columns_min == 0 else 100_000) == "steps_max"


def test_a_relation_that_grows_by_single_rows_is_charged_for_its_rounds() -> None:
    """On columns, each round tells what is new from all that is known."""
    facts: dict[str, list[Tuple]] = {"B": [(str(number), str(number + 1)) for number in range(400)]}
    text = "T(X,Y) :- B(X,Y). T(X,Z) :- T(X,Y), B(Y,Z), Eq(X,'0')."
    assert limit_of(text, facts, 0, steps_max=200_000) == "steps_max"


# ---- carrying forward ------------------------------------------------------------------------------------------------


def test_carrying_forward_is_bounded_like_a_new_evaluation() -> None:
    """However small the steps: a state never holds more than a full evaluation might."""
    executable = Executable(program("P(X) :- A(X).").plan, Limits(derived_tuples_max=10))
    facts = database({"A": [(str(number),) for number in range(8)]})
    state = executable.evaluate(facts)
    executable.advance(state, facts.change(added={"A": [("a",), ("b",)]}))
    executable.advance(state, facts.change(added={"A": [("c",)]}, removed={"A": [("a",)]}))
    assert state.count("P") == 10
    with pytest.raises(LimitExceeded):
        executable.advance(state, facts.change(added={"A": [("d",)]}))


def test_a_recursive_program_computed_anew_counts_only_what_it_holds() -> None:
    text = "P(X,Y) :- B(X,Y). P(X,Z) :- P(X,Y), B(Y,Z)."
    executable = Executable(program(text).plan, Limits(derived_tuples_max=10))
    facts = database({"B": [("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")]})
    state = executable.evaluate(facts)
    assert state.count("P") == 10
    executable.advance(state, facts.change(removed={"B": [("2", "3")]}, added={"B": [("5", "6")]}))
    assert state.count("P") == 1 + 6


def test_a_program_that_wants_hundreds_of_indexes_is_stopped() -> None:
    """Each rule looks one row up, but by other positions: the cost is in the indexes, and it counts."""
    terms = ",".join(["X", "Y"] * 8)
    rules = [f"P({terms}) :- A(X), A(Y)."]
    for number, places in enumerate(islice(combinations(range(16), 4), 400)):
        looked_up = ",".join("'1'" if place in places else "_" for place in range(16))
        rules.append(f"Q{number}() :- P({looked_up}).")
    facts: dict[str, list[Tuple]] = {"A": MANY["A"][:40]}
    assert limit_of("\n".join(rules), facts, 10**9, steps_max=10**6) == "steps_max"
