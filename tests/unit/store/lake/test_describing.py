from bobbin.store.lake import describing, tables
from tests.support.lake_tables import batch, fact_row
from tests.support.lakes import some_records


def test_rows_are_those_of_the_table_of_facts() -> None:
    records = some_records(40, 3)
    assert describing.describe(records).equals(batch(tables.FACTS, [fact_row(record) for record in records]))


def test_nothing_gives_no_rows() -> None:
    assert describing.describe([]).equals(batch(tables.FACTS, []))
