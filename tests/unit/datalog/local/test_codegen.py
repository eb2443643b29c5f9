import ast
import re

import pytest

from bobbin.datalog.local.codegen import CompiledRule, generate
from bobbin.datalog.local.conjunction import flatten
from bobbin.facts.relations import Tuple
from tests.unit.datalog.local.worlds import evaluate, program

NASTY = [
    "'",
    '"',
    "'''",
    '"""',
    "\\",
    "\\'",
    "\n",
    "\r\n",
    "\t",
    "{x}",
    "%s",
    "c0",
    "v0",
    "r0",
    "n0",
    "texts[0]",
    "budget",
    "\n    raise SystemExit\n",
    "'); __import__('os').abort() #",
    "\u2028\u2029\x85",
    "𝄞é",
    "x" * 4096,
]

REPEATS: dict[str, list[Tuple]] = {"B": [("1", "1"), ("1", "2"), ("2", "2")], "A": [("1",)]}


def rule_of(text: str, *, delta: int | None = None) -> CompiledRule:
    union = program(text).plan.strata[-1].unions[0]
    conjunction = flatten(union.predicate, union.inputs[0])
    return generate(conjunction, tuple(range(len(conjunction.reads))), delta=delta)


def quoted(value: str) -> str:
    for raw, spelled in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        value = value.replace(raw, spelled)
    return f"'{value}'"


def test_rules_of_one_shape_have_one_code_and_keep_their_constants() -> None:
    one, another = rule_of("P(X) :- A(X), Ne(X,'1')."), rule_of("P(Y) :- A(Y), Ne(Y,'2').")
    assert one.function is not another.function
    assert one.function.__code__ is another.function.__code__  # type: ignore[attr-defined]
    facts: dict[str, list[Tuple]] = {"A": [("1",), ("2",)]}
    assert evaluate("P(X) :- A(X), Ne(X,'1').", facts).tuples("P") == {("2",)}
    assert evaluate("P(Y) :- A(Y), Ne(Y,'2').", facts).tuples("P") == {("1",)}


@pytest.mark.parametrize("value", NASTY)
def test_no_text_of_a_program_becomes_source(value: str) -> None:
    text = f"P({quoted(value)},X) :- A(X), B({quoted(value)},X), not C(X,{quoted(value)}), Ne(X,{quoted(value)})."
    compiled = rule_of(text)
    plain = rule_of("P('-',X) :- A(X), B('-',X), not C(X,'-'), Ne(X,'-').")
    assert compiled.source == plain.source
    assert compiled.constants == (value,)
    state = evaluate(text, {"A": [("1",), (value,), ("2",)], "B": [(value, "1"), (value, value)], "C": [("2", value)]})
    assert state.tuples("P") == {(value, "1")}


@pytest.mark.parametrize(
    "names",
    ["Steps", "V0", "R0", "N0", "C0", "B1_0", "T1_0", "Texts", "Encode", "Budget", "Out", "Rule0", "None", "True"],
)
def test_names_of_a_program_never_become_names_of_python(names: str) -> None:
    text = f"{names}({names},Other) :- B({names},Other), not C(Other,{names}), TaiAdd({names},'1',_)."
    source = rule_of(text).source
    assert source == rule_of("P(X,Y) :- B(X,Y), not C(Y,X), TaiAdd(X,'1',_).").source
    state = evaluate(text, {"B": [("0000000000:000000000", "y"), ("x", "y")], "C": []})
    assert state.tuples(names) == {("0000000000:000000000", "y")}


def test_the_source_holds_only_names_numbers_and_our_own_words() -> None:
    source = rule_of("P(X,'c',R) :- A(X), B(X,Y), not C(Y,_), Lt(X,'z'), TaiAdd(Y,'1',R), Field(X,'n',_,R).").source
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    ours = {"steps", "len", "texts", "encode", "budget", "out", "is_Lt", "of_TaiAdd"}
    assert all(re.fullmatch(r"[vrncbt]\d+(_\d+)?", name) for name in names - ours)
    strings = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert strings == []


@pytest.mark.parametrize("length", [1, 14, 15, 16, 17, 29, 30, 31, 32])
def test_a_body_of_any_length(length: int) -> None:
    """Python nests 20 blocks at most; the loops of a long rule go on in further functions."""
    chain = ", ".join(f"B(X{number},X{number + 1})" for number in range(length))
    text = f"P(X0,X{length}) :- {chain}."
    assert rule_of(text).source.count("def rule") == (length + 14) // 15
    ring = {"B": [(str(number), str((number + 1) % 7)) for number in range(7)]}
    assert evaluate(text, ring).tuples("P") == {(str(n), str((n + length) % 7)) for n in range(7)}


def test_guards_that_wait_across_functions() -> None:
    chain = ", ".join(f"B(X{number},X{number + 1})" for number in range(26))
    text = f"P(X0,X26) :- {chain}, Lt(X2,X20), not C(X0,X26), not A(X14), Eq(X0,X14), TaiAdd(X0,X1,R), Ne(R,X26)."
    assert evaluate(text, {"B": [("1", "2"), ("2", "1")]}).tuples("P") == set()
    text = f"P(X0,X26) :- {chain}, Le(X2,X20), not C(X0,X26), not A(X14), Eq(X0,X14)."
    state = evaluate(text, {"B": [("1", "2"), ("2", "1")], "A": [("2",)]})
    assert state.tuples("P") == {("1", "1")}


def test_reads_that_bind_nothing_are_tests_and_cost_no_loop() -> None:
    source = rule_of("P(X) :- A(X), B(X,_), C('c',_), Z(), not Z(), B(X,X).").source
    assert source.count("for ") == 1


def test_new_rows_come_as_an_argument_of_their_own() -> None:
    compiled = rule_of("P(X) :- A(X), A(X).", delta=0)
    assert [need.delta for need in compiled.needs] == [True, False]


def test_one_index_is_asked_for_once() -> None:
    compiled = rule_of("P(X) :- A(X), B(X,'c'), B(X,'d'), not B(X,'e').")
    assert len(compiled.needs) == 2
    assert sorted(compiled.constants) == ["c", "d", "e"]


def test_a_repeated_variable_is_compared_inside_one_row() -> None:
    assert evaluate("P(X) :- B(X,X).", REPEATS).tuples("P") == {("1",), ("2",)}
    assert evaluate("P(X) :- A(X), B(X,X).", REPEATS).tuples("P") == {("1",)}
    assert evaluate("P(X) :- A(X), not B(X,X).", REPEATS).tuples("P") == set()
