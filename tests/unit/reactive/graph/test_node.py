from bobbin.reactive.graph import Graph
from bobbin.reactive.graph.node import TooDeep


def test_a_node_has_a_name_for_messages() -> None:
    graph = Graph()
    assert [graph.cell(1).name, graph.slot(int).name, graph.effect(int).name] == ["cell 0", "slot 1", "effect 2"]
    assert graph.cell(1, key="prices/tea").name == "cell 3 (prices/tea)"


def test_the_unwinding_is_not_caught_by_accident() -> None:
    assert not isinstance(TooDeep(Graph().cell(1)), Exception)
