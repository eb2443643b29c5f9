"""The Merkle tree, against the vectors of the companion page and against a tree with all its padding built."""

from random import Random

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from bobbin.interlace import merkle
from bobbin.records import b64a

_ZERO, _ONE, _TWO = (blake3(bytes([number])).digest() for number in range(3))


def _padded_root(digests: list[bytes]) -> bytes:
    """The definition, word for word: every empty leaf is there and is hashed."""
    if not digests:
        return blake3(b"lace-advertisement-empty/v1").digest()
    size = 1
    while size < len(digests):
        size *= 2
    level = [blake3(b"lace-advertisement-leaf/v1" + digest).digest() for digest in sorted(digests)]
    level += [blake3(b"lace-advertisement-empty/v1").digest()] * (size - len(level))
    while len(level) > 1:
        level = [
            blake3(b"lace-advertisement-node/v1" + level[place] + level[place + 1]).digest()
            for place in range(0, len(level), 2)
        ]
    return level[0]


@pytest.mark.parametrize(
    ("digests", "text"),
    [
        ([], "fQB~weQlmPS~bN9N1hgdPaWtNxHyJCBjFLt1pYA6dxd"),
        ([_ZERO], "GnGx4iCJre9t0EcQhUmUkmkTs7W31pKFATjBSaEnMe_"),
        ([_ZERO, _ONE], "3~9Na4CBYhsaX4ratnCAEStvkysOBZcKHdWGfr0V4N_"),
        ([_ONE, _ZERO], "3~9Na4CBYhsaX4ratnCAEStvkysOBZcKHdWGfr0V4N_"),
        ([_ZERO, _ONE, _TWO], "r2TQx8r9OGsi1MX4R11T_opILzxCDKYmmaDxIBybGBW"),
        ([_TWO, _ZERO, _ONE], "r2TQx8r9OGsi1MX4R11T_opILzxCDKYmmaDxIBybGBW"),
    ],
)
def test_the_published_roots(digests: list[bytes], text: str) -> None:
    """ILC-105."""
    assert b64a.encode(merkle.root(digests)) == text


def test_a_leaf_is_the_hash_of_domain_and_digest() -> None:
    """IL-189."""
    assert merkle.leaf(_ZERO) == blake3(b"lace-advertisement-leaf/v1" + _ZERO).digest()


def test_a_node_keeps_its_children_in_order() -> None:
    """IL-190."""
    assert merkle.node(_ZERO, _ONE) == blake3(b"lace-advertisement-node/v1" + _ZERO + _ONE).digest()
    assert merkle.node(_ZERO, _ONE) != merkle.node(_ONE, _ZERO)


def test_empty_is_the_hash_of_its_domain() -> None:
    """IL-191."""
    assert blake3(b"lace-advertisement-empty/v1").digest() == merkle.EMPTY


def test_nothing_has_the_empty_root() -> None:
    """IL-193."""
    assert merkle.root([]) == merkle.EMPTY


def test_one_record_has_its_leaf_as_root() -> None:
    """ILC-104."""
    assert merkle.root([_ZERO]) == merkle.leaf(_ZERO)


def test_three_leaves_are_padded_at_the_right() -> None:
    """IL-192: the odd leaf is neither carried up nor doubled."""
    first, second, third = map(merkle.leaf, sorted([_ZERO, _ONE, _TWO]))
    assert merkle.root([_ZERO, _ONE, _TWO]) == merkle.node(merkle.node(first, second), merkle.node(third, merkle.EMPTY))


def test_five_leaves_are_padded_with_a_whole_empty_subtree() -> None:
    """IL-192."""
    digests = [bytes([number]) * 32 for number in range(5)]
    leaves = [merkle.leaf(digest) for digest in digests]
    left = merkle.node(merkle.node(*leaves[:2]), merkle.node(*leaves[2:4]))
    right = merkle.node(merkle.node(leaves[4], merkle.EMPTY), merkle.node(merkle.EMPTY, merkle.EMPTY))
    assert merkle.root(digests) == merkle.node(left, right)


def test_digests_are_sorted_and_leaves_are_not() -> None:
    """ILC-103: some pair of digests has leaves in the other order."""
    pairs = [(bytes([number]) * 32, bytes([number + 1]) * 32) for number in range(20)]
    pair = next(pair for pair in pairs if merkle.leaf(pair[0]) > merkle.leaf(pair[1]))
    assert merkle.root(pair) == merkle.node(merkle.leaf(pair[0]), merkle.leaf(pair[1]))


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=40), st.randoms())
def test_the_root_is_that_of_the_whole_tree_in_any_input_order(digests: list[bytes], random: Random) -> None:
    """IL-188."""
    expected = _padded_root(digests)
    random.shuffle(digests)
    assert merkle.root(digests) == expected
