"""Columns answer like a table: the same rows, the same indexes, after every change and every merge."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.local import columns as module
from bobbin.datalog.local.columns import (
    Block,
    ColumnTable,
    Postings,
    block_of,
    difference,
    gather,
    pack,
    pack_row,
    sorted_block,
    unique,
)
from bobbin.datalog.local.table import INDEXES_MAX, Row, Table

SMALL = st.integers(0, 4)
VALUE = st.one_of(SMALL, st.integers(0, 2**31 - 1))


def rows_of(arity: int, value: st.SearchStrategy[int] = SMALL) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(*[value] * arity), max_size=15)


def keys_of(row: Row, arity: int) -> dict[tuple[int, ...], int | Row]:
    keys: dict[tuple[int, ...], int | Row] = {(place,): row[place] for place in range(arity)}
    if arity > 1:
        keys[0, 1] = row[:2]
        keys[tuple(range(arity))] = row
    return keys


@pytest.mark.parametrize("arity", [1, 2, 3, 4])
@pytest.mark.parametrize("merge_min", [1, 1000])
def test_a_column_table_is_a_table(arity: int, merge_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MERGE_MIN", merge_min)

    @given(rows_of(arity), rows_of(arity), rows_of(arity), rows_of(arity))
    def law(first: list[Row], added: list[Row], gone: list[Row], back: list[Row]) -> None:
        plain = Table(arity, first)
        table = ColumnTable(arity, block_of(arity, set(first)))
        for change, rows in (("add", added), ("discard", gone), ("add", back)):
            assert set(getattr(table, change)(rows)) == set(getattr(plain, change)(rows))
            assert len(table) == len(plain)
            assert set(table.rows) == plain.rows
        for row in {*first, *added, *gone, *back}:
            assert (row in table.rows) == (row in plain.rows)
            for positions, key in keys_of(row, arity).items():
                expected = plain.index(positions).get(key, [])
                assert sorted(table.index(positions).get(key)) == sorted(expected)
                assert (key in table.index(positions)) == bool(expected)
        assert set(table.merged().rows()) == plain.rows

    law()


@given(st.lists(st.tuples(VALUE, VALUE, VALUE), min_size=1, max_size=10))
def test_rows_and_columns_pack_alike(rows: list[Row]) -> None:
    block = block_of(3, rows)
    for width in (1, 2, 3):
        assert pack(block.columns[:width]).tolist() == [pack_row(row[:width]) for row in rows]


@given(
    st.lists(st.one_of(st.integers(0, 5), st.integers(0, 100_000)), min_size=1, max_size=30), st.integers(0, 100_000)
)
def test_postings_find_every_row_of_a_value(column: list[int], other: int) -> None:
    postings = Postings(np.array(column, dtype=np.int32))
    wanted = sorted({*column, other})
    begins, counts = postings.ranges(np.array(wanted, dtype=np.int32))
    for value, begin, count in zip(wanted, begins.tolist(), counts.tolist(), strict=True):
        expected = [number for number, found in enumerate(column) if found == value]
        start, end = postings.range(value)
        assert postings.permutation[start:end].tolist() == expected
        assert postings.permutation[begin : begin + count].tolist() == expected


@pytest.mark.parametrize("arity", [0, 1, 2, 3])
def test_difference_and_unique_are_those_of_sets(arity: int) -> None:
    @given(rows_of(arity), rows_of(arity))
    def law(new: list[Row], old: list[Row]) -> None:
        array = np.array(new, dtype=np.int32).reshape(len(new), arity)
        once = unique([np.ascontiguousarray(array[:, place]) for place in range(arity)], len(new))
        assert sorted(once.rows()) == sorted(set(new))
        left = difference(once, block_of(arity, set(old)))
        assert sorted(left.rows()) == sorted(set(new) - set(old))
        assert left.size == len(set(new) - set(old))

    law()


def test_a_block_without_columns_has_one_row_or_none() -> None:
    assert list(Block((), 1).rows()) == [()]
    assert list(Block(()).rows()) == []


def test_the_number_of_values_is_exact_for_few_rows_and_near_for_many() -> None:
    few = block_of(2, [(number % 3, number) for number in range(9)])
    assert (few.distinct((0,)), few.distinct((1,))) == (3, 9)
    many = Block([np.arange(100_000, dtype=np.int32), np.arange(100_000, dtype=np.int32) % 7])
    assert 50_000 <= many.distinct((0,)) <= 200_000
    assert many.distinct((1,)) == 7
    assert many.selective() == 0


def test_only_so_many_packed_indexes_are_kept_and_all_are_right() -> None:
    rows = [(number % 2, number % 3, number % 5, number % 7, number) for number in range(200)]
    block = block_of(5, rows)
    pairs = list(combinations(range(5), 2))
    for positions in pairs:
        block.ordered(positions)
    assert [block.has_index(positions) for positions in pairs].count(True) == INDEXES_MAX < len(pairs)
    for first, second in pairs:
        found = set(block.rows(block.matching((first, second), (1, 1))))
        assert found == {row for row in rows if row[first] == row[second] == 1}


def test_an_index_is_known_to_be_there() -> None:
    table = ColumnTable(3, block_of(3, [(number % 3, number % 4, number) for number in range(60)]))
    assert not table.has_index((0,))
    table.index((0,)).get(1)
    assert table.has_index((0,))
    assert not table.has_index((0, 1))
    assert not table.has_index((1, 2))
    table.index((2,)).get(1)
    assert table.has_index((1, 2)), "its last value alone leads to a row"
    assert ColumnTable(2, block_of(2, [])).has_index((0,)), "nothing is to be done"


def test_equal_columns_of_two_blocks_are_one_with_one_index() -> None:
    first = block_of(2, [(number, number % 3) for number in range(9)])
    second = block_of(3, [(number, 7, 8 - number) for number in range(9)])
    index = first.postings(0)
    second.adopt(first)
    assert second.columns[0] is first.columns[0]
    assert second.postings(0) is index
    assert not second.has_index((2,))
    assert list(second.rows()) == [(number, 7, 8 - number) for number in range(9)]
    later = second.postings(2)
    assert list(second.rows(later.permutation[slice(*later.range(3))])) == [(5, 7, 3)]


def test_blocks_that_differ_share_nothing() -> None:
    first, second = block_of(1, [(1,), (2,), (3,), (4,)]), block_of(1, [(1,), (3,), (2,), (4,)])
    for other in (first, block_of(1, [(1,)]), block_of(1, [])):
        before = second.columns[0]
        second.adopt(other)
        assert second.columns[0] is before


@given(st.lists(st.lists(st.integers(0, 1), max_size=4), min_size=1, max_size=4))
def test_gathered_parts_are_one_column(parts: list[list[int]]) -> None:
    column = gather([np.array(part, dtype=np.int32) for part in parts])
    assert column.tolist() == [value for part in parts for value in part]
    assert column.dtype == np.int32


def test_a_column_of_one_value_takes_no_room() -> None:
    part = np.zeros(1000, dtype=np.int32)
    assert gather([part, part]).strides == (0,)
    table = ColumnTable(2, Block([np.arange(2000, dtype=np.int32), gather([part, part])]))
    table.add([(5, 1), (5, 0)])
    table.discard([(6, 0)])
    assert sorted(table.index((1,)).get(1)) == [(5, 1)]
    assert len(table.merged().matching((1,), 0)) == 1999
    assert len(set(table.merged().rows())) == 2000


def test_rows_are_picked_and_one_value_stays_one() -> None:
    columns = [np.arange(4, dtype=np.int32), np.broadcast_to(np.array([7], dtype=np.int32), (4,))]
    some = module.pick(columns, np.array([True, False, True, False]))
    assert [column.tolist() for column in some] == [[0, 2], [7, 7]]
    assert some[1].strides == (0,)
    every = module.pick(columns, np.ones(4, dtype=np.bool_))
    assert all(one is other for one, other in zip(every, columns, strict=True))
    assert [column.tolist() for column in module.pick(columns, np.zeros(4, dtype=np.bool_))] == [[], []]


@pytest.mark.parametrize("arity", [1, 2, 3])
@given(data=st.data())
def test_many_rows_are_found_as_one_by_one(arity: int, data: st.DataObject) -> None:
    block = block_of(arity, dict.fromkeys(data.draw(rows_of(arity))))
    asked = data.draw(rows_of(arity))
    expected = [len(block.find(row)) > 0 for row in asked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TOGETHER_MIN", 1)
        assert block.has_each(asked) == expected
        patch.setattr(module, "_TOGETHER_PAIRS_MAX", 0)
        assert block.has_each(asked) == expected


@given(rows_of(3))
def test_a_sorted_block_has_its_rows_in_their_order(rows: list[Row]) -> None:
    assert list(sorted_block(3, dict.fromkeys(rows)).rows()) == sorted(set(rows))


def test_blocks_at_rest_share_equal_columns_and_are_charged_for_indexes_each() -> None:
    first, second = (block_of(2, [(number, 7 * number) for number in range(50)]) for _ in range(2))
    first.share()
    index = first.postings(0)
    second.share()
    assert all(mine is theirs for mine, theirs in zip(first.columns, second.columns, strict=True))
    assert not second.has_index((0,)), "nobody has asked this block for it"
    assert second.postings(0) is index
    assert second.has_index((0,))


def test_columns_that_only_look_alike_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash", lambda _: 0, raising=False)
    first, second = block_of(1, [(1,), (2,)]), block_of(1, [(1,), (3,)])
    first.share()
    second.share()
    assert list(second.rows()) == [(1,), (3,)]


def test_what_settles_has_the_same_rows_in_one_block() -> None:
    table = ColumnTable(2, block_of(2, [(number, number) for number in range(200)]))
    table.add([(1_000 + number, 0) for number in range(40)])
    table.discard([(number, number) for number in range(40)])
    expected = set(table.rows)
    table.settle()
    assert (len(table.tail), len(table.gone), set(table.rows)) == (0, 0, expected)
    table.add([(5_000, 0)])
    table.settle()
    assert len(table.tail) == 1, "a few stay beside it"
