from bobbin.pipeline.rules.partition import Deal, find_partitioning, name_of, partitionings
from tests.backends.cores import core_of


def test_transitive_closure_falls_apart_by_its_source() -> None:
    core = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Edge(Y,Z).\n")
    (found,) = partitionings(core)
    assert found.keys == {"Tc": 0}
    assert found.deals == (Deal("in0", 0), Deal("in0", None))
    assert found.replicated() == ["in0"]
    assert [read.source.predicate for read in found.rules[1].reads] == ["Tc", name_of(Deal("in0", None))]


def test_from_the_other_end_it_falls_apart_by_its_target() -> None:
    core = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Edge(X,Y), Tc(Y,Z).\n")
    assert [found.keys for found in partitionings(core)] == [{"Tc": 1}]


def test_non_linear_closure_does_not_fall_apart() -> None:
    core = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Tc(Y,Z).\n")
    assert find_partitioning(core, {}) is None


def test_inside_a_group_nothing_is_replicated() -> None:
    core = core_of(
        "R(X,Y,G) :- Field(P,'Group',_,G), Field(P,'App',_,X), Field(P,'Name',_,Y).\n"
        "R(X,Z,G) :- R(X,Y,G), R(Y,Z,G), not Edge(G,Z).\n"
    )
    found = find_partitioning(core, {})
    assert found is not None
    assert found.keys == {"R": 2}
    assert found.replicated() == []
    (guard,) = found.rules[1].guards
    assert guard.needs() == {"G", "Z"}


def test_mutual_recursion_needs_one_key_for_all() -> None:
    core = core_of("A(G,X) :- Edge(G,X).\nA(G,Y) :- B(Y,G), Node(Y).\nB(Y,G) :- A(G,X), Edge(X,Y).\n")
    found = find_partitioning(core, {})
    assert found is not None
    assert found.keys == {"A": 0, "B": 1}


def test_a_key_that_is_anything_is_no_key() -> None:
    core = core_of("A(G,X) :- Edge(G,X).\nA(G,Y) :- A(_,Y), Edge(G,Y).\n")
    assert [found.keys for found in partitionings(core)] == [{"A": 1}]


def test_the_way_that_copies_least_is_taken() -> None:
    core = core_of("A(G,X) :- Edge(G,X).\nA(G,X) :- A(G,X), Node(G), Revoked(X).\n")
    names = {rule.reads[0].source.predicate: source.name for source in core.inputs for rule in source.rules}
    assert len(list(partitionings(core))) == 2
    many_nodes = find_partitioning(core, {names["Node"]: 1_000, names["Revoked"]: 1})
    few_nodes = find_partitioning(core, {names["Node"]: 1, names["Revoked"]: 1_000})
    assert many_nodes is not None
    assert few_nodes is not None
    assert (many_nodes.keys, few_nodes.keys) == ({"A": 0}, {"A": 1})


def test_predicates_without_arguments_have_no_key() -> None:
    core = core_of("A(X) :- Node(X).\nA(X) :- B(), Edge(X,_).\nB() :- A(X), Revoked(X).\n")
    assert find_partitioning(core, {}) is None
