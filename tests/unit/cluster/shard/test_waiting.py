import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    Average,
    CounterAdd,
    Embed,
    Operation,
    Put,
    ReadVersion,
    TableInsert,
    Transaction,
    VectorAdd,
)
from bobbin.cluster.shard.waiting import Waiting, moves_vectors, size_of

ONE = Embedding.of(4, {1: 1.0})


def made(*operations: Operation, reads: tuple[ReadVersion, ...] = ()) -> Transaction:
    """A transaction of these."""
    return Transaction(bytes(16), operations, reads)


def test_a_size_is_about_that_in_the_log() -> None:
    assert size_of(made(Put(b"k", bytes(400_000)))) == pytest.approx(400_000, rel=0.01)
    assert 100 < size_of(made(CounterAdd(b"c", 1), reads=(ReadVersion(b"r" * 100, 0),))) < 200


@pytest.mark.parametrize("operation", [Embed(b"k", ONE), VectorAdd(b"k", ONE), Average(b"k", ONE)])
def test_what_moves_a_vector_is_told_from_what_does_not(operation: Operation) -> None:
    assert moves_vectors(made(Put(b"a", b""), operation))
    assert not moves_vectors(made(Put(b"a", b""), CounterAdd(b"c", 1)))


def test_keys_are_known_by_what_they_are_compared_and_where_they_stand() -> None:
    waiting = Waiting(made(TableInsert(b"t", (b"1",)), CounterAdd(b"c", 1)), is_part=False, deadline_ms=0)
    assert waiting.kinds == {b"t": 0, b"c": 12}
    assert {key: tag for key, tag in waiting.writes.items() if not key.startswith(b"table:")} == {b"c": 12}
    assert len(waiting.writes) == 2
