from pathlib import Path

import pytest

from bobbin.datalog.canonicalise import identifier
from bobbin.datalog.limits import PEER as PEER_LIMITS
from bobbin.datalog.limits import Limits
from bobbin.errors import UsageError
from bobbin.interlace.limits import PROFILES
from bobbin.policy import executables
from bobbin.policy.decide import decide
from bobbin.policy.executables import BUDGETS, Budgets, LocalPolicy, Part, PolicyCache, PolicyLimitExceeded, make_policy
from bobbin.policy.modules import MalformedModule, compile_query, compile_selector
from bobbin.policy.operands import Operand, Origin
from bobbin.policy.plan import Plan, make_plan
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import RecordFacts
from bobbin.records.ids import Verifier
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

_CROSS = "SelectHave(P) :- Have(P), Have(Q), Have(R), Ne(Q,R).\n"
_OWN = compile_selector(EVERYTHING)


def _plan(peer_module: str, origin: str = BOB) -> Plan:
    peer = Operand(module=compile_selector(peer_module).identifier, origin=Origin(origin))
    own = Operand(module=_OWN.identifier, origin=Origin(ALICE))
    return make_plan(peer, own) if origin == BOB else make_plan(own, peer)


def _many(count: int) -> RecordFacts:
    return stored(*(record(plex(number)) for number in range(count)))


def test_a_policy_knows_both_sides() -> None:
    link = policy(EVERYTHING, DING)
    assert (link.index, str(link.own_origin), str(link.peer_origin)) == (1, str(ALICE), str(BOB))
    assert link.program(Part.OWN_SELECTOR) == link.own.program
    assert link.program(Part.PEER_SELECTOR) == link.peer.program
    assert link.program(Part.QUERY) == link.query.program


def test_modules_must_be_those_of_the_plan() -> None:
    plan = _plan(DING)
    other = compile_selector("SelectHave(P) :- Have(P).")
    ding = compile_selector(DING)
    with pytest.raises(UsageError):
        LocalPolicy(plan, 1, own=other, peer=ding, query=None, budgets=Budgets())
    with pytest.raises(UsageError):
        LocalPolicy(plan, 1, own=_OWN, peer=other, query=None, budgets=Budgets())
    with pytest.raises(UsageError):
        LocalPolicy(plan, 0, own=_OWN, peer=ding, query=None, budgets=Budgets())


def test_one_text_on_both_sides_still_runs_as_two_executables() -> None:
    """What a peer's run costs must not depend on what our run of the same text has seen."""
    link = policy(DING, DING)
    assert len({id(executable) for executable in link._executables.values()}) == 3


@pytest.mark.parametrize(
    ("own", "peer", "query", "part"),
    [
        (_CROSS, EVERYTHING, None, Part.OWN_SELECTOR),
        (EVERYTHING, _CROSS, None, Part.PEER_SELECTOR),
        (EVERYTHING, EVERYTHING, "Queryable(P,O) :- Have(P), Have(Q), Have(R), Ne(Q,R), Viewer(O).", Part.QUERY),
    ],
)
def test_each_program_has_a_budget_and_its_error_names_it(own: str, peer: str, query: str | None, part: Part) -> None:
    budgets = Budgets(own=Limits(steps_max=20_000), peer=Limits(steps_max=20_000))
    link = policy(own, peer, query, budgets=budgets)
    with pytest.raises(PolicyLimitExceeded) as stopped:
        decide(link, situation(_many(60)))
    assert stopped.value.part is part
    assert stopped.value.limit == "steps_max"


def test_what_a_peer_wrote_may_cost_less_by_default() -> None:
    budgets = Budgets()
    assert budgets.peer.steps_max < budgets.own.steps_max
    assert budgets.peer.derived_tuples_max < budgets.own.derived_tuples_max
    assert budgets.peer.rounds_max < budgets.own.rounds_max


def test_every_profile_of_limits_has_budgets_and_the_large_one_has_larger_ones() -> None:
    assert set(BUDGETS) == set(PROFILES)
    small, large = BUDGETS["default"], BUDGETS["large"]
    for one, another in ((small.own, large.own), (small.peer, large.peer), (large.peer, large.own)):
        for name in ("derived_tuples_max", "steps_max", "computed_values_max", "held_cells_max"):
            assert getattr(one, name) < getattr(another, name), name
    assert small.peer is PEER_LIMITS


