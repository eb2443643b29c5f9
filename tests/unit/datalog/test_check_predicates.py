import pytest

from bobbin.datalog.builtins import BUILTINS
from bobbin.datalog.check_predicates import check_predicates
from bobbin.datalog.diagnostics import Diagnostic, Fault, InvalidProgram, Report
from bobbin.datalog.parse import parse
from bobbin.datalog.syntax import Place
from bobbin.datalog.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    base={"Have": 1, "Field": 4, "TransportEncrypted": 0},
    reserved=frozenset({"MaySend", "TickReady"}),
    reserved_prefixes=("Hello",),
    exports={"SelectHave": 1, "SelectAdvertised": 2},
    foreign_heads=frozenset({"Queryable"}),
    foreign_facts=frozenset({"Viewer"}),
)


def check(text: str, vocabulary: Vocabulary = VOCABULARY) -> list[Diagnostic]:
    report = Report(1000)
    check_predicates(parse(text), vocabulary, report)
    try:
        report.raise_if_any()
    except InvalidProgram as problem:
        return problem.diagnostics
    return []


def one(text: str, vocabulary: Vocabulary = VOCABULARY) -> Diagnostic:
    (found,) = check(text, vocabulary)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SelectHave(P) :- Have(P), Field(P,_,_,_), TransportEncrypted().",
        "SelectAdvertised(P,S) :- Mine(P,S), not Mine(S,P). Mine('a','b').",
        "Mine(P) :- Mine(P), Have(P), Eq(P,P), TaiAdd(P,P,P).",
    ],
)
def test_programs_that_use_everything_as_what_it_is(text: str) -> None:
    assert check(text) == []


# ---- shadowing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_no_rule_defines_a_built_in(name: str) -> None:
    terms = ",".join(["'x'"] * BUILTINS[name].arity)
    found = one(f"SelectHave('x').\n  {name}({terms}).")
    assert (found.fault, found.place) == (Fault.SHADOWING, Place(2, 3))
    assert found.message == f"{name} is built in and cannot be defined"


@pytest.mark.parametrize("head", ["Have('x')", "Field('a','b','c','d')", "TransportEncrypted()", "Viewer('x')"])
def test_no_rule_defines_what_facts_supply(head: str) -> None:
    found = one(f"{head}.")
    assert (found.fault, found.place) == (Fault.SHADOWING, Place(1, 1))
    assert "facts that the system supplies" in found.message


@pytest.mark.parametrize("name", ["MaySend", "TickReady", "HelloTAI", "HelloNobodyKnowsYet"])
def test_no_rule_defines_a_name_of_the_protocol(name: str) -> None:
    found = one(f"{name}('x').")
    assert (found.fault, found.message) == (Fault.SHADOWING, f"{name} belongs to the protocol and cannot be defined")


def test_no_rule_defines_what_another_role_defines() -> None:
    found = one("Queryable('x','y').")
    assert (found.fault, found.place) == (Fault.SHADOWING, Place(1, 1))
    assert "of this role" in found.message


# ---- what bodies may read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("literal", ["MaySend('x')", "not TickReady('x')", "HelloTAI('x')", "Viewer('x')"])
def test_no_body_reads_what_is_closed_to_it(literal: str) -> None:
    found = one(f"A('x') :- Have(_), {literal}.")
    assert (found.fault, found.place) == (Fault.FORBIDDEN_PREDICATE, Place(1, 20))


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("Haev('x')", "Have"),
        ("Have_('x')", "Have"),
        ("Fields('a','b','c','d')", "Field"),
        ("Membr('x')", "Member"),
        ("not Membre('x')", "Member"),
        ("StartWith('x','y')", "StartsWith"),
        ("SelectHav('x')", "SelectHave"),
    ],
)
def test_an_unknown_predicate_is_named_with_what_it_may_have_been(misspelt: str, meant: str) -> None:
    found = one(f"Member('x').\nSelectHave('x') :-\n {misspelt}.")
    assert (found.fault, found.place) == (Fault.UNKNOWN_PREDICATE, Place(3, 2))
    assert found.fix == f"did you mean {meant}?"


