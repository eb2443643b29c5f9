import pytest

from bobbin.datalog.diagnostics import Fault, InvalidProgram
from bobbin.policy import vocabulary
from bobbin.policy.modules import compile_query, compile_selector

_BASE = {
    "Have": 1,
    "Field": 4,
    "RecordLink": 5,
    "BlobHash": 2,
    "PlexHash": 2,
    "Advertised": 2,
    "AdvertisedField": 5,
    "Here": 1,
    "Peer": 1,
    "Transport": 1,
    "TransportEncrypted": 0,
    "StartTAI": 1,
    "TickTAI": 1,
    "ClockSkewSeconds": 1,
    "Viewer": 1,
    "OwnSelected": 1,
}
_VIEW = ("Viewer", "OwnSelected")
_GENERATED = ("MaySend", "MayRequest", "EffectiveSend")
_CONTROL = (
    "ExchangePlan",
    "ExchangeOperand",
    "ExchangeParameter",
    "HelloExchangePlan",
    "HelloSomethingNew",
    "Hello",
    "AdvertisementPartition",
    "ListAdvertisementPartition",
    "NarrowAdvertisementPartition",
    "NotAvailable",
    "TickReady",
    "KnotProof",
)
_ROLES = ["selector", "query"]


def _faults(role: str, text: str) -> set[Fault]:
    try:
        if role == "selector":
            compile_selector(f"SelectHave(P) :- Have(P).\n{text}")
        else:
            compile_query(f"Queryable(P,O) :- Have(P), Viewer(O).\n{text}")
    except InvalidProgram as error:
        return {diagnostic.fault for diagnostic in error.diagnostics}
    return set()


def _fact(name: str, arity: int) -> str:
    constant = "'x'"
    return f"{name}({','.join([constant] * arity)})."


@pytest.mark.parametrize("role", _ROLES)
@pytest.mark.parametrize(("name", "arity"), _BASE.items())
def test_no_rule_defines_what_the_system_supplies(role: str, name: str, arity: int) -> None:
    assert _faults(role, _fact(name, arity)) == {Fault.SHADOWING}


@pytest.mark.parametrize("role", _ROLES)
@pytest.mark.parametrize("name", [*_GENERATED, *_CONTROL, "Eq"])
def test_no_rule_defines_what_the_protocol_or_the_language_owns(role: str, name: str) -> None:
    assert _faults(role, _fact(name, 2)) == {Fault.SHADOWING}


@pytest.mark.parametrize("role", _ROLES)
@pytest.mark.parametrize("name", [*_GENERATED, *_CONTROL])
def test_no_body_reads_control_or_generated_predicates(role: str, name: str) -> None:
    assert _faults(role, f"Helper(P) :- Have(P), not {name}(P).") == {Fault.FORBIDDEN_PREDICATE}


@pytest.mark.parametrize("role", _ROLES)
@pytest.mark.parametrize(("name", "arity"), [item for item in _BASE.items() if item[0] not in _VIEW])
def test_both_roles_read_every_shared_fact_with_its_arity(role: str, name: str, arity: int) -> None:
    arguments = ",".join(["_"] * arity)
    assert _faults(role, f"Helper('x') :- {name}({arguments}).") == set()
    assert _faults(role, f"Helper('x') :- {name}({','.join(['_'] * (arity + 1))}).") == {Fault.ARITY}


@pytest.mark.parametrize("name", _VIEW)
def test_viewer_and_own_selection_stand_only_in_query_modules(name: str) -> None:
    assert _faults("query", f"Helper(P) :- {name}(P).") == set()
    assert _faults("selector", f"Helper(P) :- {name}(P).") == {Fault.FORBIDDEN_PREDICATE}


def test_queryable_is_a_head_only_in_query_modules() -> None:
    assert _faults("query", "Queryable(P,O) :- OwnSelected(P), Viewer(O).") == set()
    assert _faults("selector", "Queryable(P,P) :- Have(P).") == {Fault.SHADOWING}


def test_a_name_that_merely_begins_alike_is_free() -> None:
    assert _faults("selector", "Haves(P) :- Have(P). MaySender(P) :- Have(P). KnotProofs(P) :- Have(P).") == set()


def test_a_selector_reads_these_facts_and_no_others() -> None:
    """IL-066: whatever else a machine knows of itself has no name in a peer's rules."""
    assert set(vocabulary.SELECTOR.base) == _BASE.keys() - set(_VIEW)
    assert set(vocabulary.QUERY.base) == _BASE.keys()
    for private in ("HostName", "StoreSize", "Clock", "WallTime"):
        assert _faults("selector", f"Helper(X) :- {private}(X).") == {Fault.UNKNOWN_PREDICATE}
