"""The job ``ingest``: what a lake then holds is what ``bobbin import`` puts into a lace."""

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bobbin.errors import BobbinError, ResourceError, UsageError
from bobbin.lace import Lace
from bobbin.pipeline import frames
from bobbin.pipeline.failures import DamagedFile, PipelineError
from bobbin.pipeline.jobs import ingest
from bobbin.pipeline.reading.parts import SEVERAL, Part, Tally
from bobbin.pipeline.reading.sources import Form, Format, Source, find_sources
from bobbin.records import jsonl
from bobbin.records.record import build_blob
from bobbin.store.lake.check import check
from bobbin.store.lake.errors import Conflict
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import Table
from tests.support.lakes import some_records, store
from tests.unit.records.bundles import AFTER, BEFORE, LAST, OUTERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rejections = set[tuple[bytes, str, str, str, int | None]]


def held(session: "SparkSession", lake: Lake) -> list[tuple[str, bytes]]:
    rows = frames.read(session, lake, lake.manifest("records")).collect()
    return sorted((row.record, bytes(row.raw)) for row in rows)


def quarantined(session: "SparkSession", lake: Lake) -> Rejections:
    rows = frames.read(session, lake, lake.manifest("quarantine")).collect()
    found = {(bytes(row.raw), row.reason, row.detail, row.source, row.offset) for row in rows}
    assert len(found) == len(rows), "the same bytes of the same place are there once"
    assert all(row.size == len(row.raw) for row in rows)
    return found


def imported(folder: Path, *files: Path) -> tuple[list[tuple[str, bytes]], Rejections, int]:
    """What ``bobbin import`` of the same files gives."""
    with Lace.create(folder) as lace:
        read = 0
        for file in files:
            with file.open("rb") as stream:
                read += lace.import_(stream, source=str(file), form=None, workers=0).read
        rejected = {(row.raw or b"", row.reason, row.detail, row.source, row.offset) for row in lace.quarantined()}
        return sorted((str(stored.hash), stored.raw) for stored in lace.store.scan()), rejected, read


def take(
    session: "SparkSession", lake: Lake, *names: Path, part_bytes: int | None = None, form: Format = Format.AUTO
) -> Report:
    return ingest.run(session, lake, find_sources([str(name) for name in names], form), part_bytes=part_bytes)


def check_sum(report: Report) -> None:
    counts = report.counts
    assert counts["in"] == counts["stored"] + counts["duplicate"] + counts["quarantined"]
    assert sum(count for name, count in counts.items() if name.startswith("reason:")) == counts["quarantined"]


