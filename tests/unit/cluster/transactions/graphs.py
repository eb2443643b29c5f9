"""Wait graphs to try things on."""

from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph


def tx(number: int) -> TxId:
    return TxId(number.to_bytes(16, "big"))


A, B, C, D = map(tx, range(4))


def waiting(*edges: tuple[TxId, TxId]) -> WaitForGraph:
    graph = WaitForGraph()
    holders: dict[TxId, list[TxId]] = {}
    for waiter, holder in edges:
        holders.setdefault(waiter, []).append(holder)
    for waiter, some in holders.items():
        graph.wait(waiter, some, started_ms=10, born_ms=5, priority=1)
    graph.check()
    return graph


def image(graph: WaitForGraph) -> tuple[object, ...]:
    return (
        {waiter: set(holders) for waiter, holders in graph.edges.items()},
        {holder: set(waiters) for holder, waiters in graph.reverse_edges.items()},
        dict(graph.wait_started),
        dict(graph.born),
        dict(graph.priorities),
    )