def test_an_unknown_predicate_like_no_other_is_to_be_defined() -> None:
    found = one("A('x') :- Zzyzx('x').")
    assert (found.message, found.fix) == ("nothing defines Zzyzx", "define it by a rule")


def test_an_export_that_no_rule_defines_cannot_be_read() -> None:
    assert one("A('x') :- SelectHave('x').").fault == Fault.UNKNOWN_PREDICATE


def test_what_another_role_defines_is_unknown_here() -> None:
    assert one("A('x') :- Queryable('x','y').").fault == Fault.UNKNOWN_PREDICATE


def test_many_unknown_predicates_are_all_named_and_few_are_compared() -> None:
    """Comparing each unknown name with each known one would take minutes; the rest goes without a suggestion."""
    heads = "".join(f"A{'a' * 50}{number:05d}('x').\n" for number in range(900))
    bodies = "".join(f"Z() :- B{'a' * 50}{number:05d}('x').\n" for number in range(100))
    found = check(heads + bodies)
    assert len(found) == 100
    assert all(one.fault == Fault.UNKNOWN_PREDICATE for one in found)
    assert 0 < sum((one.fix or "").startswith("did you mean") for one in found) <= 10


# ---- arity ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("A('x') :- Field('x','y','z').", 11, "Field stands with 3 arguments; it has 4"),
        ("A('x') :- not Have().", 11, "Have stands with 0 arguments; it has 1"),
        ("A('x') :- TransportEncrypted('yes').", 11, "TransportEncrypted stands with 1 arguments; it has 0"),
        ("A('x') :- Have(X), Eq(X).", 20, "Eq stands with 1 arguments; it has 2"),
        ("A('x') :- TaiAdd('a','b').", 11, "TaiAdd stands with 2 arguments; it has 3"),
        ("SelectHave('x','y').", 1, "SelectHave stands with 2 arguments; it has 1"),
        ("SelectAdvertised('x').", 1, "SelectAdvertised stands with 1 arguments; it has 2"),
        ("A('x') :- A('x','y').", 11, "A stands with 2 arguments; here it was used before with 1"),
        ("A('x'). A('x','y').", 9, "A stands with 2 arguments; here it was used before with 1"),
        ("B('x') :- A('x','y'). A('x').", 23, "A stands with 1 arguments; here it was used before with 2"),
    ],
)
def test_one_arity_each(text: str, column: int, message: str) -> None:
    found = [one for one in check(text) if one.fault == Fault.ARITY]
    assert [(one.place, one.message) for one in found] == [(Place(1, column), message)]


def test_two_programs_may_differ() -> None:
    assert check("A('x').") == check("A('x','y').") == []


# ---- exports ---------------------------------------------------------------------------------------------------------


def test_a_program_that_must_export_something_does() -> None:
    required = Vocabulary(base={}, exports={"SelectHave": 1, "SelectAdvertised": 2}, export_required=True)
    assert check("SelectHave('x').", required) == []
    assert check("SelectAdvertised('x','y').", required) == []
    for text in ("", "A('x')."):
        found = one(text, required)
        assert (found.fault, found.place) == (Fault.FACET, Place(1, 1))
        assert "SelectHave/1 or SelectAdvertised/2" in found.message


def test_everything_wrong_with_one_rule_is_found() -> None:
    found = check("Have('x','y') :- Haev('x'), MaySend('x'), Field('x').")
    assert {(one.fault, one.place.column) for one in found} == {
        (Fault.SHADOWING, 1),
        (Fault.ARITY, 1),
        (Fault.UNKNOWN_PREDICATE, 18),
        (Fault.FORBIDDEN_PREDICATE, 29),
        (Fault.ARITY, 43),
    }
