"""A set of rows whose indexes stay right whatever is added and taken out."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.local.table import INDEXES_MAX, Row, Table

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=12)
POSITIONS = [(0,), (2,), (0, 1), (1, 2), (0, 1, 2)]


def by_scan(rows: set[Row], positions: tuple[int, ...]) -> dict[object, set[Row]]:
    found: dict[object, set[Row]] = {}
    for row in rows:
        key = row[positions[0]] if len(positions) == 1 else tuple(row[place] for place in positions)
        found.setdefault(key, set()).add(row)
    return found


@given(ROWS, ROWS, ROWS)
def test_an_index_is_what_a_scan_would_find(first: list[Row], added: list[Row], gone: list[Row]) -> None:
    table = Table(3, first)
    for positions in POSITIONS:
        table.index(positions)
    assert set(table.add(added)) == set(added) - set(first)
    assert set(table.discard(gone)) == (set(first) | set(added)) & set(gone)
    expected = (set(first) | set(added)) - set(gone)
    assert table.rows == expected
    for positions in POSITIONS:
        index = table.index(positions)
        assert {key: set(rows) for key, rows in index.items()} == by_scan(expected, positions)
        assert all(len(rows) == len(set(rows)) for rows in index.values())
        assert table.distinct(positions) == len(index)


def test_the_version_rises_with_changes_only() -> None:
    table = Table(1, [(1,)])
    table.add([(1,)])
    table.discard([(2,)])
    assert table.version == 0
    table.add([(2,)])
    table.discard([(1,)])
    assert table.version == 2


def test_only_so_many_indexes_are_kept_and_all_are_right() -> None:
    rows = [(number % 2, number % 3, number % 5, number % 7) for number in range(50)]
    table = Table(4, rows)
    every = [positions for size in (1, 2, 3, 4) for positions in combinations(range(4), size)]
    for positions in every:
        table.index(positions)
    assert [table.has_index(positions) for positions in every].count(True) == INDEXES_MAX
    assert table.has_index(every[-1])
    table.add([(9, 9, 9, 9)])
    for positions in every:
        assert {key: set(some) for key, some in table.index(positions).items()} == by_scan(table.rows, positions)


def test_counting_keys_makes_no_index() -> None:
    table = Table(2, [(number % 7, number) for number in range(1000)])
    assert (table.distinct((0,)), table.distinct((1,)), table.distinct((0, 1))) == (7, 1000, 1000)
    assert not table.has_index((0,))


@pytest.mark.parametrize("keys", [3, 300, 2_000, 20_000, 60_000])
def test_the_number_of_keys_of_a_large_relation_is_about_right(keys: int) -> None:
    draw = Random(keys)
    table = Table(2, [(draw.randrange(keys), number) for number in range(60_000)])
    exact = len({row[0] for row in table.rows})
    assert exact / 2 <= table.distinct((0,)) <= exact * 2
    assert table.distinct((1,)) == 60_000
    assert Table(1).distinct((0,)) == 0
