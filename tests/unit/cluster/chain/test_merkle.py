from hashlib import sha256
from itertools import combinations

from bobbin.cluster.chain.hashing import PLAIN
from bobbin.cluster.chain.merkle import root_of
from bobbin.cluster.operations import Put, Transaction, operation_digest
from tests.vectors.load import load

A, B, C, D = (bytes([number]) * 32 for number in range(1, 5))


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"bobbin-chain-node/v1" + left + right).digest()


def test_none_is_zeros_and_one_is_itself() -> None:
    assert root_of([]) == bytes(32)
    assert root_of([A]) == A


def test_an_odd_one_goes_up_as_it_is() -> None:
    assert root_of([A, B, C]) == _node(_node(A, B), C)
    assert root_of([A, B, C]) != root_of([A, B, C, C])
    assert root_of([A, B, C, D, A]) == _node(_node(_node(A, B), _node(C, D)), A)


def test_no_two_lists_have_one_root() -> None:
    lists = [[A], [A, A], [A, B], [B, A], [A, B, C], [A, B, C, C], [A, B, C, A, B, C], [A, B, C, D], [_node(A, B), C]]
    # The last one is a list of a node and a leaf, which no list of leaves can be: a leaf is hashed under another tag.
    assert root_of(lists.pop()) == root_of([A, B, C])
    for one, other in combinations(lists, 2):
        assert root_of(one) != root_of(other)


def test_a_leaf_is_hashed_under_another_tag_than_a_node() -> None:
    operation = Put(b"k", b"v")
    assert operation_digest(operation) == sha256(b"bobbin-chain-operation/v1\x01\0\0\0\x01k\0\0\0\x01v").digest()
    assert PLAIN.tx_root([Transaction(bytes(16), (operation,))]) == operation_digest(operation)


def test_the_root_is_over_all_operations_in_order() -> None:
    one, two, three = (Put(b"k", bytes([number])) for number in range(3))
    digests = [operation_digest(operation) for operation in (one, two, three)]
    assert PLAIN.tx_root([Transaction(bytes(16), (one, two)), Transaction(b"1" * 16, (three,))]) == root_of(digests)
    assert PLAIN.tx_root([Transaction(bytes(16), (two, one, three))]) != root_of(digests)
    assert root_of(digests).hex() == load("cluster/chain.json")["tx_root"]
