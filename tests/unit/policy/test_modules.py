import pytest

from bobbin.datalog.canonicalise import identifier
from bobbin.datalog.diagnostics import Fault, InvalidProgram
from bobbin.errors import PeerError
from bobbin.policy.modules import (
    MalformedModule,
    Role,
    base_predicates,
    check_identity,
    compile_query,
    compile_selector,
    default_query,
    deny_all_query,
    deny_all_selector,
    receive_selector,
    role_of,
)
from tests.policy_worlds import DING, DING_IDENTIFIER


def _faults(text: str) -> list[Fault]:
    with pytest.raises(InvalidProgram) as refused:
        compile_selector(text)
    return [diagnostic.fault for diagnostic in refused.value.diagnostics]


def test_the_sample_module_has_its_published_name() -> None:
    selector = compile_selector(DING)
    assert selector.identifier == DING_IDENTIFIER
    assert len(selector.canonical) == 190


@pytest.mark.parametrize(
    "text", ["SelectHave(P) :- Have(P).", "SelectAdvertised(P,S) :- Advertised(P,S).", "SelectHave('P.x.H3')."]
)
def test_one_export_is_enough(text: str) -> None:
    assert compile_selector(text).program.rules


def test_a_selector_without_export_is_refused() -> None:
    assert _faults("Helper(P) :- Have(P).") == [Fault.FACET]
    assert _faults("") == [Fault.FACET]


def test_a_missing_export_is_told_together_with_every_other_mistake() -> None:
    assert _faults("Helper(P,Q) :- Have(P), Nowhere(P).") == [Fault.FACET, Fault.UNSAFE, Fault.UNKNOWN_PREDICATE]


@pytest.mark.parametrize("text", ["SelectHave(P,Q) :- BlobHash(P,Q).", "SelectAdvertised(P) :- Advertised(P,_)."])
def test_an_export_has_its_arity(text: str) -> None:
    assert _faults(text) == [Fault.ARITY]


def test_a_query_module_exports_pairs() -> None:
    with pytest.raises(InvalidProgram) as refused:
        compile_query("Queryable(P) :- Have(P).")
    assert [diagnostic.fault for diagnostic in refused.value.diagnostics] == [Fault.ARITY]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Queryable(P,O) :- OwnSelected(P).", Fault.UNSAFE),
        ("Queryable(P,O) :- Have(P), Viewer(O), not Queryable(P,O).", Fault.UNSTRATIFIED),
        ("Queryable(P,O) :- Have(P), Viewer(O), Nobody(P).", Fault.UNKNOWN_PREDICATE),
    ],
)
def test_a_query_module_obeys_the_language_although_it_is_local(text: str, fault: Fault) -> None:
    with pytest.raises(InvalidProgram) as refused:
        compile_query(text)
    assert [diagnostic.fault for diagnostic in refused.value.diagnostics] == [fault]


def test_the_default_query_policy_is_the_published_one() -> None:
    assert default_query().lacegram.canonical == b"Queryable(P,O) :- OwnSelected(P), Viewer(O).\n"


def test_the_empty_query_module_is_valid_and_is_not_the_default() -> None:
    assert deny_all_query().program.rules == ()
    assert deny_all_query().identifier != default_query().identifier


def test_the_selector_of_a_side_without_policy_is_valid() -> None:
    assert deny_all_selector().program.heads() == {"SelectHave"}


def test_a_received_module_arrives_under_its_name() -> None:
    assert receive_selector(DING.encode(), DING_IDENTIFIER).canonical == DING.encode()


def test_other_bytes_than_announced_are_refused() -> None:
    changed = DING.replace("ding", "dong").encode()
    with pytest.raises(MalformedModule) as refused:
        receive_selector(changed, DING_IDENTIFIER)
    assert refused.value.code == "malformed-exchange-module"
    with pytest.raises(PeerError):
        check_identity(changed, DING_IDENTIFIER)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"SelectHave(P)  :- Have(P).\n", Fault.NOT_CANONICAL),
        (b"# hello\nSelectHave(P) :- Have(P).\n", Fault.NOT_CANONICAL),
        (b"SelectHave(P) :- Have(P).", Fault.NOT_CANONICAL),
        (b"SelectHave(P) :- Have(P).\nA('x').\n", Fault.NOT_CANONICAL),
        (b"SelectHave(P) :- Have(P)\n", Fault.SYNTAX),
        (b"SelectHave(P) :- Have(Q).\n", Fault.UNSAFE),
        (b"Queryable(P,P) :- Have(P).\nSelectHave(P) :- Have(P).\n", Fault.SHADOWING),
        (b"A('x').\n", Fault.FACET),
        (b"\xff\n", Fault.ENCODING),
        ("SelectHave('e\u0301').\n".encode(), Fault.NORMALIZATION),
    ],
)
def test_a_bad_module_of_a_peer_never_becomes_a_selector(raw: bytes, fault: Fault) -> None:
    with pytest.raises(MalformedModule) as refused:
        receive_selector(raw, identifier(raw))
    assert fault in {diagnostic.fault for diagnostic in refused.value.diagnostics}


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"SelectHave(P) :- Have(Q).\n", Fault.UNSAFE),
        (b"Odd(P) :- Have(P), not Odd(P).\nSelectHave(P) :- Odd(P).\n", Fault.UNSTRATIFIED),
        (b"Helper(P) :- Have(P).\n", Fault.FACET),
        (b"SelectHave(P) :- Have(P), Unheard(P).\n", Fault.UNKNOWN_PREDICATE),
    ],
)
def test_a_received_selector_is_valid_as_a_program_and_for_its_role(raw: bytes, fault: Fault) -> None:
    """IL-122: the bytes are canonical and have their name; only what they say is wrong."""
    with pytest.raises(MalformedModule) as refused:
        receive_selector(raw, identifier(raw))
    assert [diagnostic.fault for diagnostic in refused.value.diagnostics] == [fault]


def test_the_role_of_a_text_shows_in_what_it_defines() -> None:
    assert role_of(compile_selector(DING).program) is Role.SELECTOR
    assert role_of(default_query().program) is Role.QUERY


def test_base_predicates_are_found_through_helpers() -> None:
    program = compile_selector(
        "SelectHave(P) :- Near(P). Near(P) :- Have(P), not Far(P). Far(P) :- Far(P), Field(P,'A',_,_).\n"
        "Far(P) :- BlobHash(P,_). SelectAdvertised(P,S) :- Advertised(P,S)."
    ).program
    assert base_predicates(program, "SelectHave") == {"Have", "Field", "BlobHash"}
    assert base_predicates(program, "SelectAdvertised") == {"Advertised"}
    assert base_predicates(program, "Nothing") == frozenset()
