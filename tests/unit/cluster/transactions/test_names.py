"""Ids say when they were made up."""

import pytest

from bobbin.cluster.transactions.names import TX_ID_BYTES, since_of, tx_id
from bobbin.errors import UsageError


def test_an_id_tells_its_height_and_sorts_by_it() -> None:
    one, other = tx_id(255, b"\xff" * 8), tx_id(256, bytes(8))
    assert (since_of(one), since_of(other)) == (255, 256)
    assert one < other
    assert len(one) == TX_ID_BYTES


@pytest.mark.parametrize("chance", [b"", b"seven by", b"nine bytes"[:9]])
def test_an_id_takes_eight_bytes_of_chance(chance: bytes) -> None:
    if len(chance) == 8:
        assert tx_id(0, chance).endswith(chance)
    else:
        with pytest.raises(UsageError):
            tx_id(0, chance)
