"""The stream of a set: the same however it is cut, and the sum of the streams of its parts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bobbin.reconcile import mapping
from bobbin.reconcile.encode import Encoder
from bobbin.reconcile.short_ids import Ids
from bobbin.reconcile.symbols import checks_of

ids_of = st.lists(st.integers(1, 2**64 - 1), max_size=40, unique=True).map(lambda ids: np.array(ids, np.uint64))


def _slow_stream(ids: Ids, count: int) -> tuple[list[int], list[int]]:
    """One id after another, one place after another."""
    sums, checks = [0] * count, [0] * count
    for number in range(len(ids)):
        one = ids[number : number + 1]
        generator, place = mapping.begin(one), np.zeros(1)
        while place[0] < count:
            at = int(place[0])
            sums[at] = (sums[at] + int(one[0])) % 2**64
            checks[at] = (checks[at] + int(checks_of(one)[0])) % 2**16
            generator, place = mapping.jump(generator, place)
    return sums, checks


@given(ids_of, st.integers(0, 60))
def test_the_stream_is_that_of_the_plain_way(ids: Ids, count: int) -> None:
    symbols = Encoder(ids).produce(count)

    assert (symbols.sums.tolist(), symbols.checks.tolist()) == _slow_stream(ids, count)


@given(ids_of, st.lists(st.integers(0, 30), max_size=5))
def test_a_stream_is_the_same_however_it_is_cut(ids: Ids, stretches: list[int]) -> None:
    whole = Encoder(ids).produce(sum(stretches))
    encoder = Encoder(ids)
    parts = [encoder.produce(count) for count in stretches]

    assert [value for part in parts for value in part.sums.tolist()] == whole.sums.tolist()
    assert [value for part in parts for value in part.checks.tolist()] == whole.checks.tolist()
    assert [part.first for part in parts] == [sum(stretches[:number]) for number in range(len(stretches))]
    assert encoder.made == sum(stretches)


def test_batches_do_not_show() -> None:
    ids = np.random.default_rng(1).integers(1, 1 << 64, 70_000, dtype=np.uint64)

    together = Encoder(ids).produce(50)
    apart = [Encoder(part).produce(50) for part in np.array_split(ids, 3)]

    assert together.sums.tolist() == np.sum([part.sums for part in apart], axis=0, dtype=np.uint64).tolist()
    assert together.checks.tolist() == np.sum([part.checks for part in apart], axis=0, dtype=np.uint16).tolist()
    assert len(Encoder(ids)) == 70_000


def test_an_empty_set_has_empty_symbols() -> None:
    symbols = Encoder(np.empty(0, np.uint64)).produce(5)

    assert not symbols.sums.any()
    assert not symbols.checks.any()