def damaged(seed: int) -> bytes:
    """A bundle with every kind of trouble: changed bytes, lost bytes, noise, planted records, copies, a cut end."""
    source = random.Random(seed)
    raws = [record.raw for record in some_records(60, seed)]
    raws += [*OUTERS.values(), BEFORE, AFTER, raws[0], raws[1], b"noise", LAST[:200]]
    source.shuffle(raws)
    raw = bytearray(b"".join(raws))
    for _ in range(8):
        at = source.randrange(len(raw))
        raw[at : at + source.choice([0, 1, 1, 50, 700])] = source.choice([b"", b"?", b"\n"])
    return bytes(raw)


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_bundle_in_parts_gives_what_an_import_gives(spark: "SparkSession", tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(damaged(seed))
    lake = Lake.create(tmp_path / "lake")
    report = take(spark, lake, path, part_bytes=random.Random(seed).choice([300, 1000, 3000]))
    records, rejected, read = imported(tmp_path / "lace", path)
    assert held(spark, lake) == records
    assert quarantined(spark, lake) == rejected
    assert report.counts["in"] == read
    assert report.outputs == {"records": len(records), "quarantine": len(rejected)}
    check_sum(report)


def test_parts_that_began_at_a_wrong_place_are_read_again(spark: "SparkSession", tmp_path: Path) -> None:
    outer = OUTERS["three Seals"]
    path = tmp_path / "a.bundle"
    path.write_bytes(BEFORE + outer + AFTER + outer[:-1] + b"?" + LAST)
    lake = Lake.create(tmp_path / "lake")
    report = take(spark, lake, path, part_bytes=100)
    assert report.counts["reread"] > 0
    assert any("read again" in note for note in report.notes)
    records, rejected, read = imported(tmp_path / "lace", path)
    assert (held(spark, lake), quarantined(spark, lake), report.counts["in"]) == (records, rejected, read)


def test_all_kinds_of_sources_in_one_run_and_again(spark: "SparkSession", tmp_path: Path) -> None:
    records = some_records(200, 7)
    bundle, lines, table, folder = (tmp_path / name for name in ("a.bundle", "b.jsonl", "c [x]*.parquet", "files"))
    bundle.write_bytes(b"".join(record.raw for record in records[:80]) + b"noise")
    lines.write_bytes(b"".join(jsonl.encode(record) + b"\n" for record in records[60:120]) + b"{}\n")
    pq.write_table(pa.table({"raw": [*(record.raw for record in records[100:150]), b"bad", b""]}), table)
    folder.mkdir()
    for number, record in enumerate(records[140:170]):
        (folder / f"{number}").write_bytes(record.raw)
    (folder / "empty").write_bytes(b"")
    (folder / "bad").write_bytes(b"no record")
    with Lace.create(tmp_path / "n.lace") as lace:
        for record in records[160:]:
            lace.put_record(record)
    lake = Lake.create(tmp_path / "lake [1] {x}*%20")
    sources = [bundle, lines, table, folder, tmp_path / "n.lace"]
    report = take(spark, lake, *sources, bundle, part_bytes=2000)
    assert held(spark, lake) == sorted({(str(record.hash), record.raw) for record in records})
    places = {(source, offset, raw) for raw, _, _, source, offset in quarantined(spark, lake)}
    assert places == {
        (str(bundle), bundle.stat().st_size - 5, b"noise"),
        (str(lines), lines.stat().st_size - 3, b"{}"),
        (str(table), 50, b"bad"),
        (str(table), 51, b""),
        (str(folder / "bad"), 0, b"no record"),
    }
    assert report.counts["in"] == 80 + 1 + 60 + 1 + 52 + 30 + 1 + 40
    assert report.counts["quarantined"] == 5
    assert report.inputs["sources"] == 4 + 32
    check_sum(report)

    before = {name: lake.manifest(name) for name in ("records", "quarantine")}
    again = take(spark, lake, *sources)
    assert (again.counts["stored"], again.outputs["quarantine"], again.counts["quarantined_before"]) == (0, 0, 5)
    assert again.counts["in"] == report.counts["in"]
    check_sum(again)
    assert {name: lake.manifest(name) for name in before} == before


def test_a_column_of_parquet_files_may_have_any_name_and_rows_may_be_large(
    spark: "SparkSession", tmp_path: Path
) -> None:
    records = [build_blob(bytes([number]) * (1 << 20)) for number in range(20)]
    path, column = tmp_path / "a.parquet", "the `raw`.bytes"
    pq.write_table(pa.table({"other": list(range(20)), column: [record.raw for record in records]}), path)
    lake = Lake.create(tmp_path / "lake")
    sources = find_sources([str(path)], column=column)
    assert sources[0].row_bytes > 64 << 10
    assert ingest.run(spark, lake, sources, column=column).counts["stored"] == 20
    assert spark.conf.get("spark.sql.parquet.enableVectorizedReader") == "true"
    assert [name for name, _ in held(spark, lake)] == sorted(record.hash for record in records)


def test_what_the_lake_has_already_is_not_stored_again(spark: "SparkSession", tmp_path: Path) -> None:
    records = some_records(3000, 8)
    lake = Lake.create(tmp_path / "lake")
    store(lake, records[:1000])
    store(lake, records[1000:1500])
    path = tmp_path / "a.bundle"
    path.write_bytes(b"".join(record.raw for record in records[500:]))
    few = tmp_path / "few.bundle"
    few.write_bytes(b"".join(record.raw for record in records[:10] + records[2990:] + some_records(1, 99)))
    report = take(spark, lake, path)
    assert (report.counts["stored"], report.counts["duplicate"]) == (1500, 1000)
    report = take(spark, lake, few)
    assert (report.counts["stored"], report.counts["duplicate"]) == (1, 20)
    assert [name for name, _ in held(spark, lake)] == sorted(record.hash for record in records + some_records(1, 99))


def test_records_move_once_files_do_not_overlap_and_counts_are_taken_where_files_are_written(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(b"".join(record.raw for record in some_records(300, 3)) + b"noise")
    lake = Lake.create(tmp_path / "lake")
    plans: dict[str, str] = {}
    write = frames.write

    def look(frame: "DataFrame", folder: str, table: Table) -> None:
        plans[table.name] = frame._jdf.queryExecution().executedPlan().toString()
        write(frame, folder, table)

    monkeypatch.setattr(frames, "write", look)
    monkeypatch.setattr(ingest, "_FILE_BYTES_MIN", 10_000)
    monkeypatch.setattr(ingest, "FILE_BYTES", 20_000)
    assert take(spark, lake, path).counts["stored"] == 300
    files = lake.manifest("records").files
    assert len(files) > 2
    bounds = sorted((file.low or "", file.high or "") for file in files)
    assert all(one[1] < other[0] for one, other in pairwise(bounds)), bounds
    assert max(file.rows for file in files) < 2 * min(file.rows for file in files)
    assert plans["records"].count("Exchange") == 1, plans["records"]
    for plan in plans.values():
        # The root comes first: below the observation everything moves, above it nothing does, so that a stage that
        # Spark repeats is not counted twice.
        above, found, _ = plan.partition("CollectMetrics")
        assert found, plan
        assert "Exchange" not in above, plan


def test_a_rejection_is_marked_once_however_often_it_is_known(spark: "SparkSession") -> None:
    columns = "raw binary, digest binary, reason string, detail string, source string, offset long"
    rows = [(b"a", b"1", "r", "d", "s", None), (b"b", b"2", "r", "d", "s", 7), (b"b", b"2", "r", "d", "s", 8)]
    known = spark.createDataFrame([rows[0], rows[0], rows[1]], columns)
    marked = ingest.new_rejections(spark.createDataFrame(rows, columns), known, "run").collect()
    assert sorted((bytes(row.raw), row.offset or 0, row.is_known) for row in marked) == [
        (b"a", 0, True),
        (b"b", 7, True),
        (b"b", 8, False),
    ]


def test_a_part_that_is_read_again_has_a_number_that_no_other_part_ever_had(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [Source(name=form.value, form=form, size=400, stamp=0) for form in (Form.BUNDLE, Form.JSONL)]
    parts = [
        Part(number=4 * source + number, source=source, begin=100 * number, end=100 * number + 100)
        for source in (0, 1)
        for number in range(4)
    ]
    rounds: list[list[Part]] = []

    def read_tallies(_: object, folder: str) -> list[Tally]:
        assert folder == f"scratch/{len(rounds) - 1}"
        bundle = [part for part in rounds[-1] if part.source == 0]
        # Every part reads on into the next, so in each round one more is settled.
        found = [
            Tally(part=part.number, records=1, rejected=0, end=min(part.end + 50, 400), slack=1 << 60)
            for part in bundle
        ]
        lines = len(rounds[-1]) - len(bundle)
        return [*found, Tally(part=SEVERAL, parts=lines, records=lines, rejected=0)] if lines else found

    monkeypatch.setattr(ingest, "check_parts", lambda _session, unread, _sources, _size: list(unread))
    monkeypatch.setattr(ingest, "_write", lambda rows, _folder: rounds.append(rows))
    monkeypatch.setattr(ingest, "_read_tallies", read_tallies)
    checked = ingest.check_sources(None, sources, "scratch", size=100, parts=parts)  # type: ignore[arg-type]
    numbers = [part.number for one in rounds for part in one]
    assert len(rounds) > 1
    assert len(set(numbers)) == len(numbers), numbers
    assert checked.total("records") == 8
    assert not {part.number for part in parts if part.source == 1} & set(checked.void)


def test_parquet_files_elsewhere_must_have_the_column(spark: "SparkSession", tmp_path: Path) -> None:
    records = some_records(3, 5)
    lake = Lake.create(tmp_path / "lake")

    def elsewhere(name: str, table: pa.Table) -> Source:
        pq.write_table(table, tmp_path / name)
        return Source(name=f"file://{tmp_path / name}", form=Form.PARQUET, size=0, stamp=0)

    raws = [record.raw for record in records]
    good = elsewhere("a [1].parquet", pa.table({"raw": raws}))
    for table, reason in (
        (pa.table({"bytes": raws}), "has no column 'raw'; it has bytes"),
        (pa.table({"raw": ["text"]}), "holds string, not bytes"),
    ):
        with pytest.raises(UsageError, match=reason):
            ingest.run(spark, lake, [good, elsewhere("b.parquet", table)])
    assert lake.tables() == ()
    assert ingest.run(spark, lake, [good]).counts["stored"] == 3


def test_a_null_in_a_parquet_file_goes_to_the_quarantine_alone(spark: "SparkSession", tmp_path: Path) -> None:
    records, lake = some_records(3, 5), Lake.create(tmp_path / "lake")
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"raw": pa.array([records[0].raw, None, records[1].raw, None], pa.binary())}), path)
    counts = ingest.run(spark, lake, find_sources([str(path)])).counts
    assert (counts["in"], counts["stored"], counts["quarantined"], counts[f"{ingest.REASON}no-bytes"]) == (4, 2, 2, 2)
    kept = frames.read(spark, lake, lake.manifest("quarantine")).orderBy("offset").collect()
    assert [(row.source, row.offset, bytes(row.raw), row.size) for row in kept] == [
        (str(path.resolve()), 1, b"", 0),
        (str(path.resolve()), 3, b"", 0),
    ]
    assert list(check(lake)) == []
    again = ingest.run(spark, lake, find_sources([str(path)])).counts
    assert (again["duplicate"], again["quarantined_before"]) == (2, 2)


