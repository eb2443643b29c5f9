"""The stream as Spark uses it, without Spark: offsets, batches, and laces that are not what they were."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.pipeline.source import columns
from bobbin.pipeline.source.stream import Offset, OtherLace, StreamReader
from tests.conformance import samples


def _lace(folder: Path, numbers: range) -> Path:
    with Lace.create(folder) as lace:
        lace.store.put_records([samples.plex(number) for number in numbers])
    return folder


def _grow(folder: Path, numbers: range) -> None:
    with Lace.open(folder) as lace:
        lace.store.put_records([samples.plex(number) for number in numbers])


def _stream(folder: Path, **options: str) -> StreamReader:
    return StreamReader({"path": str(folder), **options}, from_arrow_schema(columns.schema(("id", "raw"))))


def _ids(stream: StreamReader, start: Offset, end: Offset) -> list[int]:
    partitions = stream.partitions(start, end)
    return [number for one in partitions for made in stream.read(one) for number in made.column(0).to_pylist()]


def _batches(stream: StreamReader, start: Offset, limit: ReadLimit) -> list[list[int]]:
    """The batches that Spark would make until nothing is left; offsets go through its checkpoint, as JSON."""
    found: list[list[int]] = []
    while (end := json.loads(json.dumps(stream.latestOffset(start, limit)))) != start:
        found.append(_ids(stream, start, end))
        start = end
    return found


def test_a_stream_reads_everything_in_bounded_batches(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", range(10))
    stream = _stream(folder, maxRecordsPerBatch="4", recordsPerPartition="3")
    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    start = stream.initialOffset()
    assert _batches(stream, start, ReadMaxRows(4)) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert _batches(stream, start, ReadAllAvailable()) == [list(range(1, 11))]
    end = stream.latestOffset(start, ReadMaxRows(4))
    assert len(stream.partitions(start, end)) == 2
    assert stream.partitions(start, start) == []
    stream.commit(end)
    stream.stop()


def test_a_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", range(3))
    first = _stream(folder)
    assert first.getDefaultReadLimit() == ReadAllAvailable()
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert first.reportLatestOffset() == end
    _grow(folder, range(5))
    second = _stream(folder)
    assert _ids(second, end, second.latestOffset(end, ReadAllAvailable())) == [4, 5]


def test_where_a_stream_may_begin(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", range(3))
    assert _stream(folder).initialOffset()["id"] == 0
    assert _stream(folder, startingId="2").initialOffset()["record"] == samples.plex(1).hash
    assert _stream(folder, startingId="latest").initialOffset()["id"] == 3
    with pytest.raises(UsageError, match="up to 3"):
        _stream(folder, startingId="4").initialOffset()


def test_what_is_there_now_is_all_for_a_stream_of_it(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", range(3))
    stream = _stream(folder)
    stream.prepareForTriggerAvailableNow()
    _grow(folder, range(9))
    assert _batches(stream, stream.initialOffset(), ReadMaxRows(2)) == [[1, 2], [3]]


def test_removals_leave_gaps_and_nothing_else(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", range(6))
    stream = _stream(folder)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxRows(3))
    with Lace.open(folder) as lace:
        for number in (1, 2, 3):
            lace.store.remove(samples.plex(number).hash, reason="test")
    assert _ids(stream, start, end) == [1]
    assert _batches(stream, end, ReadMaxRows(1)) == [[5], [6]]


def test_the_last_record_may_be_gone(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", range(2))
    stream = _stream(folder)
    with Lace.open(folder) as lace:
        lace.store.remove(samples.plex(1).hash, reason="test")
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert end["id"] == 2
    assert end["record"] is None
    _grow(folder, range(4))
    assert _batches(stream, end, ReadAllAvailable()) == [[3, 4]]


def test_another_lace_in_its_place_is_noticed(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", range(3))
    stream = _stream(folder)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    shutil.rmtree(folder)
    _lace(folder, range(9))
    with pytest.raises(OtherLace, match="begin another stream"):
        stream.latestOffset(end, ReadAllAvailable())


def test_an_older_state_is_noticed_also_when_it_has_grown(tmp_path: Path) -> None:
    folder = _lace(tmp_path / "x.lace", range(2))
    with Lace.open(folder) as lace:
        lace.backup(tmp_path / "old.lace")
    _grow(folder, range(4))
    stream = _stream(folder)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    shutil.rmtree(folder)
    (tmp_path / "old.lace").rename(folder)
    with pytest.raises(OtherLace, match="only 2"):
        stream.latestOffset(end, ReadAllAvailable())
    _grow(folder, range(50, 60))
    with pytest.raises(OtherLace, match="history is another"):
        stream.latestOffset(end, ReadAllAvailable())


def test_a_stream_reads_one_lace(tmp_path: Path) -> None:
    (tmp_path / "x.bundle").write_bytes(samples.plex(1).raw)
    with pytest.raises(UsageError, match="is a bundle"):
        _stream(tmp_path / "x.bundle").initialOffset()
    two = StreamReader({"paths": '["a", "b"]'}, from_arrow_schema(columns.schema(("id",))))
    with pytest.raises(UsageError, match="one lace"):
        two.initialOffset()
    with pytest.raises(UsageError, match="no option"):
        _stream(tmp_path / "x.lace", some="thing").getDefaultReadLimit()
