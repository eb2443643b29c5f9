import pyarrow as pa
import pytest

from bobbin.errors import UsageError
from bobbin.pipeline.source import columns
from bobbin.store.lake.tables import FACTS


def test_columns_are_those_of_the_lake() -> None:
    for name in ("record", "type", "tai", "extras"):
        assert columns.TYPES[name] == FACTS.schema.field(name).type


def test_a_schema_of_some_columns_keeps_their_order() -> None:
    assert columns.schema(("raw", "id")) == pa.schema([("raw", pa.binary()), ("id", pa.int64())])


@pytest.mark.parametrize("names", [(), ("id", "id"), ("id", "hash")])
def test_other_columns_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        columns.checked(names)


def test_a_batch_takes_the_columns_that_the_schema_names() -> None:
    made = columns.batch({"raw": [b"x"], "id": [None], "name": ["unused"]}, columns.schema(("id", "raw")))
    assert made.to_pylist() == [{"id": None, "raw": b"x"}]
