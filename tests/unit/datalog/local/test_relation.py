"""A relation takes the form that fits its number of rows."""

import numpy as np
import pytest

from bobbin.datalog.local import relation as module
from bobbin.datalog.local.columns import ColumnTable
from bobbin.datalog.local.relation import constant, relation, relation_of, settled
from bobbin.datalog.local.table import Table
from bobbin.datalog.local.values import Values


@pytest.mark.parametrize(("count", "form"), [(0, Table), (3, Table), (4, ColumnTable), (11, ColumnTable)])
def test_few_rows_are_a_table_and_many_are_columns(count: int, form: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COLUMNS_MIN", 4)
    values = Values()
    facts = [(str(number), "x") for number in range(count)]
    made = relation(2, iter(facts), values)
    assert type(made) is form
    assert {values.decode_row(row) for row in made.rows} == set(facts)
    assert len(made) == count


def test_facts_without_arguments_are_always_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COLUMNS_MIN", 1)
    assert set(relation(0, [()], Values()).rows) == {()}


@pytest.mark.parametrize(("count", "form"), [(0, Table), (3, Table), (4, ColumnTable)])
def test_columns_take_the_form_that_fits_too(count: int, form: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COLUMNS_MIN", 4)
    made = relation_of([np.arange(count, dtype=np.int32), constant(7, count)])
    assert type(made) is form
    assert set(made.rows) == {(number, 7) for number in range(count)}


@pytest.mark.parametrize(("count", "form"), [(0, Table), (3, Table), (4, ColumnTable), (11, ColumnTable)])
def test_at_rest_columns_begin_sooner(count: int, form: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTING_MIN", 4)
    rows = {(number, 7, -number % 5) for number in range(count)}
    made = settled(Table(3, rows))
    assert type(made) is form
    assert set(made.rows) == rows
    assert settled(made) is made
    assert isinstance(settled(Table(0, [()])), Table)
