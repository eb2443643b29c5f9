from random import Random

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.canonicalise import canonicalise, check_canonical, identifier
from bobbin.datalog.diagnostics import Fault, InvalidProgram, Report
from bobbin.datalog.parse import parse
from bobbin.datalog.syntax import Place
from bobbin.records import b64a

VECTOR = (
    b"SelectAdvertised(P,S) :- Advertised(P,S), "
    b"AdvertisedField(P,S,'App',_,'ding'), AdvertisedField(P,S,'Group',_,'u').\n"
    b"SelectHave(P) :- Have(P), Field(P,'App',_,'ding'), Field(P,'Group',_,'u').\n"
)
NAME = "R.no0zpA989ba4DQLVF~dswkCbzd5aK1Dn373LKs5I1gC"


def test_the_vector_of_the_companion() -> None:
    assert len(VECTOR) == 190
    assert canonicalise(parse(VECTOR)) == VECTOR
    assert identifier(VECTOR) == NAME


def test_layout_comments_order_and_repetition_do_not_change_the_name() -> None:
    text = """
    # which records we offer
    SelectHave(P)   :-   Have(P) ,
        Field(P,'App',_,'ding')
        , Field(P,'Group',_,'u') .  % end

    SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'ding'),
                             AdvertisedField(P,S,'Group',_,'u').
    SelectHave(P) :- Have(P), Field(P,'App',_,'ding'), Field(P,'Group',_,'u').
    """
    assert canonicalise(parse(text)) == VECTOR


@pytest.mark.parametrize(
    "changed",
    [
        VECTOR.replace(b"'u'", b"'v'", 1),
        VECTOR.replace(b"(P)", b"(Q)"),
        VECTOR.replace(b"_,'u'", b"'0','u'"),
        VECTOR.replace(b"Have(P), Field(P,'App',_,'ding')", b"Field(P,'App',_,'ding'), Have(P)"),
    ],
)
def test_names_of_variables_wildcards_and_the_order_of_literals_stay_and_count(changed: bytes) -> None:
    assert canonicalise(parse(changed)) == changed
    assert identifier(changed) != NAME


def test_lines_sort_by_bytes() -> None:
    text = "B('é'). B('z'). B('\uffff'). B('\U0001d11e'). A('z'). B(). AB('x'). A_('x'). Z('a'). Aa('b')."
    lines = canonicalise(parse(text)).splitlines()
    assert lines == sorted(lines)
    assert lines[:5] == [b"A('z').", b"AB('x').", b"A_('x').", b"Aa('b').", b"B('z')."]
    assert lines[-3:] == ["B('\U0001d11e').".encode(), b"B().", b"Z('a')."]


def test_the_empty_program_has_a_name_too() -> None:
    assert canonicalise(parse("# nothing\n")) == b""
    assert identifier(b"") == "R." + b64a.encode(blake3(b"lace-lacegram/v1").digest())
    assert len(identifier(b"")) == 45


def test_equal_lines_collapse_but_equal_meaning_does_not() -> None:
    assert canonicalise(parse("A('x'). A('x').\nA('x') .")) == b"A('x').\n"
    assert canonicalise(parse("A(X) :- B(X). A(Y) :- B(Y).")) == b"A(X) :- B(X).\nA(Y) :- B(Y).\n"


RULES = st.lists(
    st.sampled_from(["A('x').", "A(X) :- B(X).", "A(X):-B(X).", "B('\\n'). # c\n", "C() :- not D( ).", "D()."]).filter(
        lambda rule: "( )" not in rule
    ),
    max_size=8,
)


@given(RULES, st.randoms(use_true_random=False))
def test_canonical_text_is_its_own_canonical_form_whatever_the_order(rules: list[str], random: Random) -> None:
    canonical = canonicalise(parse("\n".join(rules)))
    assert canonicalise(parse(canonical)) == canonical
    random.shuffle(rules)
    assert canonicalise(parse("\n".join(rules + rules))) == canonical


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"A('x').", 1),
        (b"A('x').\n\n", 2),
        (b"\nA('x').\n", 1),
        (b"A('x').\nA('x').\n", 2),
        (b"B('x').\nA('x').\n", 1),
        (b"A('x').\n# c\n", 2),
        (b"A('x') .\n", 1),
        (b"A('x').\nB(X):- A(X).\n", 2),
        (b"A('x').\nB(X) :- A(X),A(X).\n", 2),
        (b"A('x').\nB(X) :- not  A(X).\n", 2),
        (b"A('x'). B('x').\n", 1),
        (b"A('x').\nB('y').", 2),
        (b" A('x').\n", 1),
        (b"# c\n", 1),
        (b"\n", 1),
    ],
)
def test_any_other_spelling_is_not_canonical_from_its_first_different_line(text: bytes, line: int) -> None:
    report = Report(10)
    check_canonical(text, parse(text), report)
    with pytest.raises(InvalidProgram) as caught:
        report.raise_if_any()
    (found,) = caught.value.diagnostics
    assert (found.fault, found.place) == (Fault.NOT_CANONICAL, Place(line, 1))


@pytest.mark.parametrize("text", [b"", b"A('x').\n", VECTOR])
def test_canonical_text_passes(text: bytes) -> None:
    report = Report(10)
    check_canonical(text, parse(text), report)
    report.raise_if_any()
