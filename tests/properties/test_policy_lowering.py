"""Laws of lowering, and lowering against a second one."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bobbin.policy.claims import Claims
from bobbin.policy.decide import Situation, decide, evaluate
from bobbin.policy.executables import Budgets, LocalPolicy
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.policy.operands import Operand, Origin
from bobbin.policy.plan import make_plan
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import RecordFacts
from tests.oracle.lowering import random_lowering
from tests.policy_worlds import (
    ALICE,
    plex,
    policy,
    random_claims,
    random_query,
    random_record,
    random_selector,
    situation,
    stored,
)
from tests.properties.effort import scaled

_HASHES = [plex(number) for number in range(8)]
_seeds = st.integers(min_value=0, max_value=2**32).map(Random)


def _store(random: Random) -> RecordFacts:
    return stored(*(random_record(random, hash, _HASHES) for hash in _HASHES[:6]))


@given(_seeds)
@scaled(0.60)
def test_lowering_is_what_the_page_says(random: Random) -> None:
    expected, actual = random_lowering(random)
    assert actual == expected


@given(_seeds)
@scaled(0.30)
def test_without_advertisements_nothing_is_requested(random: Random) -> None:
    """Whatever the two stores hold: two identical ones are a special case."""
    own, peer = random_selector(random, _HASHES), random_selector(random, _HASHES)
    assert decide(policy(own, peer, random_query(random)), situation(_store(random))).may_request == frozenset()


@given(_seeds)
@scaled(0.30)
def test_the_order_of_operands_changes_no_decision(random: Random) -> None:
    own, peer = (compile_selector(random_selector(random, _HASHES)) for _ in range(2))
    query = compile_query(random_query(random))
    mine, theirs = Origin("source:mine"), Origin("source:theirs")
    first, second = Operand(module=own.identifier, origin=mine), Operand(module=peer.identifier, origin=theirs)
    claimed = random_claims(random, _HASHES)
    where = Situation(
        facts=_store(random),
        claims=Claims(theirs, {record: claimed.fields(record) for record in claimed.records()}),
        runtime=RuntimeFacts(here=ALICE),
    )
    links = [
        LocalPolicy(make_plan(first, second), 0, own=own, peer=peer, query=query, budgets=Budgets()),
        LocalPolicy(make_plan(second, first), 1, own=own, peer=peer, query=query, budgets=Budgets()),
    ]
    assert links[0].plan.identifier != links[1].plan.identifier
    assert decide(links[0], where) == decide(links[1], where)


@given(_seeds)
@scaled(0.30)
def test_a_smaller_view_never_sends_more_to_a_module_without_negation(random: Random) -> None:
    own = random_selector(random, _HASHES)
    peer = random_selector(random, _HASHES, negation=False)
    assert "not " not in peer
    large = random.sample(_HASHES, random.randint(0, len(_HASHES)))
    small = random.sample(large, random.randint(0, len(large)))
    where = situation(_store(random), random_claims(random, _HASHES))
    sent = [
        decide(policy(own, peer, "".join(f"Queryable('{hash}',O) :- Viewer(O).\n" for hash in view)), where).may_send
        for view in (large, small)
    ]
    assert sent[1] <= sent[0]


@given(_seeds)
@scaled(0.30)
def test_every_grant_is_bounded_by_store_view_and_advertisement(random: Random) -> None:
    own, peer = random_selector(random, _HASHES), random_selector(random, _HASHES)
    where = situation(_store(random), random_claims(random, _HASHES))
    evaluation = evaluate(policy(own, peer, random_query(random)), where)
    assert evaluation.decision.may_send <= evaluation.visible
    assert all(where.holds(record) for record in evaluation.decision.may_send)
    assert evaluation.decision.may_request <= set(where.claims.records())


@given(_seeds)
@scaled(0.20)
def test_what_a_peer_claims_never_changes_its_view(random: Random) -> None:
    link = policy(random_selector(random, _HASHES), random_selector(random, _HASHES), random_query(random))
    facts = _store(random)
    views = [evaluate(link, situation(facts, random_claims(random, _HASHES))).visible for _ in range(2)]
    assert views[0] == views[1] == evaluate(link, situation(facts)).visible
