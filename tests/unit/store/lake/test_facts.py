"""The relations themselves are held to by the conformance kit; here, what a lake does beyond."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from bobbin.datalog.local.wide import is_wide
from bobbin.errors import UsageError
from bobbin.facts.extract import extract
from bobbin.facts.relations import FIELD
from bobbin.records.record import Record
from bobbin.store.lake import describing
from bobbin.store.lake.facts import COLUMNS, LakeFacts
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.moment import open_moment
from tests.support.lake_tables import SMALL, ingest, make_facts
from tests.support.lakes import KEY, some_records

RECORDS = some_records(30, 3)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS[:20], shape=SMALL)
    make_facts(lake, RECORDS[:20], shape=SMALL)
    ingest(lake, RECORDS[20:], shape=SMALL)
    return lake


def facts_of(lake: Lake) -> LakeFacts:
    moment = open_moment(lake)
    return LakeFacts(moment.rows, moment.records, lambda: None)


def test_wide_rows_say_what_the_single_fields_say(lake: Lake) -> None:
    facts = facts_of(lake)
    assert is_wide(facts)
    names = tuple(sorted(facts.wide_fields()))
    assert set(names) == set(COLUMNS)
    rows = {row[0]: row[1:] for row in facts.wide(names)}
    assert len(rows) == 30
    for record in RECORDS:
        said = {values[1]: values[3] for predicate, values in extract(record) if predicate == FIELD}
        assert rows[record.hash] == tuple(said.get(name) for name in names)
    assert sorted(facts.wide(())) == sorted((record.hash,) for record in RECORDS)
    assert {row[0]: row[1:] for row in facts.wide(("App", "App"))} == {name: row[:1] * 2 for name, row in rows.items()}


def test_only_what_the_table_does_not_cover_is_made_from_bytes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = describing.describe

    def counted(records: Iterable[Record]) -> pa.RecordBatch:
        found = list(records)
        made.extend(one.hash for one in found)
        return real(found)

    monkeypatch.setattr(describing, "describe", counted)
    assert len(list(facts_of(lake).match(FIELD, (None, "Type", None, None)))) == 30
    assert set(made) == {record.hash for record in RECORDS[20:]}
    made.clear()
    make_facts(lake, RECORDS)
    assert len(list(facts_of(lake).match(FIELD, (None, "Signed-By", None, KEY.verifier)))) > 0
    assert made == []


def test_facts_after_a_number_are_those_of_the_later_records(lake: Lake) -> None:
    facts = facts_of(lake)
    assert set(facts.after(20)) == {fact for record in RECORDS[20:] for fact in extract(record)}
    assert list(facts.after(30)) == []


def test_an_answer_ends_with_its_moment(lake: Lake) -> None:
    moment = open_moment(lake)
    closed: list[bool] = []

    def require_open() -> None:
        if closed:
            raise UsageError("closed")

    facts = LakeFacts(moment.rows, moment.records, require_open)
    walk = facts.match(FIELD, (None, "Type", None, None))
    next(walk)
    closed.append(True)
    with pytest.raises(UsageError, match="closed"):
        next(walk)
