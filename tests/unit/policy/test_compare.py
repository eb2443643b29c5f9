from bobbin.policy.compare import PolicyChange, compare
from tests.policy_worlds import claims, plex, policy, record, situation, stored

_P, _Q, _R, _S = plex(1), plex(2), plex(3), plex(4)


def _group(name: str) -> str:
    return (
        f"SelectHave(P) :- Have(P), Field(P,'Group',_,'{name}').\n"
        f"SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'{name}').\n"
    )


_SITUATION = situation(
    stored(record(_P, Group="u"), record(_Q, Group="v")),
    claims({_P: {"Group": "v"}, _R: {"Group": "u"}, _S: {"Group": "v"}}),
)


def test_a_change_moves_records_both_ways() -> None:
    change = compare(policy(_group("u")), policy(_group("v")), _SITUATION)
    assert change == PolicyChange(
        newly_leave=frozenset({_Q}),
        no_longer_leave=frozenset({_P}),
        newly_arrive=frozenset({_S}),
        no_longer_arrive=frozenset({_R}),
    )
    assert not change.is_empty


def test_what_is_stored_does_not_arrive() -> None:
    change = compare(policy(_group("u")), policy(_group("u") + _group("v")), _SITUATION)
    assert change.newly_arrive == {_S}
    assert change.no_longer_arrive == frozenset()


def test_another_spelling_is_no_change() -> None:
    longer = _group("u").replace("Have(P),", "Have(P), Have(P),")
    assert compare(policy(_group("u")), policy(longer), _SITUATION).is_empty


def test_a_query_policy_changes_what_leaves() -> None:
    change = compare(policy(_group("u")), policy(_group("u"), query=""), _SITUATION)
    assert change.no_longer_leave == {_P}
    assert change.newly_leave == change.newly_arrive == change.no_longer_arrive == frozenset()


def test_what_is_refused_here_arrives_under_neither_policy() -> None:
    change = compare(policy(_group("u")), policy(_group("v")), _SITUATION)
    assert change.without_refused(frozenset()) == change
    refused = change.without_refused(frozenset({_P, _R, _S}))
    assert refused.newly_arrive == refused.no_longer_arrive == frozenset()
    assert refused.refused == {_S}
    assert refused.newly_leave == {_Q}, "what leaves is another matter"
    assert refused.no_longer_leave == {_P}
    only = PolicyChange(
        newly_leave=frozenset(),
        no_longer_leave=frozenset(),
        newly_arrive=frozenset({_S}),
        no_longer_arrive=frozenset(),
    )
    assert only.without_refused(frozenset({_S})).is_empty
