from random import Random

import pytest

from bobbin.cluster.chain import similarity
from bobbin.cluster.chain.quantising import QuantisedEmbedding, quantise
from bobbin.cluster.chain.similarity import BlockVectors, Similar
from bobbin.cluster.geometry import Embedding, cosine
from bobbin.errors import UsageError


def _vectors(count: int) -> list[Embedding]:
    chance = Random(5)
    sizes = [-2.0, 0.5, 1.0, 1.0000001, 1e-4, 300.0]
    return [
        Embedding.of(16, {at: chance.choice(sizes) for at in chance.sample(range(16), chance.randint(0, 4))})
        for _ in range(count)
    ]


def test_what_is_found_is_what_looking_at_all_of_them_finds() -> None:
    kept, known = BlockVectors(16), []
    for vector in _vectors(200):
        kept.add(vector)
        known.append(vector)
    for asked in _vectors(20):
        if asked.is_zero:
            continue
        every = [Similar(at + 1, cosine(asked, vector)) for at, vector in enumerate(known) if not vector.is_zero]
        every.sort(key=lambda one: (-one.similarity, one.height))
        for limit in (1, 7, 500):
            assert kept.similar(asked, limit) == every[:limit]


def test_blocks_that_a_byte_cannot_tell_apart_are_told_apart() -> None:
    chance = Random(6)
    middle = [chance.uniform(-1, 1) for _ in range(16)]

    def near() -> Embedding:
        return Embedding.dense(tuple(value + chance.gauss(0, 0.002) for value in middle))

    kept, known = BlockVectors(16), [near() for _ in range(200)]
    for vector in known:
        kept.add(vector)
    for _ in range(5):
        asked = near()
        every = [Similar(at + 1, cosine(asked, vector)) for at, vector in enumerate(known)]
        every.sort(key=lambda one: (-one.similarity, one.height))
        assert kept.similar(asked, 3) == every[:3]


def test_searches_and_additions_take_turns() -> None:
    kept = BlockVectors(4)
    assert kept.similar(Embedding(4, (1,), (1.0,)), 3) == []
    for position in range(4):
        kept.add(Embedding(4, (position,), (2.0,)))
        assert kept.similar(Embedding(4, (position,), (1.0,)), 1) == [Similar(position + 1, 1.0)]


def test_a_block_may_come_while_a_search_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search runs in a thread. One that came in its middle counted as known, and was never found."""
    kept = BlockVectors(4)
    kept.add(Embedding(4, (0,), (1.0,)))
    late = [Embedding(4, (1,), (1.0,))]

    def meanwhile(vector: Embedding) -> QuantisedEmbedding:
        while late:
            kept.add(late.pop())
        return quantise(vector)

    monkeypatch.setattr(similarity, "quantise", meanwhile)
    assert kept.similar(Embedding(4, (0,), (1.0,)), 5) == [Similar(1, 1.0)]
    assert kept.similar(Embedding(4, (1,), (1.0,)), 1) == [Similar(2, 1.0)]


def test_the_zero_vector_is_like_nothing() -> None:
    kept = BlockVectors(4)
    kept.add(Embedding(4, (), ()))
    kept.add(Embedding(4, (1,), (1.0,)))
    assert kept.similar(Embedding(4, (), ()), 3) == []
    assert [one.height for one in kept.similar(Embedding(4, (2,), (1.0,)), 3)] == [2]


def test_wrong_questions_are_refused() -> None:
    kept = BlockVectors(4)
    with pytest.raises(UsageError):
        kept.similar(Embedding(5, (1,), (1.0,)), 3)
    with pytest.raises(UsageError):
        kept.similar(Embedding(4, (1,), (1.0,)), 0)
