"""Ids say when they were made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster.transactions.names import TX_ID_BYTES, first_id, since_of, tx_id
from bobbin.errors import UsageError


def test_an_id_tells_its_height_and_sorts_by_it() -> None:
    one, other = tx_id(255, b"\xff" * 8), tx_id(256, bytes(8))
    assert (since_of(one), since_of(other)) == (255, 256)
    assert one < other
    assert len(one) == TX_ID_BYTES


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.binary(min_size=8, max_size=8))
def test_ids_are_in_order_with_the_first_ids_of_heights_as_their_heights_are(
    made: int, height: int, chance: bytes
) -> None:
    id = tx_id(made, chance)
    for near in (height, made, max(0, made - 1), made + 1):
        assert (first_id(near) <= id) == (near <= made)
        assert (id < first_id(near)) == (made < near)


@pytest.mark.parametrize("chance", [b"", b"seven by", b"nine bytes"[:9]])
def test_an_id_takes_eight_bytes_of_chance(chance: bytes) -> None:
    if len(chance) == 8:
        assert tx_id(0, chance).endswith(chance)
    else:
        with pytest.raises(UsageError):
            tx_id(0, chance)
