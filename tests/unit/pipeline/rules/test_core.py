from bobbin.pipeline.rules.core import conjunctions
from tests.backends.cores import core_of, spelled


def test_literals_about_one_record_are_one_input() -> None:
    core = core_of(
        "Member(V) :- Root(V).\n"
        "Member(V) :- Member(W), Field(P,'Signed-By',_,W), Field(P,'App',_,'member'), Have(P), Field(P,'Name',_,V), "
        "not Revoked(V).\n"
    )
    assert spelled(core) == ["Member(X0) :- in0(X0)", "Member(V) :- Member(W), in1(V,W)"]
    (rule,) = core.inputs[1].rules
    assert [read.source.predicate for read in rule.reads] == ["Field", "Field", "Have", "Field"]
    assert len(rule.guards) == 1


def test_literals_that_could_multiply_are_inputs_of_their_own() -> None:
    core = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(A,D) :- Tc(A,B), Edge(B,C), Edge(C,D).\n")
    # The two edges are the same relation under other names, and so one input.
    assert spelled(core) == ["Tc(X0,X1) :- in0(X0,X1)", "Tc(A,D) :- Tc(A,B), in0(B,C), in0(C,D)"]


def test_a_literal_without_variables_of_its_own_is_a_filter() -> None:
    core = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Edge(Y,Z), Node(Z), Node(X).\n")
    assert spelled(core)[1] == "Tc(X,Z) :- Tc(X,Y), in1(Y,Z), in2(X)"


def test_what_needs_recursive_variables_stays_in_the_core() -> None:
    core = core_of(
        "Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Edge(Y,Z), not Revoked(X), Ne(X,Z), not Edge('a',_), Ne(Y,Z).\n"
    )
    assert spelled(core)[1] == "Tc(X,Z) :- Tc(X,Y), in3(Y,Z), Ne, not in1(X), not in2()"
    assert [source.arity for source in core.inputs] == [2, 1, 0, 2]


def test_inputs_keep_only_what_is_asked_for() -> None:
    core = core_of("Tc(X) :- Node(X).\nTc(Y) :- Tc(X), Edge(X,_), Edge(Y,_).\n")
    assert spelled(core)[1] == "Tc(Y) :- Tc(X), in1(X), in1(Y)"


def test_a_core_is_a_plan_over_its_inputs() -> None:
    core = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Tc(Y,Z), not Edge(Z,Z), Ne(X,Z).\n")
    (stratum,) = core.plan().strata
    assert stratum.recursive
    again = conjunctions(stratum)
    assert [rule.reads for rule in again] == [rule.reads for rule in core.rules]
    assert [rule.guards for rule in again] == [rule.guards for rule in core.rules]
