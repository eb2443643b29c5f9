import pytest

from bobbin.errors import UsageError
from bobbin.facts.extract import Fact
from bobbin.policy.claims import Claims
from bobbin.policy.decide import decide, evaluate
from bobbin.policy.modules import deny_all_selector
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from tests.policy_worlds import (
    ALICE,
    BOB,
    DING,
    EVERYTHING,
    SHOW_EVERYTHING,
    claims,
    plex,
    policy,
    record,
    situation,
    stored,
)

_P, _Q, _R = plex(1), plex(2), plex(3)
_NOTHING = "SelectHave(P) :- Have(P), not Have(P).\n"


def _visible_only(*records: str) -> str:
    return "".join(f"Queryable('{hash}',O) :- Viewer(O).\n" for hash in records)


def test_both_sides_must_select() -> None:
    facts = stored(record(_P, Group="u", App="ding"), record(_Q, Group="u", App="x"), record(_R, Group="v", App="ding"))
    group_u = "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
    app_ding = "SelectHave(P) :- Have(P), Field(P,'App',_,'ding').\n"
    assert decide(policy(group_u, app_ding), situation(facts)).may_send == {_P}
    assert decide(policy(app_ding, group_u), situation(facts)).may_send == {_P}
    assert decide(policy(group_u, EVERYTHING), situation(facts)).may_send == {_P, _Q}


def test_nothing_is_granted_that_no_rule_grants() -> None:
    facts = stored(record(_P, Group="u", App="ding"))
    advertised = claims({_Q: {"Group": "u", "App": "ding"}})
    nobody = deny_all_selector().canonical.decode()
    for own, peer in ((nobody, EVERYTHING), (EVERYTHING, nobody), (nobody, nobody)):
        decision = decide(policy(own, peer), situation(facts, advertised))
        assert decision.may_send == frozenset()
        assert decision.may_request == frozenset()


def test_a_missing_export_is_the_empty_set() -> None:
    facts, advertised = stored(record(_P)), claims({_Q: {}})
    only_send = "SelectHave(P) :- Have(P).\n"
    only_request = "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    decision = decide(policy(only_send), situation(facts, advertised))
    assert (decision.may_send, decision.may_request) == (frozenset({_P}), frozenset())
    decision = decide(policy(only_request), situation(facts, advertised))
    assert (decision.may_send, decision.may_request) == (frozenset(), frozenset({_Q}))


def test_a_selected_name_that_is_not_stored_is_not_sent() -> None:
    named = f"SelectHave('{_P}').\nSelectHave('{_Q}').\n"
    decision = decide(policy(named, named, _visible_only(_P, _Q)), situation(stored(record(_P))))
    assert decision.may_send == {_P}


def test_requests_need_an_advertisement_and_both_selectors() -> None:
    advertised = claims({_P: {"Group": "u", "App": "ding"}, _Q: {"Group": "u", "App": "x"}})
    assert decide(policy(DING), situation(stored(), advertised)).may_request == {_P}
    assert decide(policy(EVERYTHING, DING), situation(stored(), advertised)).may_request == {_P}
    unadvertised = f"SelectAdvertised('{_R}','{BOB}').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    assert decide(policy(unadvertised, unadvertised), situation(stored(), advertised)).may_request == {_P, _Q}


def test_a_selection_of_another_sources_advertisement_counts_for_nothing() -> None:
    foreign = f"SelectAdvertised(P,'{ALICE}') :- Advertised(P,_).\n"
    assert decide(policy(foreign, foreign), situation(stored(), claims({_P: {}}))).may_request == frozenset()


def test_claims_are_no_record_facts() -> None:
    advertised = claims({_P: {"Group": "u"}})
    asks_facts = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S), Field(P,'Group',_,'u').\n"
    decision = decide(policy(asks_facts), situation(stored(), advertised))
    assert decision.may_send == frozenset()
    assert decision.may_request == frozenset()


def test_record_facts_are_no_claims() -> None:
    asks_claims = "SelectHave(P) :- Have(P), AdvertisedField(P,_,'Group',_,'u').\n"
    assert decide(policy(asks_claims), situation(stored(record(_P, Group="u")))).may_send == frozenset()


