"""What a worker does, without Spark."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from bobbin.lace import Lace
from bobbin.pipeline.reading.parts import SEVERAL, Tally
from bobbin.pipeline.reading.plan import plan_parts
from bobbin.pipeline.reading.read_parts import PARTS, check_files, find_begin, part_row, read_part, read_parts
from bobbin.pipeline.reading.sources import ChangedSource, Format, Source, find_sources
from bobbin.records import jsonl
from tests.support.lakes import some_records

RECORDS = some_records(40, 9)
BUNDLE = b"".join(record.raw for record in RECORDS)


def read(sources: list[Source], size: int) -> tuple[list[str], list[tuple[str, int]], list[Tally]]:
    """Names, rejected (source, offset), and the counts of all parts."""
    parts = plan_parts(sources, size)
    table = pa.Table.from_pylist([part_row(0, part, sources[part.source]) for part in parts], PARTS)
    rows = [row for batch in read_parts(iter(table.to_batches())) for row in batch.to_pylist()]
    return (
        [row["record"] for row in rows if row["record"]],
        [(row["source"], row["offset"]) for row in rows if row["reason"]],
        [msgspec.json.decode(row["tally"], type=Tally) for row in rows if row["tally"]],
    )


@pytest.mark.parametrize("size", [700, 1 << 20])
def test_a_bundle_gives_its_records_in_order(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(BUNDLE + b"noise")
    names, rejected, tallies = read(find_sources([str(path)]), size)
    assert names == [record.hash for record in RECORDS]
    assert rejected == [(str(path), len(BUNDLE))]
    assert sum(tally.records for tally in tallies) == 40
    assert sum(tally.rejected for tally in tallies) == 1
    if size == 700:
        assert tallies[-1].end == len(BUNDLE) + 5
        assert [tally.part for tally in tallies] == list(range(len(tallies)))
    else:
        assert [(tally.part, tally.parts) for tally in tallies] == [(SEVERAL, 1)]


def test_lines_give_the_same_records(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(map(jsonl.encode, RECORDS)) + b"\n{}\n")
    names, rejected, _ = read(find_sources([str(path)]), 500)
    assert names == [record.hash for record in RECORDS]
    assert rejected == [(str(path), path.stat().st_size - 3)]


def test_a_lace_gives_what_it_held_when_it_was_looked_at(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "n.lace") as lace:
        for record in RECORDS[:30]:
            lace.put_record(record)
        sources = find_sources([str(tmp_path / "n.lace")])
        lace.put_record(RECORDS[30])
    names, rejected, tallies = read(sources, sources[0].size // 4)
    assert names == [record.hash for record in RECORDS[:30]]
    assert rejected == []
    assert [tally.part for tally in tallies] == [SEVERAL]
    assert tallies[0].parts >= 4


def test_files_of_a_folder_are_read_by_one_task(tmp_path: Path) -> None:
    for number, record in enumerate(RECORDS):
        (tmp_path / f"{number:03}").write_bytes(record.raw)
    names, _, tallies = read(find_sources([str(tmp_path)], Format.FILES), 1 << 20)
    assert names == [record.hash for record in RECORDS]
    assert [(tally.parts, tally.records) for tally in tallies] == [(40, 40)]


def test_a_source_that_has_changed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(BUNDLE)
    sources = find_sources([str(path)])
    (part,) = plan_parts(sources, 1 << 20)
    path.write_bytes(BUNDLE[:-1] + b"?" * 2)
    with pytest.raises(ChangedSource, match="has changed"):
        list(read_part(part, sources[0]))


def test_a_source_that_changes_while_it_is_read_gives_no_count(tmp_path: Path) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(BUNDLE)
    sources = find_sources([str(path)])
    (part,) = plan_parts(sources, 1 << 20)
    reading = read_part(part, sources[0])
    path.unlink()
    with pytest.raises(ChangedSource, match="vanished"):
        list(reading)


def test_a_begin_is_found_behind_a_large_record(tmp_path: Path) -> None:
    from bobbin.records.record import build_blob  # noqa: PLC0415

    large = build_blob(b"." * 600_000).raw
    path = tmp_path / "a.bundle"
    path.write_bytes(large + RECORDS[0].raw)
    (source,) = find_sources([str(path)])
    assert find_begin(source, 1, source.size) == len(large)
    assert find_begin(source, 1, len(large)) is None
    assert find_begin(source, len(large) + 1, source.size) is None


def test_rows_that_spark_has_read_are_checked_and_counted() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"raw": [RECORDS[0].raw, b"no"], "source": ["file:///x%20y", "file:///x%20y"], "offset": [4, 5]}
    )
    rows = [row for checked in check_files(iter([batch, batch])) for row in checked.to_pylist()]
    assert [(row["source"], row["offset"]) for row in rows if row["reason"]] == [("/x y", 5), ("/x y", 5)]
    tally = msgspec.json.decode(rows[-1]["tally"], type=Tally)
    assert (tally.records, tally.rejected) == (2, 2)
