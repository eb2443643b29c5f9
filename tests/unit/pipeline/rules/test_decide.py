"""Decisions that random worlds seldom show; the random ones are in tests/backends."""

from typing import TYPE_CHECKING

import pytest

from bobbin.errors import UsageError
from bobbin.pipeline.rules.decide import MAY_SEND, Decided, Situation, decide
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.vocabulary import MAY_REQUEST, SELECT_HAVE
from tests.backends.wide_rows import wide_claims, wide_records
from tests.policy_worlds import ALICE, BOB, DING, EVERYTHING, SHOW_EVERYTHING, claims, plex, policy, record, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FACTS = stored(
    record(plex(1), App="ding", Group="u"),
    record(plex(2), App="note", Group="u", Level="closed"),
    record(plex(3), App="ding", Group="x"),
)
TOLD = claims(
    {plex(1): {"App": "ding", "Group": "u"}, plex(7): {"App": "ding", "Group": "u"}, plex(8): {"App": "note"}}
)
PROVEN = RuntimeFacts(here=ALICE, peer=BOB)


def names(decided: Decided) -> dict[str, list[str]]:
    return {name: sorted(row["record"] for row in frame.collect()) for name, frame in decided.records.items()}


def test_both_sides_must_agree(spark: "SparkSession") -> None:
    where = Situation(
        session=spark, records=wide_records(spark, FACTS), claims=wide_claims(spark, TOLD), runtime=PROVEN
    )
    decided = decide(policy(EVERYTHING, DING), where)
    assert names(decided) == {
        SELECT_HAVE: [plex(1), plex(2), plex(3)],
        MAY_SEND: [plex(1)],
        MAY_REQUEST: [plex(1), plex(7)],
    }
    assert decided.visible == 3


def test_a_record_outside_the_view_is_not_sent_even_if_it_is_named(spark: "SparkSession") -> None:
    where = Situation(session=spark, records=wide_records(spark, FACTS), runtime=PROVEN)
    query = "Queryable(P,O) :- Have(P), not Field(P,'Level',_,'closed'), Viewer(O).\n"
    naming = f"SelectHave('{plex(2)}').\nSelectHave(P) :- Field(P,'Group',_,'x').\n"
    decided = decide(policy(EVERYTHING, naming, query), where)
    assert names(decided)[MAY_SEND] == [plex(3)]
    assert names(decided)[MAY_REQUEST] == []
    assert decided.visible == 2


def test_a_peer_without_proof_is_refused(spark: "SparkSession") -> None:
    unproven = Situation(session=spark, records=wide_records(spark, FACTS))
    with pytest.raises(UsageError, match="has not proven"):
        decide(policy(EVERYTHING, query=SHOW_EVERYTHING), unproven)


def test_claims_of_somebody_else_are_refused(spark: "SparkSession") -> None:
    other = wide_claims(spark, claims({}, source="source:other"))
    where = Situation(session=spark, records=wide_records(spark, FACTS), claims=other, runtime=PROVEN)
    with pytest.raises(UsageError, match="the claims come from source:other"):
        decide(policy(EVERYTHING), where)