def test_the_own_module_sees_everything_and_the_peers_only_its_view() -> None:
    facts = stored(record(_P, Group="u"), record(_Q, Group="secret"))
    asks = "SelectHave(P) :- Have(P), Field(Q,'Group',_,'secret'), Ne(P,Q).\n"
    query = _visible_only(_P)
    assert decide(policy(asks, EVERYTHING, query), situation(facts)).may_send == {_P}
    assert decide(policy(EVERYTHING, asks, query), situation(facts)).may_send == frozenset()


def test_negation_of_the_peer_is_tested_in_its_view() -> None:
    facts = stored(record(_P, Group="u"), record(_Q, Revokes=_P))
    unless = "SelectHave(P) :- Have(P), not Field(_,'Revokes',_,P).\n"
    assert decide(policy(EVERYTHING, unless, _visible_only(_P, _Q)), situation(facts)).may_send == {_Q}
    assert decide(policy(EVERYTHING, unless, _visible_only(_P)), situation(facts)).may_send == {_P}


@pytest.mark.parametrize(
    ("extra", "literal"),
    [
        (("Have", (_Q,)), "Have(Q), Ne(Q,P)"),
        (("Field", (_Q, "A", "0", "x")), "Field(Q,'A',_,_), Ne(Q,P)"),
        (("RecordLink", (_Q, "+Link", "0", "a", _P)), "RecordLink(Q,_,_,_,P)"),
        (("BlobHash", (_Q, _P)), "BlobHash(Q,P)"),
        (("PlexHash", (_Q, _P)), "PlexHash(Q,P)"),
    ],
)
def test_each_of_the_five_relations_is_filtered(extra: Fact, literal: str) -> None:
    facts = stored(record(_P), [extra])
    asks = f"SelectHave(P) :- Have(P), {literal}.\n"
    assert decide(policy(EVERYTHING, asks, _visible_only(_P)), situation(facts)).may_send == frozenset()
    assert _P in decide(policy(EVERYTHING, asks, _visible_only(_P, _Q)), situation(facts)).may_send


@pytest.mark.parametrize(
    "peer",
    [
        f"SelectHave('{_Q}').\n",
        "SelectHave(P) :- Advertised(P,_).\n",
        "SelectHave(Q) :- Have(P), RecordLink(P,_,_,_,Q).\n",
    ],
    ids=["named", "claimed", "linked"],
)
def test_a_record_outside_the_view_is_never_sent_however_the_peer_names_it(peer: str) -> None:
    facts = stored(record(_P), [("RecordLink", (_P, "+Link", "0", "to", _Q))], record(_Q))
    advertised = claims({_Q: {}})
    hidden = decide(policy(EVERYTHING, peer, _visible_only(_P)), situation(facts, advertised))
    shown = decide(policy(EVERYTHING, peer, _visible_only(_P, _Q)), situation(facts, advertised))
    assert _Q not in hidden.may_send
    assert _Q in shown.may_send


def test_without_query_policy_the_peer_sees_what_is_offered_anyway() -> None:
    facts = stored(record(_P, Group="u", App="ding"), record(_Q, Group="private"))
    assert evaluate(policy(DING), situation(facts)).visible == {_P}


def test_the_empty_query_policy_shows_nothing() -> None:
    evaluation = evaluate(policy(EVERYTHING, query=""), situation(stored(record(_P)), claims({_Q: {}})))
    assert evaluation.visible == frozenset()
    assert evaluation.decision.may_send == frozenset()
    assert evaluation.decision.may_request == {_Q}, "advertisements are no part of the view"


def test_a_view_is_made_for_its_viewer() -> None:
    query = f"Queryable(P,'{ALICE}') :- Have(P).\nQueryable('{_P}','{BOB}') :- Have('{_P}').\n"
    evaluation = evaluate(policy(EVERYTHING, query=query), situation(stored(record(_P), record(_Q))))
    assert evaluation.visible == {_P}


def test_claims_are_no_input_of_the_query_policy() -> None:
    query = "Queryable(P,O) :- Advertised(P,_), Viewer(O).\nQueryable(P,O) :- AdvertisedField(P,_,_,_,_), Viewer(O).\n"
    facts = stored(record(_P))
    evaluation = evaluate(policy(EVERYTHING, query=query), situation(facts, claims({_P: {"Group": "u"}})))
    assert evaluation.visible == frozenset()


