import time
from collections.abc import Iterator

import pytest

from bobbin.errors import UsageError
from bobbin.facts.extract import Fact, extract
from bobbin.facts.relations import Pattern, Tuple, agrees
from bobbin.policy.claims import Claims
from bobbin.policy.decide import Decision, Situation, decide, evaluate
from bobbin.policy.modules import deny_all_selector
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import RecordFacts
from bobbin.records.record import Record, build_plex
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
_CLOSURE = (
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').\n"
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Signed-By',_,V), "
    "ActiveMember(V).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), "
    "AdvertisedField(P,S,'App',_,'member').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), "
    "AdvertisedField(P,S,'App',_,'ding'), AdvertisedField(P,S,'Signed-By',_,V), ActiveMember(V).\n"
    "ActiveMember(V) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member'), Field(P,'Name',_,V).\n"
)
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


def test_equal_stores_without_advertisements_request_nothing() -> None:
    """ILC-081: not even records that both modules name."""
    named = "".join(f"SelectAdvertised('{hash}','{BOB}').\n" for hash in (_P, _Q)) + EVERYTHING
    assert decide(policy(named, named), situation(stored(record(_P)))).may_request == frozenset()


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


def test_a_module_that_names_another_origin_is_shown_no_more() -> None:
    """ILC-053: the view is made for the origin that setup assigned, whatever the rules say of themselves."""
    query = f"Queryable(P,'{ALICE}') :- Have(P).\nQueryable('{_P}','{BOB}') :- Have('{_P}').\n"
    peer = f"SelectHave(P) :- Have(P).\nOrigin('{ALICE}').\n"
    evaluation = evaluate(policy(EVERYTHING, peer, query), situation(stored(record(_P), record(_Q))))
    assert evaluation.visible == evaluation.decision.may_send == {_P}


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
    evidence = {"Group": "u", "App": "member", "Name": BOB}
    note = {"Group": "u", "App": "ding", "Signed_By": BOB}
    advertised = claims({_P: evidence, _Q: note})
    first = decide(policy(_CLOSURE, _CLOSURE), situation(stored(), advertised))
    assert first.may_request == {_P}
    then = decide(policy(_CLOSURE, _CLOSURE), situation(stored(record(_P, **evidence)), advertised))
    assert then.may_request == {_P, _Q}


def test_evidence_outside_the_view_makes_nobody_a_member() -> None:
    """IL-298: the closure example as the peer's module. It knows its members by the records that it may see."""
    evidence = record(_P, Group="u", App="member", Name=BOB)
    note = record(_Q, Group="u", App="ding", Signed_By=BOB)
    hidden = policy(EVERYTHING, _CLOSURE, _visible_only(_Q))
    shown = policy(EVERYTHING, _CLOSURE, _visible_only(_P, _Q))
    assert decide(hidden, situation(stored(evidence, note))).may_send == frozenset()
    assert decide(shown, situation(stored(evidence, note))).may_send == {_P, _Q}


def test_the_query_policy_reads_runtime_facts() -> None:
    """ILC-069."""
    query = "Queryable(P,O) :- Have(P), Viewer(O), TransportEncrypted(), Peer(O).\n"
    link, facts = policy(EVERYTHING, query=query), stored(record(_P))
    proven = RuntimeFacts(here=ALICE, peer=BOB, transport_encrypted=True)
    assert evaluate(link, situation(facts, runtime=proven)).visible == {_P}
    assert evaluate(link, situation(facts)).visible == frozenset()


def test_no_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """IL-069: a rule about time asks the tick, so one situation has one answer at any hour."""
    recent = "SelectHave(P) :- Have(P), Field(P,'TAI',_,D), TickTAI(T), TaiSub(T,'1000000000',S), Ge(D,S).\n"
    facts = stored(record(_P, TAI="1640995199:000000000"), record(_Q, TAI="1640995198:999999999"))
    runtime = RuntimeFacts(here=ALICE, peer=BOB, tick_tai="1640995200:000000000")
    for moment in (0, 1640995200, 4102444800):
        for name in ("time", "monotonic"):
            monkeypatch.setattr(time, name, lambda moment=moment: float(moment))
            monkeypatch.setattr(time, f"{name}_ns", lambda moment=moment: moment * 10**9)
        assert decide(policy(recent, recent), situation(facts, runtime=runtime)).may_send == {_P}


class _OnDemand:
    """Facts that are made from records when somebody asks, and not kept."""

    def __init__(self, *records: Record) -> None:
        self._records = records

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        return (values for record in self._records for name, values in extract(record) if name == predicate)

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        return (values for values in self.enumerate(predicate) if agrees(values, pattern))


def test_facts_made_on_demand_decide_like_facts_in_memory() -> None:
    """IL-287, IL-288: also for the peer's module, which sees them through its view."""
    shown = build_plex(group="u", app="ding", name="a", tai_ns=0, data=b"", extras=[("X", "1"), ("X", "2")])
    hidden = build_plex(group="u", app="secret", name="b", tai_ns=0, data=b"", extras=[("X", "2")])
    query = "Queryable(P,O) :- Have(P), not Field(P,'App',_,'secret'), Viewer(O).\n"
    asks = "SelectHave(P) :- Have(P), Field(P,'X',I,V), Field(Q,'X',J,V), Ne(I,J), Have(Q).\n"
    made = _OnDemand(shown, hidden)
    link = policy(EVERYTHING, asks, query)
    runtime = RuntimeFacts(here=ALICE, peer=BOB)
    decisions = []
    for facts in (made, RecordFacts.of_records([shown, hidden])):
        where = Situation(facts=facts, claims=Claims(Origin(BOB)), runtime=runtime)
        evaluation = evaluate(link, where)
        assert evaluation.visible == {shown.hash}
        decisions.append(evaluation.decision)
        open_link = policy(EVERYTHING, asks, SHOW_EVERYTHING)
        assert decide(open_link, where).may_send == {shown.hash, hidden.hash}
    assert decisions[0] == decisions[1] == Decision(may_send=frozenset(), may_request=frozenset())
