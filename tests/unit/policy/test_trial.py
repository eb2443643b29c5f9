import pytest

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.trial import derive
from tests.policy_worlds import ALICE, BOB, DING, claims, plex, record, stored

_P, _Q = plex(1), plex(2)
_FACTS = stored(record(_P, Group="u", App="ding"), record(_Q, Group="v"))


def test_everything_that_rules_derive() -> None:
    selector = compile_selector(f"{DING}Grouped(G) :- Field(_,'Group',_,G).\nMe(V) :- Here(V).\n")
    derived = derive(selector, _FACTS, runtime=RuntimeFacts(here=ALICE), claims=claims({_Q: {}}))
    assert derived == {
        "Grouped": {("u",), ("v",)},
        "Me": {(ALICE,)},
        "SelectAdvertised": frozenset(),
        "SelectHave": {(_P,)},
    }


def test_without_claims_there_is_nothing_advertised() -> None:
    selector = compile_selector("SelectAdvertised(P,S) :- Advertised(P,S).")
    assert derive(selector, _FACTS, runtime=RuntimeFacts()) == {"SelectAdvertised": frozenset()}
    claimed = derive(selector, _FACTS, runtime=RuntimeFacts(), claims=claims({_P: {}}))
    assert claimed == {"SelectAdvertised": {(_P, BOB)}}


def test_a_query_module_sees_viewer_and_own_selection_but_no_claims() -> None:
    query = compile_query("Queryable(P,O) :- OwnSelected(P), Viewer(O).\nQueryable(P,P) :- Advertised(P,_).")
    seen = derive(
        query,
        _FACTS,
        runtime=RuntimeFacts(),
        claims=claims({_Q: {}}),
        viewer=Origin(BOB),
        own_selected=[_P],
    )
    assert seen == {"Queryable": {(_P, BOB)}}
    assert derive(query, _FACTS, runtime=RuntimeFacts(), own_selected=[_P]) == {"Queryable": frozenset()}


def test_limits_hold() -> None:
    selector = compile_selector("SelectHave(P) :- Have(P).")
    with pytest.raises(LimitExceeded):
        derive(selector, _FACTS, runtime=RuntimeFacts(), limits=Limits(derived_tuples_max=1))