def test_claims_do_not_widen_the_view_through_the_own_selection() -> None:
    """A peer that claims a hidden record must not come to see it because our selector then chooses it."""
    own = "SelectHave(P) :- Have(P), Advertised(P,_).\n"
    facts = stored(record(_P))
    evaluation = evaluate(policy(own), situation(facts, claims({_P: {}})))
    assert evaluation.own.state.tuples("SelectHave") == {(_P,)}
    assert evaluation.visible == frozenset()
    assert evaluation.decision.may_send == frozenset()
    shown = decide(policy(own, query=SHOW_EVERYTHING), situation(facts, claims({_P: {}})))
    assert shown.may_send == {_P}


def test_helpers_of_the_two_modules_never_meet() -> None:
    own = "SelectHave(P) :- Helper(P).\nHelper(P) :- Have(P), Field(P,'Group',_,'u').\n"
    peer = "SelectHave(P) :- Helper(P).\nHelper(P) :- Have(P), Field(P,'Group',_,'v').\n"
    facts = stored(record(_P, Group="u"), record(_Q, Group="v"))
    assert decide(policy(own, peer, SHOW_EVERYTHING), situation(facts)).may_send == frozenset()


def test_a_fact_in_a_module_changes_no_origin() -> None:
    peer = f"SelectHave(P) :- Have(P).\nOrigin('{ALICE}').\n"
    evaluation = evaluate(policy(EVERYTHING, peer, _visible_only(_P)), situation(stored(record(_P), record(_Q))))
    assert evaluation.policy.peer_origin == Origin(BOB)
    assert evaluation.visible == {_P}


def test_runtime_facts_reach_both_modules() -> None:
    runtime = RuntimeFacts(here=ALICE, peer=BOB, transport_encrypted=True, tick_tai="1640995200:000000000")
    asks = (
        "SelectHave(P) :- Have(P), TransportEncrypted(), Peer(V), Here(W), Ne(V,W), TickTAI(T), "
        "Field(P,'TAI',_,D), Le(D,T).\n"
    )
    facts = stored(record(_P, TAI="1640995199:999999999"), record(_Q, TAI="1640995200:000000001"))
    assert decide(policy(asks, asks), situation(facts, runtime=runtime)).may_send == {_P}
    plain = RuntimeFacts(here=ALICE, peer=BOB, tick_tai="1640995200:000000000")
    assert decide(policy(asks, asks), situation(facts, runtime=plain)).may_send == frozenset()


def test_an_unproven_verifier_is_not_evaluated() -> None:
    for runtime in (RuntimeFacts(here=ALICE), RuntimeFacts(here=ALICE, peer=ALICE)):
        with pytest.raises(UsageError):
            decide(policy(EVERYTHING), situation(stored(record(_P)), runtime=runtime))


def test_an_anonymous_peer_needs_no_proof() -> None:
    link = policy(EVERYTHING, peer_origin="source:1")
    empty = Claims(Origin("source:1"))
    decision = decide(link, situation(stored(record(_P)), empty, RuntimeFacts(here=ALICE)))
    assert decision.may_send == {_P}


def test_claims_of_another_source_are_refused() -> None:
    with pytest.raises(UsageError):
        decide(policy(EVERYTHING), situation(stored(), claims({_P: {}}, source="source:0")))


def test_evidence_opens_the_way_for_more() -> None:
    """The closure example of Lace-050: members are known by stored evidence."""
    rules = (
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').\n"
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Signed-By',_,V), "
        "ActiveMember(V).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), "
        "AdvertisedField(P,S,'App',_,'member').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), "
        "AdvertisedField(P,S,'App',_,'ding'), AdvertisedField(P,S,'Signed-By',_,V), ActiveMember(V).\n"
        "ActiveMember(V) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member'), Field(P,'Name',_,V).\n"
    )
    evidence = {"Group": "u", "App": "member", "Name": BOB}
    note = {"Group": "u", "App": "ding", "Signed_By": BOB}
    advertised = claims({_P: evidence, _Q: note})
    first = decide(policy(rules, rules), situation(stored(), advertised))
    assert first.may_request == {_P}
    then = decide(policy(rules, rules), situation(stored(record(_P, **evidence)), advertised))
    assert then.may_request == {_P, _Q}
