from collections.abc import Sequence
from hashlib import sha256

import pytest

from bobbin.cluster.chain.hashing import PLAIN, Hashing
from bobbin.cluster.chain.merkle import NODE_TAG, root_of
from bobbin.cluster.content_tree import EMPTY, ContentTree
from bobbin.cluster.operations import CounterAdd, Delete, Operation, Put, SetAdd, Transaction, operation_digest
from tests.vectors.load import load

_PUTS = tuple(Put(b"key %d" % number, b"data" * number) for number in range(5))
_ID = bytes(16)


class _Recorded(Hashing):
    """Notes what it is given instead of hashing it."""

    def __init__(self) -> None:
        self.given: list[Sequence[Put]] = []

    def root_of_puts(self, puts: Sequence[Put]) -> bytes:
        self.given.append(puts)
        return b"a root"


def test_known_bytes() -> None:
    root = load("cluster/chain.json")["tx_root"]
    puts = tuple(Put(b"k", bytes([number])) for number in range(3))
    assert PLAIN.root_of_puts(puts).hex() == PLAIN.tx_root([Transaction(_ID, puts)]).hex() == root


def test_a_root_of_puts_worked_out_by_hand() -> None:
    one, two, three = (
        sha256(
            b"bobbin-chain-operation/v1\x01\0\0\0\x05" + put.key + bytes([0, 0, 0, len(put.data)]) + put.data
        ).digest()
        for put in _PUTS[:3]
    )
    assert PLAIN.root_of_puts(_PUTS[:1]) == one
    node = sha256(NODE_TAG + one + two).digest()
    assert PLAIN.root_of_puts(_PUTS[:2]) == node
    assert PLAIN.root_of_puts(_PUTS[:3]) == sha256(NODE_TAG + node + three).digest()


@pytest.mark.parametrize("count", range(6))
def test_puts_are_hashed_as_any_operations_are(count: int) -> None:
    puts = _PUTS[:count]
    assert PLAIN.root_of_puts(puts) == root_of(map(operation_digest, puts))


@pytest.mark.parametrize("transactions", [[], [Transaction(_ID, ())], [Transaction(_ID, ())] * 3])
def test_nothing_is_zeros(transactions: list[Transaction]) -> None:
    assert PLAIN.tx_root(transactions) == PLAIN.root_of_puts([]) == bytes(32)


@pytest.mark.parametrize(
    "operations",
    [
        [(_PUTS[0],)],
        [_PUTS[:2], _PUTS[2:]],
        [(), _PUTS, (), (_PUTS[0],)],
        [(_PUTS[0], Delete(b"k"))],
        [_PUTS, (CounterAdd(b"n", 1),), _PUTS],
        [(SetAdd(b"s", b"m"),)],
    ],
)
def test_the_root_is_over_all_operations_in_order(operations: list[tuple[Operation, ...]]) -> None:
    transactions = [Transaction(bytes([number]) * 16, done) for number, done in enumerate(operations)]
    every = [operation for done in operations for operation in done]
    assert PLAIN.tx_root(transactions) == root_of(map(operation_digest, every))
    assert PLAIN.tx_root(transactions[::-1]) == root_of(
        operation_digest(operation) for done in operations[::-1] for operation in done
    )


def test_another_way_is_asked_for_puts_alone() -> None:
    recorded = _Recorded()
    assert (
        recorded.tx_root([Transaction(_ID, _PUTS[:2]), Transaction(_ID, ()), Transaction(_ID, _PUTS[2:])]) == b"a root"
    )
    assert [list(puts) for puts in recorded.given] == [list(_PUTS)]
    mixed = [Transaction(_ID, (*_PUTS, Delete(b"k")))]
    assert recorded.tx_root(mixed) == PLAIN.tx_root(mixed)
    assert len(recorded.given) == 1


def test_a_new_tree_is_empty_and_nobody_elses() -> None:
    one, other = PLAIN.new_tree(), PLAIN.new_tree()
    one.update([(b"a", b"1")])
    assert type(one) is type(other) is ContentTree
    assert (other.top, len(other)) == (EMPTY, 0)