def test_too_many_tuples_are_an_error_and_no_shorter_answer() -> None:
    budgets = Budgets(peer=Limits(derived_tuples_max=10))
    with pytest.raises(PolicyLimitExceeded) as stopped:
        decide(policy(EVERYTHING, budgets=budgets), situation(_many(11)))
    assert stopped.value.limit == "derived_tuples_max"


def test_a_known_plan_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = PolicyCache()
    first = cache.prepare(_plan(DING), 1, own=_OWN, peer_module=DING.encode())
    monkeypatch.setattr(executables, "receive_selector", None)
    assert cache.prepare(_plan(DING), 1, own=_OWN, peer_module=DING.encode()) is first


def test_a_known_plan_is_still_authenticated() -> None:
    cache = PolicyCache()
    cache.prepare(_plan(DING), 1, own=_OWN, peer_module=DING.encode())
    with pytest.raises(MalformedModule):
        cache.prepare(_plan(DING), 1, own=_OWN, peer_module=EVERYTHING.encode())
    with pytest.raises(UsageError):
        cache.prepare(_plan(DING), 1, own=compile_selector(DING), peer_module=DING.encode())


def test_another_query_policy_is_another_policy() -> None:
    cache = PolicyCache()
    default = cache.prepare(_plan(DING), 1, own=_OWN, peer_module=DING.encode())
    closed = cache.prepare(_plan(DING), 1, own=_OWN, peer_module=DING.encode(), query=compile_query(""))
    assert closed is not default
    assert closed.query.program.rules == ()


def test_a_cached_policy_decides_like_a_fresh_one() -> None:
    facts = stored(record(plex(1), Group="u", App="ding"), record(plex(2), Group="v", App="ding"))
    cache = PolicyCache()
    for _ in range(2):
        cached = cache.prepare(_plan(DING), 1, own=_OWN, peer_module=DING.encode())
        fresh = make_policy(_OWN, compile_selector(DING), own_origin=Origin(ALICE), peer_origin=Origin(BOB))
        assert decide(cached, situation(facts)) == decide(fresh, situation(facts))
        assert decide(cached, situation(facts)).may_send == {plex(1)}


def test_a_bad_module_is_not_kept() -> None:
    cache = PolicyCache()
    bad = b"SelectHave(P) :- Have(Q).\n"
    operand = Operand(module=identifier(bad), origin=Origin(BOB))
    plan = make_plan(operand, Operand(module=_OWN.identifier, origin=Origin(ALICE)))
    with pytest.raises(MalformedModule):
        cache.prepare(plan, 1, own=_OWN, peer_module=bad)
    assert len(cache) == 0


def _module(number: int) -> str:
    return f"SelectHave(P) :- Have(P), Field(P,'App',_,'{number}').\n"


def test_a_peer_pushes_out_only_its_own_plans() -> None:
    cache = PolicyCache(plans_per_peer_max=2)
    kept = cache.prepare(_plan(DING, "source:quiet"), 0, own=_OWN, peer_module=DING.encode())
    first = cache.prepare(_plan(_module(0)), 1, own=_OWN, peer_module=_module(0).encode())
    for number in range(1, 5):
        cache.prepare(_plan(_module(number)), 1, own=_OWN, peer_module=_module(number).encode())
    assert len(cache) == 3
    assert cache.prepare(_plan(DING, "source:quiet"), 0, own=_OWN, peer_module=DING.encode()) is kept
    assert cache.prepare(_plan(_module(0)), 1, own=_OWN, peer_module=_module(0).encode()) is not first


def test_what_is_used_stays() -> None:
    cache = PolicyCache(plans_per_peer_max=2)
    first = cache.prepare(_plan(_module(0)), 1, own=_OWN, peer_module=_module(0).encode())
    for number in range(1, 4):
        cache.prepare(_plan(_module(number)), 1, own=_OWN, peer_module=_module(number).encode())
        assert cache.prepare(_plan(_module(0)), 1, own=_OWN, peer_module=_module(0).encode()) is first


