"""Fields side by side: one pass gives the relations that many would have given."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.local import relation, wide
from bobbin.datalog.local.columns import ColumnTable
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable
from bobbin.datalog.local.values import Values
from bobbin.datalog.local.wide import WideRow, WideSource, is_wide, read_wide
from bobbin.errors import UsageError
from bobbin.facts.relations import Tuple
from tests.unit.datalog.local.worlds import BASE, Facts, program

NAMES = ("Group", "Name", "TAI")
ARITIES = {"Have": 1, "Field": 4}
VALUE = st.one_of(st.none(), st.sampled_from(["u", "v", "w"]))
ROWS = st.lists(st.tuples(VALUE, VALUE, VALUE), max_size=8).map(
    lambda rows: [(str(number), *row) for number, row in enumerate(rows)]
)


class Wide(Facts):
    """Facts that can be read side by side, and that remember how they were read."""

    def __init__(self, rows: list[WideRow]) -> None:
        self.rows = rows
        self.passes: list[tuple[str, ...]] = []
        fields = [
            (row[0] or "", name, "0", value)
            for row in rows
            for name, value in zip(NAMES, row[1:], strict=True)
            if value is not None
        ]
        super().__init__({"Have": [(row[0] or "",) for row in rows], "Field": fields})

    def wide_fields(self) -> frozenset[str]:
        return frozenset(NAMES)

    def wide(self, fields: tuple[str, ...]) -> Iterator[WideRow]:
        self.passes.append(fields)
        return ((row[0], *(row[1 + NAMES.index(name)] for name in fields)) for row in self.rows)


def facts_of(held: Database, source: Source) -> set[Tuple]:
    return {held.values.decode_row(row) for row in held.table(source).rows}


@pytest.mark.parametrize("columns_min", [1, 10**9])
def test_one_pass_is_many(columns_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation, "COLUMNS_MIN", columns_min)
    monkeypatch.setattr(wide, "_CHUNK", 3)

    @given(ROWS)
    def law(rows: list[WideRow]) -> None:
        supply = Wide(rows)
        together, apart = (Database(dict.fromkeys(ARITIES, supply), ARITIES) for _ in range(2))
        together.load(NAMES, supply.wide(NAMES))
        for source in (Source("Have"), *(Source("Field", name) for name in NAMES)):
            assert facts_of(together, source) == facts_of(apart, source)
        change: dict[str, list[Tuple]] = {
            "Have": [("new",)],
            "Field": [("new", "Group", "0", "u"), ("0", "TAI", "0", "new")],
        }
        assert together.change(added=change).added.keys() == apart.change(added=change).added.keys()
        for source in (Source("Have"), *(Source("Field", name) for name in NAMES)):
            assert facts_of(together, source) == facts_of(apart, source)

    law()


def test_records_that_have_every_field_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation, "COLUMNS_MIN", 1)
    held = Database({}, ARITIES)
    held.load(("Group", "Name"), [(str(number), "u", None if number == 3 else str(number)) for number in range(9)])
    tables = [held.table(source) for source in (Source("Have"), Source("Field", "Group"), Source("Field", "Name"))]
    blocks = [table.block for table in tables if isinstance(table, ColumnTable)]
    assert [block.size for block in blocks] == [9, 9, 8]
    assert blocks[1].columns[0] is blocks[0].columns[0]
    assert blocks[1].postings(0) is blocks[0].postings(0)


def test_an_evaluation_reads_what_it_needs_in_one_pass() -> None:
    supply = Wide([("p", "u", "n", "1"), ("q", "v", None, "2")])
    arities = {**BASE, "Have": 1}
    held = Database(dict.fromkeys(arities, supply), arities)
    plan = program("P(X) :- Field(X,'Group',_,'u'), Field(X,'TAI',_,T), not Field(X,'Other',_,T).").plan
    executable = Executable(plan)
    assert executable.sources == {Source("Field", name) for name in ("Group", "TAI", "Other")}
    for _ in range(2):
        assert executable.evaluate(held).tuples("P") == {("p",)}
    assert supply.passes == [("Group", "TAI")]


def test_a_plain_source_is_no_wide_one() -> None:
    assert isinstance(Wide([]), WideSource)
    assert not isinstance(Facts({}), WideSource)
    assert is_wide(Wide([]))
    assert not is_wide(Facts({}))
    assert not is_wide(None)


def test_what_is_loaded_is_not_loaded_again() -> None:
    held = Database({}, ARITIES)
    held.table(Source("Field", "Name"))
    with pytest.raises(UsageError, match="Name"):
        held.load(("Group", "Name"), [("p", "u", "n")])


def test_nothing_gives_empty_columns() -> None:
    records, fields = read_wide(iter(()), 2, Values())
    assert len(records) == 0
    assert [(len(one), len(other)) for one, other in fields] == [(0, 0), (0, 0)]


def test_records_that_are_known_leave_only_fields_to_read() -> None:
    supply = Wide([("p", "u", "n", "1"), ("q", "v", None, "2")])
    held = Database(dict.fromkeys(ARITIES, supply), ARITIES)
    have = held.table(Source("Have"))
    held.prepare([Source("Have"), Source("Field", "Group")])
    assert supply.passes == [("Group",)]
    assert held.table(Source("Have")) is have
    assert facts_of(held, Source("Field", "Group")) == {("p", "0", "u"), ("q", "0", "v")}
