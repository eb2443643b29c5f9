"""A random exchange of two policies, decided by the node's own function and by frames over wide tables."""

from random import Random
from typing import TYPE_CHECKING

from bobbin.pipeline.rules.decide import MAY_SEND, Situation, decide
from bobbin.pipeline.rules.planner import Executor
from bobbin.policy import decide as node
from bobbin.policy.vocabulary import MAY_REQUEST, SELECT_HAVE
from tests.backends.wide_rows import wide_claims, wide_records
from tests.policy_worlds import (
    plex,
    policy,
    random_claims,
    random_query,
    random_record,
    random_selector,
    situation,
    stored,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HASHES = [plex(number) for number in range(8)]

_WHOLE = "Linked(P,R) :- Linked(P,Q), Linked(Q,R)."
_BY_KEY = "Linked(P,R) :- Linked(P,Q), RecordLink(Q,_,_,_,R)."
"""The recursion of a random selector as it is, and so written that it falls apart by where a chain begins."""


def check_lowering(session: "SparkSession", seed: int, executor: Executor | None = None) -> int:
    """Compare what may be sent and requested. Returns how many records that was.

    With an executor, the recursion of both policies is computed by that one.
    """
    random = Random(seed)
    own, peer, query = random_selector(random, _HASHES), random_selector(random, _HASHES), random_query(random)
    if executor is Executor.PARTITIONED:
        own, peer = own.replace(_WHOLE, _BY_KEY), peer.replace(_WHOLE, _BY_KEY)
    facts = stored(*(random_record(random, hash, _HASHES) for hash in _HASHES[:6]))
    where = situation(facts, random_claims(random, _HASHES))
    made = policy(own, peer, query)
    wanted = node.evaluate(made, where)
    found = decide(
        made,
        Situation(
            session=session,
            records=wide_records(session, facts),
            claims=wide_claims(session, where.claims),
            runtime=where.runtime,
        ),
        executor=executor,
    )
    if executor is not None:
        ran = {part for part, run in found.runs if "Linked" in run.predicates and run.executor is executor}
        assert ran, f"seed {seed}: nothing was computed by {executor}"
    names = {name: [row["record"] for row in frame.collect()] for name, frame in found.records.items()}
    assert all(len(rows) == len(set(rows)) for rows in names.values()), f"seed {seed}: a record stands twice"
    selected = {record for (record,) in wanted.own.state.tuples(SELECT_HAVE)}
    assert set(names[SELECT_HAVE]) == selected, f"seed {seed}: the own selection differs"
    assert set(names[MAY_SEND]) == wanted.decision.may_send, f"seed {seed}: what may be sent differs"
    assert set(names[MAY_REQUEST]) == wanted.decision.may_request, f"seed {seed}: what may be requested differs"
    assert found.visible == len(wanted.visible), f"seed {seed}: the peer's view differs"
    return len(wanted.decision.may_send) + len(wanted.decision.may_request)
