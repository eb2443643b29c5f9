import math
from random import Random
from struct import pack

import pytest

from bobbin.cluster.chain.quantising import LEVELS, QuantisedEmbedding, quantise
from bobbin.cluster.geometry import Embedding
from bobbin.errors import IntegrityError, UsageError
from tests.vectors.load import load


def test_the_values_take_a_quarter_of_their_room_in_single_precision() -> None:
    vector = Embedding.dense(tuple(Random(3).uniform(-1, 1) for _ in range(128)))
    assert len(quantise(vector).codes) * 4 == len(pack("<128f", *vector.values))


def test_every_value_is_off_by_half_a_step_at_most() -> None:
    chance = Random(4)
    for largest in (1e-9, 1.0, 1e6):
        vector = Embedding.dense(tuple(chance.uniform(-largest, largest) for _ in range(50)))
        quantised = quantise(vector)
        back = quantised.restored().by_position()
        for at, value in vector.by_position().items():
            assert abs(back.get(at, 0.0) - value) <= quantised.scale * 0.5000001
        assert max(map(abs, vector.values)) / LEVELS == quantised.scale


def test_the_bytes_are_the_ones_fixed_for_ever() -> None:
    """The scale follows from the vector, and a half goes to the even step."""
    vector = Embedding(300, (0, 7, 255, 299), (-127.0, 0.5, 1.5, 64.0))
    assert quantise(vector).encode().hex() == load("cluster/chain.json")["quantised"]
    assert quantise(vector).codes == bytes([129, 0, 2, 64])


def test_bytes_are_read_back() -> None:
    for vector in (Embedding(4, (), ()), Embedding(4, (1, 3), (0.0, 0.0)), Embedding(9, (0, 8), (1.0, -3.0))):
        quantised = quantise(vector)
        assert QuantisedEmbedding.decode(quantised.encode()) == quantised
        assert quantised.restored().by_position().keys() <= set(vector.positions)


def test_what_cannot_be_read_or_written_is_refused() -> None:
    good = quantise(Embedding(9, (0, 8), (1.0, -3.0))).encode()
    for wrong in (b"", good[:-1], good + b"\0", good[:10]):
        with pytest.raises(IntegrityError):
            QuantisedEmbedding.decode(wrong)
    for value in (math.nan, math.inf, -math.inf, 1e305):
        with pytest.raises(UsageError):
            quantise(Embedding(3, (1,), (value,)))