def test_the_number_of_peers_is_bounded_too() -> None:
    cache = PolicyCache(peers_max=3)
    for number in range(10):
        cache.prepare(_plan(DING, f"source:{number}"), 0, own=_OWN, peer_module=DING.encode())
    assert len(cache) == 3
    cache.forget(Origin("source:9"))
    assert len(cache) == 2
    with pytest.raises(UsageError):
        PolicyCache(peers_max=0)


def test_a_query_policy_leaves_no_trace_in_the_plan() -> None:
    """ILC-055: the plan is what the peer learns, and it names the two selectors only."""
    plans = {policy(EVERYTHING, DING, query).plan.canonical for query in (None, "", SHOW_EVERYTHING)}
    assert len(plans) == 1
    assert b"query" not in plans.pop()


def test_both_sides_evaluate_one_plan_each_with_its_own_verifier() -> None:
    """IL-068, IL-123: the verifier of the evaluating side is a parameter, not a part of the plan."""
    mine = "SelectHave(P) :- Have(P), Here(V), Field(P,'Signed-By',_,V).\n"
    facts = stored(record(plex(1), Signed_By=ALICE), record(plex(2), Signed_By=BOB))
    sides = (
        (policy(mine, mine, SHOW_EVERYTHING), RuntimeFacts(here=ALICE, peer=BOB), BOB),
        (
            policy(mine, mine, SHOW_EVERYTHING, own_origin=BOB, peer_origin=ALICE),
            RuntimeFacts(here=BOB, peer=ALICE),
            ALICE,
        ),
    )
    assert len({link.plan.canonical for link, _, _ in sides}) == 1
    assert len({link.plan.identifier for link, _, _ in sides}) == 1
    sent = [decide(link, situation(facts, claims({}, peer), runtime)).may_send for link, runtime, peer in sides]
    assert sent == [{plex(1)}, {plex(2)}]


def test_plans_of_one_peer_are_kept_apart() -> None:
    """IL-021: no plan gets the executables of another one, however often both are asked for."""
    facts = stored(record(plex(1), App="1"), record(plex(2), App="2"))
    cache = PolicyCache()
    for _ in range(2):
        for number in (1, 2):
            link = cache.prepare(_plan(_module(number)), 1, own=_OWN, peer_module=_module(number).encode())
            assert link.plan == _plan(_module(number))
            assert decide(link, situation(facts)).may_send == {plex(number)}


@pytest.mark.parametrize(
    ("own", "reads"),
    [
        (EVERYTHING, False),
        (DING, False),
        ("SelectHave(P) :- Have(P), Advertised(P,_).\n", True),
        ("SelectHave(P) :- Have(P), Known(P).\nKnown(P) :- AdvertisedField(P,_,'Group',_,'u').\n", True),
    ],
)
def test_whether_an_offer_can_depend_on_claims(own: str, *, reads: bool) -> None:
    assert policy(own).offer_reads_claims is reads


def test_a_plan_with_a_verifier_wants_the_proof_of_that_one() -> None:
    link = policy(DING)
    link.check_proven(Verifier(str(link.peer_origin)))
    for peer in (None, Verifier(ALICE)):
        with pytest.raises(UsageError, match="which this link has not proven"):
            link.check_proven(peer)


def test_the_page_has_the_budgets_as_they_are() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "protocols" / "policy.md").read_text(encoding="utf-8")
    columns = [limits for budgets in BUDGETS.values() for limits in (budgets.own, budgets.peer)]
    for words, name in (
        ("derived tuples", "derived_tuples_max"),
        ("steps", "steps_max"),
        ("rounds", "rounds_max"),
        ("computed texts", "computed_values_max"),
        ("values of one join in memory", "held_cells_max"),
    ):
        assert f"| {words} | {' | '.join(f'{getattr(limits, name):,}' for limits in columns)} |" in page


def test_a_cache_of_one_is_a_cache() -> None:
    assert len(PolicyCache(plans_per_peer_max=1, peers_max=1)) == 0
