from bobbin.reactive.graph import Flush, Graph
from bobbin.reactive.messages import Edge


def test_a_flush_says_all_that_an_operation_did() -> None:
    graph = Graph()
    cell, doomed = graph.cell(1), graph.cell(2)
    slot = graph.slot(lambda: cell.get() + doomed.peek())
    lazy = graph.slot(lambda: cell.get() * 2)
    slot.get()
    lazy.get()
    flushes: list[Flush] = []
    graph.on_flush(flushes.append)
    with graph.batch():
        cell.set(5)
        new = graph.signal(lambda: cell.get() + 100)
        doomed.dispose()
    (flush,) = flushes
    assert flush == Flush(
        removed=(doomed.id,),
        added=(new,),
        edges_added=(Edge(new.id, cell.id),),
        cells=(cell,),
        stale=(slot, lazy),
    )