def test_a_run_that_only_notes_how_far_it_is_leaves_derived_tables_current(
    spark: "SparkSession", tmp_path: Path
) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(b"".join(record.raw for record in some_records(5, 1)))
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(5, 1))
    (source,) = find_sources([str(path)])

    def note(at: str) -> Report:
        def check(scratch: str) -> ingest.Checked:
            return ingest.check_sources(spark, [source], scratch, size=1 << 20)

        return ingest.take(spark, lake, check, properties=lambda _: {"load": at})

    for number, at in ((2, "a"), (3, "b")):
        assert note(at).counts["stored"] == 0
        assert (lake.manifest("records").number, lake.manifest("records").properties["load"]) == (number, at)
        assert lake.is_current("records", 1)
    assert lake.manifest("records").files == next(one.files for one in lake.history("records") if one.number == 1)
    store(lake, some_records(1, 2))
    assert not lake.is_current("records", 3)
    assert not lake.is_current("records", 1)


def test_a_large_record_does_not_need_the_memory_of_thousands(spark: "SparkSession", tmp_path: Path) -> None:
    large = [build_blob(bytes([number]) * (8 << 20)) for number in range(6)]
    small = some_records(20, 4)
    path = tmp_path / "a.bundle"
    path.write_bytes(b"".join(record.raw for record in [*large[:3], *small, *large[3:]]) + large[0].raw[:-1])
    lake = Lake.create(tmp_path / "lake")
    report = take(spark, lake, path)
    assert (report.counts["stored"], report.counts["quarantined"]) == (26, 1)
    assert {name for name, _ in held(spark, lake)} == {record.hash for record in large + small}
    ((raw, reason, _, _, offset),) = quarantined(spark, lake)
    assert (raw, reason) == (large[0].raw[:-1], "truncated")
    assert offset == path.stat().st_size - len(raw)


