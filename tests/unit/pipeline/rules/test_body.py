"""Bodies that random programs seldom have: products, what is known beforehand, and what is plainly empty."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules.body import Derived, Known, derive
from bobbin.pipeline.rules.core import conjunctions
from bobbin.pipeline.rules.limits import DEFAULT, RuleLimits
from bobbin.pipeline.rules.relations import Relation, listed
from tests.backends.cores import VOCABULARY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Content = Mapping[str, tuple[int, Sequence[tuple[str, ...]]]]

EDGES = (2, [("a", "b"), ("b", "c")])
NODES = (1, [("b",), ("c",)])


def body(session: "SparkSession", rule: str, content: Content, limits: RuleLimits = DEFAULT) -> Derived | None:
    relations = {name: listed(session, arity, facts) for name, (arity, facts) in content.items()}
    (stratum,) = compile_program(rule, VOCABULARY).plan.strata
    return derive(conjunctions(stratum)[0], Known(session=session, relations=relations), limits)


def rows(derived: Derived | None) -> list[tuple[str, ...]]:
    assert derived is not None
    return sorted(tuple(row) for row in derived.frame.collect())


def test_a_relation_of_one_row_is_written_into_the_rule(spark: "SparkSession") -> None:
    found = body(spark, "P(X,Y,R) :- Edge(X,Y), Root(R), Ne(R,Y).", {"Edge": EDGES, "Root": (1, [("c",)])})
    assert rows(found) == [("a", "b", "c")]
    found = body(spark, "P(Y) :- Edge(X,Y), Root(X).", {"Edge": EDGES, "Root": (1, [("b",)])})
    assert rows(found) == [("c",)]


@pytest.mark.parametrize(
    "rule",
    ["P(X) :- Edge(X,_), Root('q').", "P(X) :- Edge(X,_), Root(R), Revoked(R).", "P(X) :- Edge(X,_), Node(X)."],
)
def test_what_is_plainly_empty_needs_no_spark(spark: "SparkSession", rule: str) -> None:
    assert body(spark, rule, {"Edge": EDGES, "Root": (1, [("c",)]), "Revoked": (1, [("d",)])}) is None


def test_a_product_needs_a_small_side(spark: "SparkSession") -> None:
    rule = "P(X,Y,N) :- Edge(X,Y), Node(N)."
    tight = structs.replace(DEFAULT, product_rows_max=2)
    assert len(rows(body(spark, rule, {"Edge": EDGES, "Node": NODES}, tight))) == 4
    with pytest.raises(LimitExceeded, match="share no variable") as caught:
        body(spark, rule, {"Edge": EDGES, "Node": NODES}, structs.replace(DEFAULT, product_rows_max=1))
    assert caught.value.limit == "product_rows_max"


def test_of_what_is_only_asked_for_one_row_is_enough(spark: "SparkSession") -> None:
    found = body(spark, "P(N) :- Edge(_,_), Node(N), not Edge('q',_).", {"Edge": EDGES, "Node": NODES})
    assert rows(found) == [("b",), ("c",)]
    assert body(spark, "P('yes') :- Edge(_,_), Node('b').", {"Edge": EDGES, "Node": NODES}) is not None


def test_a_semi_join_repeats_nothing(spark: "SparkSession") -> None:
    some = (2, [("b", "1"), ("b", "2"), ("c", "1")])
    more = (1, [("a",), ("b",), ("c",), ("d",)])
    found = body(spark, "P(N) :- Node(N), Edge(N,_).", {"Edge": some, "Node": more})
    assert rows(found) == [("b",), ("c",)]
    assert found is not None
    assert found.distinct


def test_given_rows_stand_in_for_a_scan(spark: "SparkSession") -> None:
    (stratum,) = compile_program("P(X,Z) :- Edge(X,Y), Edge(Y,Z).", VOCABULARY).plan.strata
    edges = listed(spark, *EDGES)
    known = Known(session=spark, relations={"Edge": edges})
    delta = listed(spark, 2, [("c", "d"), ("b", "e")])
    given = Relation(frame=delta.frame, arity=2, rows=2)
    assert rows(derive(conjunctions(stratum)[0], known, DEFAULT, {1: given})) == [("a", "e"), ("b", "d")]
