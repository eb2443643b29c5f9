import msgspec
import pytest

from bobbin.datalog.explanation import Bounds, Cut, Derived, Missing
from bobbin.policy.decide import Evaluation, evaluate
from bobbin.policy.executables import Part
from bobbin.policy.verdict import Check, Condition, Requesting, Sending, Verdict, explain
from tests.policy_worlds import BOB, DING, EVERYTHING, claims, plex, policy, record, situation, stored

_P, _Q, _R, _S = plex(1), plex(2), plex(3), plex(4)


def _evaluation(own: str = DING, peer: str = EVERYTHING, query: str | None = None) -> Evaluation:
    facts = stored(record(_P, Group="u", App="ding"), record(_Q, Group="v", App="ding"))
    advertised = claims({_P: {"Group": "u", "App": "ding"}, _R: {"Group": "u", "App": "ding"}, _S: {"Group": "u"}})
    return evaluate(policy(own, peer, query), situation(facts, advertised))


def _failing(conditions: tuple[Condition, ...]) -> list[Check]:
    return [condition.check for condition in conditions if not condition.holds]


def test_a_sent_record() -> None:
    verdict = explain(_evaluation(), _P)
    assert verdict.sending is Sending.SENT
    assert _failing(verdict.to_send) == []
    assert all(isinstance(condition.explanation, Derived) for condition in verdict.to_send[1:])


def test_a_record_that_is_stored_is_not_requested_though_it_might_be() -> None:
    evaluation = _evaluation()
    assert _P in evaluation.decision.may_request
    verdict = explain(evaluation, _P)
    assert verdict.requesting is Requesting.NOT_REQUESTED
    assert _failing(verdict.to_request) == [Check.NOT_STORED]


@pytest.mark.parametrize(
    ("own", "peer", "query", "refused"),
    [
        (DING, EVERYTHING, "Queryable(P,O) :- Have(P), Viewer(O).", Check.OWN_SELECTS),
        (EVERYTHING, EVERYTHING, "", Check.VISIBLE),
        (EVERYTHING, DING, None, Check.PEER_SELECTS),
    ],
)
def test_a_withheld_record_names_who_refused(own: str, peer: str, query: str | None, refused: Check) -> None:
    verdict = explain(_evaluation(own, peer, query), _Q)
    assert verdict.sending is Sending.WITHHELD
    (condition,) = [condition for condition in verdict.to_send if condition.check is refused]
    assert not condition.holds
    assert isinstance(condition.explanation, Missing)
    assert condition.facet == ("Queryable" if refused is Check.VISIBLE else "SelectHave")
    assert (
        condition.part
        is {
            Check.OWN_SELECTS: Part.OWN_SELECTOR,
            Check.VISIBLE: Part.QUERY,
            Check.PEER_SELECTS: Part.PEER_SELECTOR,
        }[refused]
    )
    first_refusal = next(condition for condition in verdict.to_send if not condition.holds)
    assert first_refusal.check is refused


def test_outside_its_view_the_peers_rules_are_not_argued_with() -> None:
    verdict = explain(_evaluation(EVERYTHING, f"SelectHave('{_Q}').", ""), _Q)
    assert verdict.sending is Sending.WITHHELD
    assert verdict.to_send[3].holds
    assert verdict.to_send[3].explanation is None


def test_a_requested_record() -> None:
    verdict = explain(_evaluation(), _R)
    assert verdict.requesting is Requesting.REQUESTED
    assert verdict.sending is Sending.WITHHELD
    assert _failing(verdict.to_request) == []


@pytest.mark.parametrize(
    ("own", "peer", "refused"), [(DING, EVERYTHING, Check.OWN_ACCEPTS), (EVERYTHING, DING, Check.PEER_ACCEPTS)]
)
def test_a_record_that_is_not_requested_names_who_refused(own: str, peer: str, refused: Check) -> None:
    verdict = explain(_evaluation(own, peer), _S)
    assert verdict.requesting is Requesting.NOT_REQUESTED
    assert _failing(verdict.to_request) == [refused]


def test_a_record_nobody_knows() -> None:
    verdict = explain(_evaluation(EVERYTHING), plex(9))
    assert (verdict.sending, verdict.requesting) == (Sending.WITHHELD, Requesting.NOT_REQUESTED)
    assert Check.STORED in _failing(verdict.to_send)
    assert Check.ADVERTISED in _failing(verdict.to_request)


def test_a_verdict_says_with_whom_and_under_what() -> None:
    evaluation = _evaluation()
    verdict = explain(evaluation, _P)
    assert verdict.record == _P
    assert str(verdict.peer) == str(BOB)
    assert verdict.plan == evaluation.policy.plan.identifier


def test_a_verdict_is_json() -> None:
    for hash in (_P, _Q, _R, _S):
        verdict = explain(_evaluation(), hash)
        decoded = msgspec.json.decode(msgspec.json.encode(verdict))
        assert decoded["sending"] in ("sent", "withheld")
        assert [condition["check"] for condition in decoded["to_send"]] == [
            "stored",
            "own-selects",
            "visible",
            "peer-selects",
        ]
        assert msgspec.convert(decoded, Verdict) == verdict


def test_bounds_reach_the_explanations() -> None:
    verdict = explain(_evaluation(), _P, Bounds(steps_max=1))
    assert isinstance(verdict.to_send[1].explanation, Cut)
    assert verdict.sending is Sending.SENT, "a cut explanation changes no decision"