def test_empty_sources_are_a_run_without_rows(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "a.bundle").write_bytes(b"")
    lake = Lake.create(tmp_path / "lake")
    report = take(spark, lake, tmp_path / "a.bundle")
    assert report.counts == {
        "in": 0,
        "stored": 0,
        "duplicate": 0,
        "quarantined": 0,
        "quarantined_before": 0,
        "reread": 0,
    }
    assert lake.tables() == ()


def failing(
    session: "SparkSession", lake: Lake, path: Path, at: str, harm: Callable[[], object]
) -> pytest.ExceptionInfo[BobbinError]:
    """Run with something going wrong when a step begins; the lake must be as it was, and a later run must succeed."""
    before = {name: lake.manifest(name) for name in ("records", "quarantine")}

    def step(name: str) -> None:
        if name == at:
            harm()

    sources = find_sources([str(path)])
    with pytest.raises(BobbinError) as failure:
        ingest.run(session, lake, sources, step=step, part_bytes=1000)
    assert {name: lake.manifest(name) for name in before} == before
    assert not lake.files.list("records/data") or lake.files.list("records/data") == sorted(
        {f"{file.path.split('/')[2]}/" for file in lake.manifest("records").files}
    ), "nothing is left of the run"
    return failure


@pytest.mark.parametrize("at", ["checking records", "storing records", "committing"])
@pytest.mark.parametrize("how", ["vanishes", "grows"])
def test_a_source_that_changes_in_the_middle_is_an_error_and_the_lake_is_as_it_was(
    spark: "SparkSession", tmp_path: Path, at: str, how: str
) -> None:
    path = tmp_path / "a.bundle"
    raw = b"".join(record.raw for record in some_records(30, 2))
    path.write_bytes(raw)
    lake = Lake.create(tmp_path / "lake")
    harm = path.unlink if how == "vanishes" else lambda: path.write_bytes(raw + b"more")
    failure = failing(spark, lake, path, at, harm)
    assert isinstance(failure.value, ResourceError)
    assert "vanished" in str(failure.value) if how == "vanishes" else "has changed" in str(failure.value)
    assert str(path) in str(failure.value)
    path.write_bytes(raw)
    assert take(spark, lake, path).counts["stored"] == 30


