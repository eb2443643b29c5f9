"""What the clients of a world saw, for a checker that knows nothing of logs."""

from bobbin.cluster.key_value import Kind as OutcomeKind
from bobbin.simulator.raft_clients import Request, Verb
from bobbin.simulator.raft_world import RaftWorld
from tests.oracle.linearizability import Kind, Operation


def as_operation(request: Request) -> Operation:
    """A request as a black box saw it: nothing of places in a log."""
    kinds = {Verb.GET: Kind.GET, Verb.PUT: Kind.PUT, Verb.DELETE: Kind.DELETE}
    kind = kinds.get(request.verb, Kind.COMPARE_AND_SWAP)
    is_known = request.returned_ns is not None
    return Operation(
        client=request.client,
        key=request.key,
        kind=kind,
        called=request.called_ns,
        returned=request.returned_ns,
        value=request.value,
        expected=request.expected,
        is_swapped=request.kind is OutcomeKind.WRITTEN if is_known and kind is Kind.COMPARE_AND_SWAP else None,
    )


def history_of(seed: int) -> list[Operation]:
    """What the clients of one world saw."""
    world = RaftWorld(seed)
    world.run()
    return [as_operation(request) for request in world.book.requests if not request.is_void]
