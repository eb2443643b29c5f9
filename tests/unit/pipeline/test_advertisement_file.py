"""Advertisements in a file: written whole, and believed only after everything was looked at."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bobbin.errors import ResourceError
from bobbin.interlace.schema import Schema
from bobbin.pipeline import advertisement_file
from bobbin.pipeline.advertisement_file import FORMAT, DamagedFile
from bobbin.pipeline.batches.advertise import Form
from bobbin.policy.operands import label_origin
from bobbin.records.ids import Kind, hash_text
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import ADVERTISEMENTS
from bobbin.store.lake.writing import PartWriter, Shape

TABLE = "advertisements/0123456789abcdef"
SAID = {"format": FORMAT, "source": "source:lab", "fields": '["Name"]'}
RECORDS: list[str] = [hash_text(Kind.PLEX, bytes([number]) * 32) for number in range(100)]
DIGESTS = [bytes([255 - number]) * 32 for number in range(100)]


def batch(records: list[str], digests: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(records, pa.string()), pa.array(digests, pa.binary())], schema=ADVERTISEMENTS.schema
    )


def made(path: Path, records: list[str], digests: list[bytes], said: Mapping[str, str] | None = None) -> Path:
    """A file as a peer might make one."""
    metadata = {b"bobbin": json.dumps(SAID if said is None else said).encode()}
    columns = {"record": pa.array(records, pa.string()), "digest": pa.array(digests, pa.binary())}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    return path


def test_a_table_comes_back_from_its_file(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    with lake.begin("advertise") as run:
        with PartWriter(lake.files, ADVERTISEMENTS, run.path(TABLE), Shape(file_bytes_max=2000)) as writer:
            for begin in range(0, 100, 10):
                writer.write(batch(RECORDS[begin : begin + 10], DIGESTS[begin : begin + 10]))
                writer._flush()
        run.replace(TABLE, properties={"source": "source:lab", "fields": '["Name"]'})
        run.commit()
    assert len(lake.manifest(TABLE).files) > 1
    target = tmp_path / "offer.parquet"
    assert advertisement_file.write(lake, lake.manifest(TABLE), target) == 100
    assert advertisement_file.check(target) == Form(
        source=label_origin("lab"), schema=Schema(names=frozenset({"Name"}))
    )
    read = pq.read_table(target)
    assert read.column("record").to_pylist() == RECORDS
    assert read.column("digest").to_pylist() == DIGESTS


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    with lake.begin("advertise") as run:
        run.replace(TABLE, properties={"source": "source:lab", "fields": "all"})
        run.commit()
    with pytest.raises(ResourceError, match="cannot write"):
        advertisement_file.write(lake, lake.manifest(TABLE), tmp_path / "nowhere" / "offer.parquet")


@pytest.mark.parametrize(
    ("records", "digests", "reason"),
    [
        ([RECORDS[0], RECORDS[0]], DIGESTS[:2], "names a record twice"),
        ([RECORDS[1], RECORDS[0]], DIGESTS[:2], "out of order"),
        (["P.short.H3"], DIGESTS[:1], "no record hash"),
        ([RECORDS[0] + "\n"], DIGESTS[:1], "no record hash"),
        (RECORDS[:1], [b"short"], "another size"),
        ([None], DIGESTS[:1], "without a record"),
    ],
)
def test_rows_that_no_table_has(tmp_path: Path, records: list[str], digests: list[bytes], reason: str) -> None:
    with pytest.raises(DamagedFile, match=reason):
        advertisement_file.check(made(tmp_path / "offer.parquet", records, digests))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "does not say whose"),
        (SAID | {"format": "bobbin-advertisements/9"}, "written as 'bobbin-advertisements/9'"),
        (SAID | {"source": "local"}, "does not say whose"),
        (SAID | {"fields": "some"}, "does not say whose"),
    ],
)
def test_files_that_say_something_else(tmp_path: Path, said: dict[str, str], reason: str) -> None:
    with pytest.raises(DamagedFile, match=reason):
        advertisement_file.check(made(tmp_path / "offer.parquet", RECORDS[:1], DIGESTS[:1], said))


def test_files_of_another_kind(tmp_path: Path) -> None:
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"a": [1]}), plain)
    with pytest.raises(DamagedFile, match="does not say that it holds advertisements"):
        advertisement_file.check(plain)
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({b"bobbin": json.dumps(SAID).encode()}), plain)
    with pytest.raises(DamagedFile, match="the columns a, not record, digest"):
        advertisement_file.check(plain)
    plain.write_bytes(b"no Parquet")
    with pytest.raises(DamagedFile, match="no Parquet file"):
        advertisement_file.check(plain)
    with pytest.raises(ResourceError, match="cannot read"):
        advertisement_file.check(tmp_path / "nowhere.parquet")
