"""The records that benchmarks of the pipeline read."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import spark_material
from benchmarks.spark_material import SparkShape, make_shard, spark_bundle, spark_parquet
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Plex, Seal, validate


@pytest.mark.parametrize("shape", list(SparkShape))
def test_every_record_is_valid_and_has_the_same_size(shape: SparkShape) -> None:
    shard = make_shard(9_999_995, 10_000_000, shape)
    records = [validate(shard[at : at + shape.size]) for at in range(0, len(shard), shape.size)]
    assert len({record.hash for record in records}) == 5
    assert all(isinstance(record, Plex if shape is SparkShape.PLEX else Seal) for record in records)


def test_the_same_records_are_in_the_bundle_and_in_the_parquet_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_material, "cache_folder", lambda: tmp_path)
    raw = spark_bundle(20).read_bytes()
    assert raw == make_shard(0, 20, SparkShape.PLEX)
    for damaged in (False, True):
        folder = spark_parquet(20, damaged=damaged)
        values: list[bytes] = pq.read_table(folder).column("raw").to_pylist()
        assert len(values) == 20
        differing = [at for at, value in enumerate(values) if value != raw[at * 265 : at * 265 + 265]]
        # The first of each file is damaged.
        assert differing == ([0, 3, 6, 9, 12, 15, 18] if damaged else [])
    with pytest.raises(InvalidRecord):
        validate(pq.read_table(spark_parquet(20, damaged=True)).column("raw")[0].as_py())