def test_a_parquet_file_that_is_damaged_is_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"raw": [record.raw for record in some_records(500, 2)]}), path, compression="none")
    raw = bytearray(path.read_bytes())
    raw[4:200] = b"?" * 196
    path.write_bytes(raw)
    lake = Lake.create(tmp_path / "lake")
    with pytest.raises(DamagedFile, match=r"a\.parquet is damaged"):
        take(spark, lake, path)
    assert lake.tables() == ()


def test_two_runs_at_once_do_not_both_succeed(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(b"".join(record.raw for record in some_records(30, 2)))
    lake = Lake.create(tmp_path / "lake")

    def other(name: str) -> None:
        if name == "committing":
            store(lake, some_records(5, 77))

    with pytest.raises(Conflict) as failure:
        ingest.run(spark, lake, find_sources([str(path)]), step=other)
    assert failure.value.retry
    assert take(spark, lake, path).counts["stored"] == 30


def test_counts_that_do_not_add_up_are_never_committed(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(b"".join(record.raw for record in some_records(30, 2)) + b"noise")
    lake = Lake.create(tmp_path / "lake")
    honest = ingest._read_checked
    monkeypatch.setattr(ingest, "_read_checked", lambda *parts: honest(*parts).where("offset IS NOT NULL"))
    with pytest.raises(ingest.CountsDiffer, match="Nothing was committed"):
        take(spark, lake, path)
    monkeypatch.setattr(ingest, "_read_checked", lambda *parts: honest(*parts).where("offset IS NULL"))
    with pytest.raises(PipelineError, match="Nothing was committed"):
        take(spark, lake, path)
    assert lake.tables() == ()


def test_a_rejection_that_is_lost_on_its_way_to_the_quarantine_is_never_committed(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n[]\n")
    lake = Lake.create(tmp_path / "lake")
    honest = ingest.new_rejections
    monkeypatch.setattr(ingest, "new_rejections", lambda *parts: honest(*parts).where("offset = 0"))
    with pytest.raises(
        ingest.CountsDiffer, match=r"2 were rejected; 1 were new .* 0 were known, 1 were written"
    ) as lost:
        take(spark, lake, path)
    assert lost.value.retry
    assert lake.tables() == ()


def test_numbers_of_files() -> None:
    assert ingest.file_count(0, 2) == 1
    assert ingest.file_count(40 << 20, 8) == 2
    assert ingest.file_count(300 << 20, 2) == 2
    assert ingest.file_count(10 << 30, 2) == 40
