"""Lowering: from a plan and one snapshot of facts to what may be sent and what may be requested (Lace-040).

On side ``i`` against peer ``j``, with ``F`` the facts of stored records, ``A`` the peer's advertisements and ``T`` the
runtime facts:

1. the own module runs over ``F + A + T``: everything this side knows;
2. the query module runs over ``F + T``, the viewer, and what the own module selects without ``A``: its answer is the
   peer's view ``Q``. No advertisement has a part in it, so a peer cannot widen its view by what it claims;
3. ``F_j`` is what ``F`` says about the records in ``Q``;
4. the peer's module runs over ``F_j + A + T`` and so never feels a record outside its view, not even by negation;
5. ``MaySend``: stored here, in ``Q``, and selected by both modules;
6. ``MayRequest``: advertised by the peer, and selected by both modules.

Step 5 asks for ``Q`` once more. A peer's module need not see a record to name it (it may hold its hash as a constant,
or find it as the target of a link), and a record outside the view is never sent.

Whatever no rule grants is denied. A decision is a value of its own type; it is neither fact nor claim.
"""

from collections.abc import Mapping

from msgspec import Struct

from bobbin.datalog.local.evaluate import State
from bobbin.errors import UsageError
from bobbin.facts import relations
from bobbin.facts.relations import FactSource
from bobbin.policy import vocabulary
from bobbin.policy.claims import Claims, claim_source
from bobbin.policy.executables import LocalPolicy, Part
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.views import FilteredSource, TupleSource, supply


class Situation(Struct, frozen=True, kw_only=True):
    """What one evaluation looks at: one snapshot of the store, of the peer's claims and of the running exchange."""

    facts: FactSource
    claims: Claims
    runtime: RuntimeFacts

    def holds(self, record: str) -> bool:
        """Whether a record is stored."""
        return next(self.facts.match(relations.HAVE, (record,)), None) is not None


class Decision(Struct, frozen=True, kw_only=True):
    """What one side may do with one peer, in one situation. What is not in here is denied."""

    may_send: frozenset[str]
    """Records that are stored here and may go to the peer."""
    may_request: frozenset[str]
    """Records that the peer advertises and that may come here, whether or not they are stored already."""


class Run(Struct, frozen=True, kw_only=True):
    """One program, what it read and what came out."""

    part: Part
    sources: Mapping[str, FactSource]
    state: State


class Evaluation(Struct, frozen=True, kw_only=True):
    """A decision with everything that led to it, for explanations. It stays on this machine."""

    policy: LocalPolicy
    situation: Situation
    visible: frozenset[str]
    """The peer's view: the records that its rules could look at."""
    own: Run
    offer: Run
    """The own module without advertisements; the same run as ``own`` where that makes no difference."""
    query: Run
    peer: Run
    decision: Decision


def decide(policy: LocalPolicy, situation: Situation) -> Decision:
    """What may be sent and requested. Raises ``PolicyLimitExceeded`` rather than shorten an answer."""
    return evaluate(policy, situation).decision


def evaluate(policy: LocalPolicy, situation: Situation) -> Evaluation:
    """The decision together with the runs behind it."""
    _check(policy, situation)
    origin = policy.peer_origin
    records = supply(relations.ARITY, situation.facts)
    runtime = supply(vocabulary.RUNTIME_ARITY, TupleSource(situation.runtime.tuples()))
    claims = supply(vocabulary.CLAIM_ARITY, claim_source(situation.claims))

    own = _run(policy, Part.OWN_SELECTOR, {**records, **claims, **runtime})
    offer = own
    if situation.claims and policy.offer_reads_claims:
        offer = _run(policy, Part.OWN_SELECTOR, {**records, **runtime})
    view_facts = {
        vocabulary.VIEWER: [(origin,)],
        vocabulary.OWN_SELECTED: offer.state.tuples(vocabulary.SELECT_HAVE),
    }
    query = _run(policy, Part.QUERY, {**records, **runtime, **supply(vocabulary.VIEW_ARITY, TupleSource(view_facts))})
    visible = frozenset(record for record, viewer in query.state.tuples(vocabulary.QUERYABLE) if viewer == origin)
    seen = supply(relations.ARITY, FilteredSource(situation.facts, visible))
    peer = _run(policy, Part.PEER_SELECTOR, {**seen, **claims, **runtime})
    return Evaluation(
        policy=policy,
        situation=situation,
        visible=visible,
        own=own,
        offer=offer,
        query=query,
        peer=peer,
        decision=Decision(
            may_send=_may_send(own.state, peer.state, visible, situation.facts),
            may_request=_may_request(own.state, peer.state, situation.claims),
        ),
    )


def _may_send(own: State, peer: State, visible: frozenset[str], facts: FactSource) -> frozenset[str]:
    selected = own.tuples(vocabulary.SELECT_HAVE) & peer.tuples(vocabulary.SELECT_HAVE)
    candidates = frozenset(record for (record,) in selected if record in visible)
    return frozenset(record for (record,) in FilteredSource(facts, candidates).enumerate(relations.HAVE))


def _may_request(own: State, peer: State, claims: Claims) -> frozenset[str]:
    selected = own.tuples(vocabulary.SELECT_ADVERTISED) & peer.tuples(vocabulary.SELECT_ADVERTISED)
    return frozenset(record for record, source in selected if source == claims.source and claims.advertises(record))


def _run(policy: LocalPolicy, part: Part, sources: Mapping[str, FactSource]) -> Run:
    return Run(part=part, sources=sources, state=policy.run(part, sources))


def _check(policy: LocalPolicy, situation: Situation) -> None:
    """Refuse a situation that belongs to another peer, or to one whose proof is missing."""
    origin = policy.peer_origin
    if situation.claims.source != origin:
        raise UsageError(f"the claims come from {situation.claims.source}, the plan is with {origin}")
    policy.check_proven(situation.runtime.peer)
