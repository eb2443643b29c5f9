import pytest

from bobbin.datalog.diagnostics import Fault, InvalidProgram
from bobbin.datalog.limits import Limits
from bobbin.policy.check import check, compile_module, identify
from bobbin.policy.modules import Query, Role, Selector
from tests.policy_worlds import DING, DING_IDENTIFIER, SHOW_EVERYTHING


def _remarks(text: str, role: Role | None = None) -> list[str]:
    checked = check(text, role)
    assert checked.diagnostics == ()
    return [str(remark) for remark in checked.remarks]


def test_a_good_policy() -> None:
    checked = check(DING)
    assert checked.identifier == DING_IDENTIFIER
    assert checked.role is Role.SELECTOR
    assert (checked.diagnostics, checked.remarks) == ((), ())


def test_a_bad_policy_lists_every_mistake() -> None:
    checked = check("SelectHave(P) :- Have(Q).\nHave('x').\n")
    assert checked.identifier is None
    assert [diagnostic.fault for diagnostic in checked.diagnostics] == [Fault.UNSAFE, Fault.SHADOWING]
    assert [diagnostic.place.line for diagnostic in checked.diagnostics] == [1, 2]


def test_a_text_that_cannot_be_read_is_a_finding_too() -> None:
    assert [diagnostic.fault for diagnostic in check(b"\xff").diagnostics] == [Fault.ENCODING]
    assert [diagnostic.fault for diagnostic in check("x" * 100, limits=Limits(program_bytes_max=10)).diagnostics] == [
        Fault.LIMIT
    ]


def test_the_role_is_guessed_or_given() -> None:
    assert check(SHOW_EVERYTHING).role is Role.QUERY
    assert check(SHOW_EVERYTHING).identifier is not None
    assert check(SHOW_EVERYTHING, Role.SELECTOR).identifier is None


def test_identify() -> None:
    assert identify(DING) == identify(f"# comment\n{DING}") == DING_IDENTIFIER
    assert identify("", Role.QUERY).startswith("R.")
    with pytest.raises(InvalidProgram):
        identify("")


def test_compile_for_a_role() -> None:
    assert isinstance(compile_module(DING, Role.SELECTOR), Selector)
    assert isinstance(compile_module(SHOW_EVERYTHING, Role.QUERY), Query)


@pytest.mark.parametrize(("text", "role"), [(DING, Role.SELECTOR), (SHOW_EVERYTHING, Role.QUERY)])
def test_the_limits_hold_in_every_role(text: str, role: Role) -> None:
    compile_module(text, role, Limits(program_bytes_max=len(text)))
    with pytest.raises(InvalidProgram):
        compile_module(text, role, Limits(program_bytes_max=len(text) - 1))


@pytest.mark.parametrize(
    ("text", "role", "remarks"),
    [
        ("SelectHave('x').", None, ["1:1: nothing defines SelectAdvertised, so neither side may request anything"]),
        (
            "SelectAdvertised(P,S) :- Advertised(P,S).",
            None,
            ["1:1: nothing defines SelectHave, so neither side may send anything"],
        ),
        (
            f"{DING}Extra(P) :- Have(P).\nExtra('x').\n",
            None,
            ["3:1: nothing that this policy exports depends on Extra"],
        ),
        (
            f"{DING}SelectHave(P) :- AdvertisedField(P,_,N,_,N), Have(P).",
            None,
            ["3:18: AdvertisedField with an open field name: both sides must advertise all fields"],
        ),
        ("", Role.QUERY, ["1:1: nothing defines Queryable, so a peer's rules will see no record"]),
        (
            "Queryable(P,O) :- Viewer(O), Advertised(P,_).",
            None,
            ["1:30: Advertised is always empty in a query policy"],
        ),
    ],
)
def test_remarks(text: str, role: Role | None, remarks: list[str]) -> None:
    assert _remarks(text, role) == remarks


def test_helpers_that_are_used_are_no_remark() -> None:
    assert _remarks(f"{DING}SelectHave(P) :- A(P).\nA(P) :- B(P).\nB(P) :- A(P), Have(P).\n") == []


@pytest.mark.parametrize("literal", ["Field(P,'X-Mood',_,'')", "not Field(P,'X-Mood',_,'')"])
def test_an_empty_value_is_pointed_out(literal: str) -> None:
    text = f"{DING}SelectHave(P) :- Have(P), {literal}.\n"
    assert _remarks(text) == ["3:27: no field has the empty value ''; write _ for any value"]


def test_an_empty_prefix_is_no_empty_value() -> None:
    assert _remarks(f"{DING}SelectHave(P) :- Have(P), Field(P,'Name',_,N), StartsWith(N,'').\n") == []


def test_a_variable_that_stands_once_is_pointed_out() -> None:
    text = "SelectHave(P) :- Have(P), Field(P,Group,_,'u').\nSelectAdvertised(P,S) :- Advertised(P,S)."
    (remark,) = check(text).remarks
    assert "Group stands only once" in remark.message
    assert (remark.place.line, remark.place.column) == (1, 27)
