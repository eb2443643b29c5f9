import pytest

from bobbin.datalog.compile import Lacegram
from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.diagnostics import Fault, InvalidProgram
from bobbin.datalog.limits import Limits
from bobbin.datalog.vocabulary import RECORD_FACTS, Vocabulary
from tests.unit.datalog.test_canonicalise import NAME, VECTOR

EXCHANGE = Vocabulary(
    base={**RECORD_FACTS.base, "Advertised": 2, "AdvertisedField": 5},
    reserved=frozenset({"MaySend"}),
    exports={"SelectHave": 1, "SelectAdvertised": 2},
)


def faults(text: str | bytes, *, received: bool = False) -> list[tuple[Fault, str]]:
    with pytest.raises(InvalidProgram) as caught:
        compile_program(text, EXCHANGE, received=received)
    return [(found.fault, str(found.place)) for found in caught.value.diagnostics]


@pytest.mark.parametrize("text", [VECTOR, VECTOR.decode(), b"# c\n" + VECTOR, VECTOR + VECTOR])
def test_the_vector_of_the_companion(text: str | bytes) -> None:
    lacegram = compile_program(text, EXCHANGE)
    assert lacegram.canonical == VECTOR
    assert lacegram.identifier == NAME


def test_the_evidence_closure_of_the_protocol_page() -> None:
    text = (
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').\n"
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), "
        "Field(P,'Signed-By',_,V), ActiveMember(V).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), "
        "AdvertisedField(P,S,'App',_,'member').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), "
        "AdvertisedField(P,S,'App',_,'ding'), AdvertisedField(P,S,'Signed-By',_,V), ActiveMember(V).\n"
        "ActiveMember(V) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member'), Field(P,'Name',_,V).\n"
    )
    lacegram = compile_program(text, EXCHANGE)
    assert len(lacegram.program.rules) == 5
    assert lacegram.plan.strata[0].predicates == {"ActiveMember"}


def test_the_empty_program_is_valid() -> None:
    for text in ("", "# nothing\n"):
        lacegram = compile_program(text, EXCHANGE)
        assert (lacegram.canonical, lacegram.plan.strata) == (b"", ())
    assert isinstance(compile_program(b"", EXCHANGE, received=True), Lacegram)


def test_rules_keep_their_places_for_explanations() -> None:
    lacegram = compile_program("# why\n\nSelectHave(P) :-\n  Have(P).\n", EXCHANGE)
    (rule,) = lacegram.program.rules
    assert (rule.place.line, rule.body[0].place.line) == (3, 4)
    assert lacegram.plan.strata[0].unions[0].inputs[0].rule is rule


def test_all_passes_report_at_once() -> None:
    text = (
        "Have('x').\n"
        "SelectHave(P) :- Haev(P).\n"
        "SelectHave(P) :- Have(Q).\n"
        "SelectHave(P,Q) :- Have(P), Have(Q).\n"
        "A(_) :- Have(_).\n"
        "B(X).\n"
        "C(P) :- Have(P), not C(P).\n"
        "D(P) :- MaySend(P).\n"
    )
    assert faults(text) == [
        (Fault.SHADOWING, "1:1"),
        (Fault.UNKNOWN_PREDICATE, "2:18"),
        (Fault.UNSAFE, "3:1"),
        (Fault.ARITY, "4:1"),
        (Fault.WILDCARD_IN_HEAD, "5:1"),
        (Fault.NOT_GROUND, "6:1"),
        (Fault.UNSTRATIFIED, "7:18"),
        (Fault.FORBIDDEN_PREDICATE, "8:9"),
    ]


def test_a_text_that_does_not_parse_goes_no_further() -> None:
    assert faults("SelectHave(P) :- Haev(P)\nhave.") == [(Fault.SYNTAX, "2:1")]


@pytest.mark.parametrize(
    "text", [VECTOR[:-1], VECTOR + b"\n", b"# c\n" + VECTOR, VECTOR + VECTOR, VECTOR.replace(b":- ", b":-", 1), b"\n"]
)
def test_what_a_peer_sends_must_be_canonical(text: bytes) -> None:
    assert compile_program(text, EXCHANGE).canonical in (VECTOR, b"")
    assert [fault for fault, _ in faults(text, received=True)] == [Fault.NOT_CANONICAL]


def test_what_a_peer_sends_passes_byte_for_byte() -> None:
    assert compile_program(VECTOR, EXCHANGE, received=True).identifier == NAME
    assert compile_program(VECTOR.decode(), EXCHANGE, received=True).identifier == NAME


def test_a_received_program_is_checked_like_any_other() -> None:
    assert faults(b"SelectHave(P) :- Haev(P).\n", received=True) == [(Fault.UNKNOWN_PREDICATE, "1:18")]
    assert {fault for fault, _ in faults(b"SelectHave(P) :- Haev(P).", received=True)} == {
        Fault.UNKNOWN_PREDICATE,
        Fault.NOT_CANONICAL,
    }


def test_limits_are_those_of_the_caller() -> None:
    with pytest.raises(InvalidProgram, match="at most 1 rules"):
        compile_program("A('x'). B('x').", EXCHANGE, Limits(rules_max=1))
    with pytest.raises(InvalidProgram, match="at most 1 strata"):
        compile_program("A('x'). B('x') :- not A('x').", EXCHANGE, Limits(strata_max=1))


def test_a_program_of_every_limit_at_once_compiles() -> None:
    """1,024 rules with long bodies, in 262,144 bytes: the largest program that may come."""
    rules = "".join(f"P{number}(X) :- " + ", ".join(["Have(X)"] * 25) + ".\n" for number in range(1024))
    text = rules[:262_144].rpartition("\n")[0] + "\n"
    lacegram = compile_program(text, EXCHANGE)
    assert len(lacegram.plan.strata) == len(lacegram.program.rules) > 900
