"""Lowering once more, as the page has it: plain sets over the naive evaluator, sharing nothing with ``decide``."""

from collections.abc import Iterable
from random import Random

from bobbin.facts import relations
from bobbin.facts.relations import FactSource, Tuple
from bobbin.policy.claims import claim_source
from bobbin.policy.decide import Decision, Situation, decide
from bobbin.policy.modules import compile_query, compile_selector
from tests.oracle import naive
from tests.policy_worlds import (
    BOB,
    plex,
    policy,
    random_claims,
    random_query,
    random_record,
    random_selector,
    situation,
    stored,
)

_HASHES = [plex(number) for number in range(8)]


def _tuples(source: FactSource, predicates: Iterable[str]) -> dict[str, set[Tuple]]:
    return {name: set(source.enumerate(name)) for name in predicates}


def reference(own: str, peer: str, query: str, where: Situation) -> Decision:
    """Steps 1 to 6 as the page has them, and the view once more in step 5."""
    mine, theirs, view = compile_selector(own).program, compile_selector(peer).program, compile_query(query).program
    facts = _tuples(where.facts, relations.ARITY)
    advertised = _tuples(claim_source(where.claims), ("Advertised", "AdvertisedField"))
    runtime = {name: set(tuples) for name, tuples in where.runtime.tuples().items()}
    all_mine = naive.evaluate(mine.rules, facts | advertised | runtime)
    offer = naive.evaluate(mine.rules, facts | runtime).get("SelectHave", set())
    shown = naive.evaluate(view.rules, facts | runtime | {"Viewer": {(BOB,)}, "OwnSelected": offer})
    visible = {record for record, viewer in shown.get("Queryable", set()) if viewer == BOB}
    seen = {name: {values for values in tuples if values[0] in visible} for name, tuples in facts.items()}
    all_theirs = naive.evaluate(theirs.rules, seen | advertised | runtime)
    both_have = all_mine.get("SelectHave", set()) & all_theirs.get("SelectHave", set())
    both_claim = all_mine.get("SelectAdvertised", set()) & all_theirs.get("SelectAdvertised", set())
    return Decision(
        may_send=frozenset(record for (record,) in both_have & facts["Have"] if record in visible),
        may_request=frozenset(record for record, _ in both_claim & advertised["Advertised"]),
    )


def random_lowering(random: Random) -> tuple[Decision, Decision]:
    """What the reference decides in a random case, and what Bobbin decides."""
    own, peer, query = random_selector(random, _HASHES), random_selector(random, _HASHES), random_query(random)
    facts = stored(*(random_record(random, hash, _HASHES) for hash in _HASHES[:6]))
    where = situation(facts, random_claims(random, _HASHES))
    return reference(own, peer, query, where), decide(policy(own, peer, query), where)
