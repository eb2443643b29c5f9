"""The job ``conflicts``: the classes of a node, pair by pair, and every pair accounted for."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bobbin.cluster.chain.local_chain import LocalChain
from bobbin.cluster.conflicts.classify import ConflictClass, ConflictResult, Thresholds, detect_conflict
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding, combine
from bobbin.cluster.operations import CounterAdd
from bobbin.errors import UsageError
from bobbin.pipeline.delta_table import write_blocks, write_table
from bobbin.pipeline.failures import explained
from bobbin.pipeline.jobs import conflicts
from bobbin.pipeline.jobs.conflicts import DeltaSource, Form, find_source, key_of
from bobbin.pipeline.reading.sources import MissingSource
from bobbin.store.lake import staging
from bobbin.store.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def some_deltas(chance: Random, count: int) -> list[DeltaVector]:
    """Changes of which some repeat or turn others, with keys that a few of them share."""
    deltas: list[DeltaVector] = []
    for number in range(count):
        tx = number.to_bytes(16, "big")
        if deltas and chance.random() < 0.2:
            like = chance.choice(deltas)
            factor = chance.choice([-1.0, 1.0, 2.0])
            keys = like.keys if chance.random() < 0.5 else like.keys[1:]
            deltas.append(DeltaVector.of(combine(like.delta, like.delta, factor, 0.0), keys, tx))
            continue
        held = {chance.randrange(200): chance.gauss(0, 1) for _ in range(chance.randrange(9))}
        own = {b"key %d" % chance.randrange(12) for _ in range(chance.randrange(4))}
        deltas.append(DeltaVector.of(Embedding.of(200, held), own, tx))
    return deltas


def rows_of(lake: Lake, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for file in lake.manifest(name).files:
        with staging.opened(lake.files, file.path) as parquet:
            rows += parquet.read().to_pylist()
    return rows


def pairwise(deltas: list[DeltaVector], thresholds: Thresholds) -> dict[tuple[bytes, bytes], ConflictResult]:
    """Every pair, by the call that a node makes."""
    ordered = sorted(deltas, key=lambda delta: delta.tx)
    return {
        (one.tx, other.tx): detect_conflict(one, other, thresholds)
        for at, one in enumerate(ordered)
        for other in ordered[at + 1 :]
    }


@pytest.mark.slow
def test_every_pair_of_each_window_has_the_class_of_the_pairwise_call(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conflicts, "GROUP_ROWS_MAX", 9)
    chance = Random(7)
    windows = {-3: some_deltas(chance, 40), 0: some_deltas(chance, 1), 5: some_deltas(chance, 9)}
    rows = [(window, delta) for window, deltas in windows.items() for delta in deltas]
    chance.shuffle(rows)
    assert write_table(tmp_path / "deltas.parquet", rows) == 50
    lake = Lake.create(tmp_path / "x.lake")
    source, thresholds = find_source(str(tmp_path / "deltas.parquet")), Thresholds(conflicting=0.6)
    report = conflicts.run(spark, lake, source, thresholds=thresholds)
    key = key_of(source, thresholds)
    found = rows_of(lake, f"conflicts/{key}")
    by_window = {window: pairwise(deltas, thresholds) for window, deltas in windows.items()}
    told = {(row["window"], row["one"], row["other"]): row for row in found}
    assert len(told) == len(found)
    classes: Counter[str] = Counter()
    for window, pairs in by_window.items():
        for (one, other), expected in pairs.items():
            classes[expected.conflict_class.value.replace("-", "_")] += 1
            row = told.pop((window, one, other), None)
            if expected.conflict_class is ConflictClass.ORTHOGONAL:
                assert row is None
                continue
            assert row is not None
            assert row["class"] == expected.conflict_class.value
            assert row["action"] == expected.action.value
            assert row["jaccard"] == expected.jaccard
            assert row["cosine"] == pytest.approx(expected.cosine, abs=1e-12)
            assert tuple(row["keys"]) == expected.overlapping_keys
    assert not told
    assert set(classes) == {one.value.replace("-", "_") for one in ConflictClass}
    assert {name: report.counts[name] for name in classes} == classes
    summary = {row["window"]: row for row in rows_of(lake, f"windows/{key}")}
    assert {window: row["pairs"] for window, row in summary.items()} == {-3: 780, 0: 0, 5: 36}
    for window, row in summary.items():
        reported = sum(row["window"] == window for row in found)
        assert row["pairs"] == row["orthogonal"] + reported
        assert row["deltas"] == len(windows[window])
    again = conflicts.run(spark, lake, source, thresholds=thresholds)
    assert again.counts == report.counts
    assert len(rows_of(lake, f"conflicts/{key}")) == len(found)
    assert lake.manifest(f"conflicts/{key}").properties["conflicting"] == "0.6"


@pytest.mark.slow
def test_lines_of_json_and_blocks_are_sources_too_and_what_is_wrong_with_them_is_said(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lake = Lake.create(tmp_path / "x.lake")
    line = {"tx": "aa", "dimension": 4, "positions": [0, 2], "values": [1.0, -1], "keys": ["k"]}
    lines = [line, {**line, "tx": "bb"}, {**line, "tx": "cc", "window": 1}]
    source = tmp_path / "deltas.jsonl"
    source.write_text("".join(f"{json.dumps(one)}\n" for one in lines) + "\n")
    report = conflicts.run(spark, lake, find_source(str(source)))
    assert (report.inputs["deltas"], report.counts["windows"], report.counts["identical"]) == (3, 2, 1)
    for wrong, reason in (
        ({**line, "positions": [2, 0]}, "ascend"),
        ({**line, "tx": "bb"}, "bb has several changes in window 0"),
    ):
        source.write_text("".join(f"{json.dumps(one)}\n" for one in [*lines, wrong]))
        with pytest.raises(UsageError, match=reason), explained("conflicts"):
            conflicts.run(spark, lake, find_source(str(source)))
    assert lake.manifest(f"conflicts/{key_of(find_source(str(source)), Thresholds())}").number == 1
    chain = LocalChain(chance=Random(1))
    for number in range(4):
        workspace = chain.begin()
        workspace.add_operation(CounterAdd(b"%d" % number, 1))
        chain.commit(workspace, now_ms=number)
    write_blocks(tmp_path / "x.blocks.jsonl", chain.ledger.blocks(0, 4))
    rows = conflicts.read(spark, find_source(str(tmp_path / "x.blocks.jsonl"), heights=2)).collect()
    told = sorted((row["window"], *(bytes(key) for key in row["keys"])) for row in rows)
    assert told == [(0, b"0"), (1, b"1"), (1, b"2"), (2, b"3")]


def test_a_source_is_looked_at_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match="no file"):
        find_source(str(tmp_path / "none.parquet"))
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(UsageError, match="no Parquet file"):
        find_source(str(tmp_path / "text.parquet"))
    pq.write_table(pa.table({"tx": [b"1"]}), tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="no table of changes"):
        find_source(str(tmp_path / "other.parquet"))
    (tmp_path / "lines.jsonl").write_text("")
    assert find_source(str(tmp_path / "lines.jsonl")).form is Form.JSONL
    write_table(tmp_path / "good.parquet", [])
    assert find_source(str(tmp_path / "good.parquet")).form is Form.PARQUET
    write_blocks(tmp_path / "x.blocks.jsonl", [])
    found = find_source(str(tmp_path / "x.blocks.jsonl"), heights=7, dimension=9)
    assert (found.form, found.heights, found.dimension) == (Form.BLOCKS, 7, 9)
    with pytest.raises(UsageError, match="of this machine"):
        find_source("hdfs://host/x.blocks.jsonl")


def test_a_key_depends_on_source_and_thresholds() -> None:
    one = DeltaSource("/a/deltas.parquet", Form.PARQUET)
    keys = {
        key_of(one, Thresholds()),
        key_of(one, Thresholds(structural=0.4)),
        key_of(one, Thresholds(merges_shared_keys=True)),
        key_of(DeltaSource("/b/deltas.parquet", Form.PARQUET), Thresholds()),
        *(key_of(DeltaSource("/c.blocks.jsonl", Form.BLOCKS, heights), Thresholds()) for heights in (1, 2)),
    }
    assert len(keys) == 6
    assert key_of(one, Thresholds()) in keys
