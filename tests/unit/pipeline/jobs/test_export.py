"""Exports to bundles and laces: what comes out, what is reused, and what is never half-written."""

import errno
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from blake3 import blake3
from msgspec import structs
from pyspark.sql import functions as f

from bobbin.errors import BobbinError, ResourceError, UsageError
from bobbin.lace import Lace
from bobbin.pipeline.batches.write_parts import finished, note_file, part_file, write_part
from bobbin.pipeline.jobs import export
from bobbin.pipeline.jobs.export import Choice, Order, Plan
from bobbin.pipeline.offer import StaleSelection
from bobbin.records.bundle import BundleReader, Run
from bobbin.records.coordinate import Prefix
from bobbin.records.record import Blob, Record, build_plex
from bobbin.store.base import DamagedStore
from bobbin.store.lake.keys import derived_key
from bobbin.store.lake.lake import Lake
from tests.support.described import describe_all, select_some
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = derived_key(plan="x")
SMALL = 2_000
"""Bytes of a part, so that a small lake has several."""


def _lake(folder: Path, count: int = 120) -> tuple[Lake, list[Record]]:
    lake = Lake.create(folder)
    records: list[Record] = [
        *some_records(count, 1),
        *(build_plex(group="g", app="a", name=f"n/{one}", tai_ns=one * 10**10, data=b"") for one in range(20)),
    ]
    store(lake, records[: count // 2])
    store(lake, records[count // 2 :])
    return lake, records


def _select(lake: Lake, records: list[Record], key: str = KEY) -> None:
    describe_all(lake)
    select_some(lake, {"MaySend": [one.hash for one in records]}, key=key)


def _read(bundle: Path) -> list[Record]:
    reader = BundleReader(recognises=True)
    pieces = [*reader.feed(bundle.read_bytes()), *reader.finish()]
    assert all(isinstance(piece, Run) for piece in pieces)
    return [record for piece in pieces if isinstance(piece, Run) for record in piece.records]


def _time(record: Record) -> int:
    return -1 if isinstance(record, Blob) else record.tai


def test_a_bundle_in_the_order_of_hashes(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake")
    target = tmp_path / "out.bundle"
    done = export.run(spark, lake, target, part_bytes=SMALL)
    assert done.parts > 3
    assert done.records == len(records)
    assert done.digest == blake3(target.read_bytes()).hexdigest()
    assert [one.hash for one in _read(target)] == sorted((one.hash for one in records), key=lambda name: name[2:])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "out.bundle"]
    (report, *_) = lake.reports()
    assert report.job == "export"
    assert report.inputs == {"records": len(records)}
    assert report.outputs == {"records": len(records), "bytes": target.stat().st_size}


def test_a_bundle_in_the_order_of_times(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake")
    target = tmp_path / "out.bundle"
    done = export.run(spark, lake, target, order=Order.TAI, part_bytes=SMALL)
    assert done.parts > 2
    found = _read(target)
    assert [one.hash for one in found] == [
        one.hash for one in sorted(records, key=lambda one: (_time(one), one.hash[2:]))
    ]


def test_some_of_the_records(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake")
    _select(lake, records[::3])
    target = tmp_path / "out.bundle"
    assert export.run(spark, lake, target, choice=Choice(selection=KEY)).records == len(records[::3])
    assert {one.hash for one in _read(target)} == {one.hash for one in records[::3]}
    assert export.run(spark, lake, target, choice=Choice(selection=KEY, predicate="MayRequest")).records == 0
    assert target.read_bytes() == b""
    export.run(spark, lake, target, choice=Choice(selection=KEY, at=Prefix(group="g", app="a", name="n/")))
    assert {one.hash for one in _read(target)} == {
        one.hash for one in records[::3] if not isinstance(one, Blob) and one.group == "g"
    }


def test_a_stale_selection_is_exported_only_if_asked_for(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake", count=4)
    _select(lake, records[:2])
    store(lake, some_records(1, 77))
    target = tmp_path / "out.bundle"
    with pytest.raises(StaleSelection):
        export.run(spark, lake, target, choice=Choice(selection=KEY))
    assert not target.exists()
    done = export.run(spark, lake, target, choice=Choice(selection=KEY, allow_stale=True))
    assert {one.hash for one in _read(target)} == {one.hash for one in records[:2]}
    assert done.stale
    assert set(done.stale) <= set(done.report.notes)


def test_the_place_of_a_part_is_looked_up_and_not_searched_for(
    spark: "SparkSession", capsys: pytest.CaptureFixture[str]
) -> None:
    names = [one.hash for one in some_records(40, 3)]
    rows = spark.createDataFrame([(name, b"", "") for name in names], "record string, raw binary, tai string")
    plan = Plan(key="k", order=Order.HASH, parts=5)
    some = export.in_parts(rows, plan, [1, 4])
    found = some.select("part", f.spark_partition_id().alias("place")).distinct().collect()
    assert {(row["part"], row["place"]) for row in found} == {(1, 0), (4, 1)}
    for frame in (some, export.in_parts(rows, plan, range(5))):
        frame.explain()
        assert "array_position" not in capsys.readouterr().out


def test_an_empty_lake(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert export.run(spark, lake, tmp_path / "out.bundle").records == 0
    assert (tmp_path / "out.bundle").read_bytes() == b""


# ---- interruptions ---------------------------------------------------------------------------------------------------


def _interrupted(spark: "SparkSession", lake: Lake, target: Path) -> Path:
    """An export that ended before its parts were joined; the folder of the parts."""
    with patch.object(export, "_join", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        export.run(spark, lake, target, part_bytes=SMALL)
    assert not target.exists()
    return target.with_name(f".{target.name}.export")


def test_finished_parts_are_reused_and_others_made_again(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake")
    expected, target = tmp_path / "expected.bundle", tmp_path / "out.bundle"
    export.run(spark, lake, expected, part_bytes=SMALL)
    folder = _interrupted(spark, lake, target)
    before = {part: part_file(folder, part).stat().st_ino for part in finished(folder, 99)}
    note_file(folder, 1).unlink()
    part_file(folder, 2).write_bytes(b"cut off")
    with patch.object(export, "_join", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        export.run(spark, lake, target, part_bytes=SMALL)
    after = {part: part_file(folder, part).stat().st_ino for part in finished(folder, 99)}
    assert {part for part in before if before[part] == after[part]} == before.keys() - {1, 2}
    done = export.run(spark, lake, target, part_bytes=SMALL)
    assert done.reused == done.parts == len(before)
    assert target.read_bytes() == expected.read_bytes()
    assert done.records == len(records)


def test_parts_of_another_manifest_are_not_reused(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake")
    target = tmp_path / "out.bundle"
    _interrupted(spark, lake, target)
    more = some_records(5, 99)
    store(lake, more)
    done = export.run(spark, lake, target, part_bytes=SMALL)
    assert done.reused == 0
    assert {one.hash for one in _read(target)} == {one.hash for one in [*records, *more]}


def test_a_part_that_changed_at_rest_is_noticed(spark: "SparkSession", tmp_path: Path) -> None:
    lake, _ = _lake(tmp_path / "lake")
    target = tmp_path / "out.bundle"
    folder = _interrupted(spark, lake, target)
    whole = part_file(folder, 0).read_bytes()
    part_file(folder, 0).write_bytes(bytes(len(whole)))
    with pytest.raises(ResourceError, match=r"export again\. What was written so far is in .*/\.out\.bundle\.export;"):
        export.run(spark, lake, target, part_bytes=SMALL)
    assert not target.exists()
    assert folder.exists()
    export.run(spark, lake, target, part_bytes=SMALL)
    assert target.read_bytes().startswith(whole)


def test_a_full_disk_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "out.bundle"
    target.write_bytes(b"what was there")
    notes = [write_part(tmp_path, part, [(one.hash, one.raw)]) for part, one in enumerate(some_records(3, 1))]
    full = OSError(errno.ENOSPC, "No space left on device")
    with patch("os.fsync", side_effect=full), pytest.raises(ResourceError, match="No space left"):
        export._join(tmp_path, target, notes)
    assert target.read_bytes() == b"what was there"
    assert not list(tmp_path.glob(".out.bundle.*"))
    export._join(tmp_path, target, notes)
    assert [one.hash for one in _read(target)] == [one.hash for one in some_records(3, 1)]


def test_a_vanished_file_of_the_lake(spark: "SparkSession", tmp_path: Path) -> None:
    lake, _ = _lake(tmp_path / "lake")
    target = tmp_path / "out.bundle"
    target.write_bytes(b"what was there")
    (tmp_path / "lake" / lake.manifest("records").files[0].path).unlink()
    with pytest.raises(BobbinError) as raised:
        export.run(spark, lake, target)
    assert "\n" not in str(raised.value)
    assert target.read_bytes() == b"what was there"


def test_a_damaged_record_of_the_lake(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    (good,) = some_records(1, 1)
    store(lake, [structs.replace(good, raw=good.raw + b"!")])
    with pytest.raises(DamagedStore, match="have changed") as caught:
        export.run(spark, lake, tmp_path / "out.bundle")
    assert not list(tmp_path.glob("*out.bundle*")), "nothing could go on from the parts"
    assert "so far" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere/out.bundle", "no folder"),
        ("lake/out.bundle", "inside the lake"),
        ("lake", "inside the lake"),
        ("folder", "no file"),
        ("x.lace/y", "inside the lace"),
    ],
)
def test_targets_that_make_no_sense(tmp_path: Path, target: str, words: str) -> None:
    lake = Lake.create(tmp_path / "lake")
    Lace.create(tmp_path / "x.lace").close()
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=words):
        export.run(None, lake, tmp_path / target)  # type: ignore[arg-type]


def test_a_target_inside_a_lake_that_is_named_by_an_address(tmp_path: Path) -> None:
    Lake.create(tmp_path / "the lake")
    lake = Lake.open((tmp_path / "the lake").as_uri())
    with pytest.raises(UsageError, match="inside the lake"):
        export.run(None, lake, tmp_path / "the lake" / "out.bundle")  # type: ignore[arg-type]


def test_a_selection_that_is_not_there(spark: "SparkSession", tmp_path: Path) -> None:
    lake, _ = _lake(tmp_path / "lake")
    with pytest.raises(UsageError, match="no selection"):
        export.run(spark, lake, tmp_path / "out.bundle", choice=Choice(selection=KEY))


def test_a_selection_is_found_by_its_plan(tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake")
    with pytest.raises(UsageError, match="has no selection by the plan 'x'"):
        export.selection_of(lake, "x")
    _select(lake, records[:2])
    assert export.selection_of(lake, "x") == KEY
    _select(lake, records[:2], key=derived_key(plan="xy"))
    with pytest.raises(UsageError, match="has 2 selections"):
        export.selection_of(lake, "x")


# ---- laces -----------------------------------------------------------------------------------------------------------


def _stored(folder: Path) -> set[bytes]:
    with Lace.open(folder, read_only=True) as lace:
        return {stored.raw for stored in lace.store.scan()}


def test_a_new_lace_appears_when_it_is_complete(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake")
    target = tmp_path / "out.lace"
    with patch.object(Path, "rename", side_effect=OSError), pytest.raises(ResourceError, match="cannot rename"):
        export.run(spark, lake, target, part_bytes=SMALL)
    assert not target.exists()
    done = export.run(spark, lake, target, part_bytes=SMALL)
    assert done.imported is not None
    assert done.imported.duplicate == len(records), "what the first attempt had stored is not stored again"
    assert _stored(target) == {one.raw for one in records}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "out.lace"]


def test_a_lace_that_is_there_grows(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = _lake(tmp_path / "lake")
    target = tmp_path / "out.lace"
    refused = Random(1).choice(records)
    with Lace.create(target) as lace:
        lace.store.put_records(records[:10])
        lace.store.remove(refused.hash, reason="test")
    done = export.run(spark, lake, target, part_bytes=SMALL)
    held = [one for one in records[:10] if one is not refused]
    assert done.report.counts["duplicate"] == len(held)
    assert done.report.counts["refused"] == 1
    assert done.report.counts["stored"] == len(records) - len(held) - 1
    assert _stored(target) == {one.raw for one in records if one is not refused}
