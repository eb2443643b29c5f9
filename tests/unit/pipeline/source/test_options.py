import pytest

from bobbin.errors import UsageError
from bobbin.pipeline.source.options import Mode, Options, parse


def test_nothing_but_a_path() -> None:
    assert parse({"path": "x.lace"}) == Options(paths=("x.lace",))


def test_all_options_whatever_their_case() -> None:
    given = {
        "paths": '["a", "b c"]',
        "Columns": "id, raw",
        "mode": "dropMalformed",
        "VERIFY": "False",
        "recordsPerPartition": "5",
        "bytesperpartition": "6",
        "startingId": "7",
        "maxRecordsPerBatch": "8",
    }
    assert parse(given) == Options(
        paths=("a", "b c"),
        columns=("id", "raw"),
        mode=Mode.DROPMALFORMED,
        verify=False,
        records_per_slice=5,
        bytes_per_slice=6,
        starting_id=7,
        records_per_batch_max=8,
    )


def test_a_stream_may_begin_at_the_end() -> None:
    assert parse({"path": "x", "startingId": "latest"}).starting_id is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "load"),
        ({"path": "x", "paths": "[]"}, "nowhere else"),
        ({"paths": "x"}, "JSON"),
        ({"paths": "[1]"}, "JSON"),
        ({"path": "x", "colums": "id"}, "no option 'colums'"),
        ({"path": "x", "columns": "id,hash"}, "no column 'hash'"),
        ({"path": "x", "columns": ""}, "no column ''"),
        ({"path": "x", "mode": "permissive"}, "FAILFAST or DROPMALFORMED"),
        ({"path": "x", "verify": "yes"}, "true or false"),
        ({"path": "x", "recordsPerPartition": "0"}, "from 1 on"),
        ({"path": "x", "bytesPerPartition": "1k"}, "from 1 on"),
        ({"path": "x", "startingId": "-1"}, "from 0 on"),
        ({"path": "x", "startingId": "٣"}, "from 0 on"),
        ({"path": "x", "maxRecordsPerBatch": str(1 << 63)}, "from 1 on"),
    ],
)
def test_options_that_make_no_sense(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse(given)
