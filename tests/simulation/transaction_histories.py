"""What the clients of a world of transactions saw of lists, for a checker that knows nothing of chains."""

from random import Random

from msgspec.structs import replace

from bobbin.simulator.transaction_clients import Status, Wanted, read_list
from bobbin.simulator.transaction_shape import WISHES, draw_shape
from bobbin.simulator.transaction_world import TransactionWorld
from tests.oracle.serializability import Append, Outcome, Read, Step, Transaction

_OUTCOMES = {
    Status.OPEN: Outcome.UNKNOWN,
    Status.UNKNOWN: Outcome.UNKNOWN,
    Status.COMMITTED: Outcome.COMMITTED,
    Status.REFUSED: Outcome.ABORTED,
}


def history_of(seed: int) -> list[Transaction]:
    """Of a world in which clients care for lists alone, every transaction that read one or wrote one."""
    wishes = tuple(6 * (wish == "append") + (wish == "audit") for wish in WISHES)
    shape = replace(draw_shape(Random(f"lists {seed}")), wishes=wishes)
    world = TransactionWorld(seed, shape=shape)
    world.run()
    return [found for found in map(_seen, world.book) if found.steps]


def _seen(wanted: Wanted) -> Transaction:
    steps: list[Step] = [Read(key, read_list(value)) for key, value in wanted.seen.items() if key.startswith(b"list")]
    steps += [Append(key, value) for key, value in wanted.appended]
    outcome = _OUTCOMES[wanted.status]
    return Transaction(
        client=str(wanted.client),
        steps=tuple(steps),
        outcome=outcome,
        called=wanted.called_ns,
        returned=None if outcome is Outcome.UNKNOWN else wanted.returned_ns,
    )
