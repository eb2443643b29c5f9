"""The parts that sources are read in."""

from pathlib import Path

from bobbin.pipeline.reading.plan import plan_parts
from bobbin.pipeline.reading.sources import Format, find_sources
from tests.support.lakes import some_records


def test_parts_of_a_bundle_begin_where_records_do(tmp_path: Path) -> None:
    records = some_records(60, 1)
    raw = b"".join(record.raw for record in records)
    (tmp_path / "a.bundle").write_bytes(raw)
    begins, at = set(), 0
    for record in records:
        begins.add(at)
        at += len(record.raw)
    parts = plan_parts(find_sources([str(tmp_path / "a.bundle")]), 1000)
    assert len(parts) > 5
    assert [part.begin for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert (parts[0].begin, parts[-1].end) == (0, len(raw))
    assert {part.begin for part in parts} <= begins
    assert [part.number for part in parts] == list(range(len(parts)))


def test_where_no_record_is_in_sight_there_is_one_part(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"?" * 10_000)
    (part,) = plan_parts(find_sources([str(tmp_path / "noise")]), 100)
    assert (part.begin, part.end) == (0, 10_000)


def test_lines_are_cut_anywhere_and_an_empty_source_has_no_part(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"x" * 250)
    (tmp_path / "b.jsonl").write_bytes(b"")
    sources = find_sources([str(tmp_path / "b.jsonl"), str(tmp_path / "a.jsonl")], Format.JSONL)
    assert [(part.source, part.begin, part.end) for part in plan_parts(sources, 100)] == [
        (1, 0, 100),
        (1, 100, 200),
        (1, 200, 250),
    ]


def test_an_empty_bundle_has_no_part(tmp_path: Path) -> None:
    (tmp_path / "a.bundle").write_bytes(b"")
    assert plan_parts(find_sources([str(tmp_path / "a.bundle")]), 100) == []
