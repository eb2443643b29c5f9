import pyarrow as pa
import pytest

from bobbin.errors import UsageError
from bobbin.store.lake import tables

KEY = "0123456789abcdef"


def test_a_table_is_found_by_its_name_with_or_without_a_key() -> None:
    assert tables.table("records") is tables.RECORDS
    assert tables.table("selections") is tables.SELECTIONS
    assert tables.table(f"selections/{KEY}") is tables.SELECTIONS
    assert tables.check_name(f"partitions/{KEY}") is tables.PARTITIONS


@pytest.mark.parametrize(
    "name", ["", "rows", f"records/{KEY}", "selections/", "selections/../records", f"selections/{KEY}/", "selections/é"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        tables.table(name)


def test_a_folder_needs_the_key() -> None:
    with pytest.raises(UsageError, match="needs a key"):
        tables.check_name("selections")


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: table.name)
def test_every_table_sorts_by_columns_it_has(table: tables.Table) -> None:
    assert set(table.sorted_by) <= set(table.schema.names)
    assert tables.difference(table.schema, table.schema) is None


def test_what_writers_declare_differently_does_not_count() -> None:
    extra = pa.struct([("name", pa.string()), ("index", pa.int32()), ("value", pa.large_string())])
    found = pa.schema(
        [pa.field(field.name, field.type, metadata={"written": "by Spark"}) for field in tables.FACTS.schema]
    )
    position = found.get_field_index("extras")
    found = found.set(position, pa.field("extras", pa.large_list(pa.field("item", extra))))
    assert tables.difference(found, tables.FACTS.schema) is None


def test_a_difference_is_named() -> None:
    raw = tables.RECORDS.schema.field("raw")
    reason = tables.difference(pa.schema([raw]), tables.RECORDS.schema)
    assert reason == "it has the columns raw, not record, raw"
    swapped = pa.schema([raw, tables.RECORDS.schema.field("record")])
    assert tables.difference(swapped, tables.RECORDS.schema) == "it has the columns raw, record, not record, raw"
    other = pa.schema([tables.RECORDS.schema.field("record"), pa.field("raw", pa.string())])
    assert tables.difference(other, tables.RECORDS.schema) == "its column raw is string, not binary"
