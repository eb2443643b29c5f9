"""A set of rows whose indexes stay right whatever is added and taken out."""

from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.local.table import Row, Table

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
