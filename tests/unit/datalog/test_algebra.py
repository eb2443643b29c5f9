from bobbin.datalog.algebra import Fixpoint, Join, Project, Scan, Union
from bobbin.datalog.syntax import Atom, Constant, Rule, Variable, Wildcard


def test_the_columns_of_a_scan_are_its_variables_in_order_of_appearance() -> None:
    scan = Scan("A", (Variable("Y"), Constant("c"), Variable("X"), Wildcard(), Variable("Y")))
    assert scan.variables() == ("Y", "X")
    assert Scan("A", ()).variables() == ()


def test_the_predicates_of_a_fixpoint() -> None:
    project = Project(Join(()), (), Rule(Atom("A", ())))
    assert Fixpoint((Union("A", (project,)), Union("B", (project,))), recursive=True).predicates == {"A", "B"}
