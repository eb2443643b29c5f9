"""The format as users have it: real sessions, real laces."""

import contextlib
import io
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from bobbin.errors import IntegrityError, UsageError
from bobbin.lace import Lace
from bobbin.pipeline.failures import explained
from bobbin.pipeline.source import columns
from bobbin.pipeline.source.datasource import BobbinSource, register
from bobbin.records import tai
from bobbin.records.record import Record
from bobbin.store.base import DamagedStore
from bobbin.store.lake.describing import describe as rows_of
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from tests.conformance import samples
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [
        *some_records(150, 3),
        *(samples.plex(one, group=f"g/{one % 5}", name=f"n{one % 9}", tai=one * 10**9) for one in range(150)),
    ]


@pytest.fixture(scope="module")
def lace(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("laces") / "x.lace"
    with Lace.create(folder) as made:
        made.store.put_records(records)
    return folder


def _rows(frame: "DataFrame") -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


def test_the_name_of_the_format() -> None:
    assert BobbinSource.name() == "bobbin"


def test_a_lace_as_a_frame(spark: "SparkSession", lace: Path, records: list[Record]) -> None:
    frame = spark.read.format("bobbin").option("recordsPerPartition", "50").load(str(lace))
    assert frame.columns == list(columns.NAMES)
    expected = [
        {"id": number, "raw": record.raw, **{name: row[name] for name in columns.NAMES if name in row}}
        for number, (record, row) in enumerate(zip(records, rows_of(records).to_pylist(), strict=True), 1)
    ]
    assert _rows(frame) == sorted(({name: row[name] for name in columns.NAMES} for row in expected), key=repr)


def test_several_paths_and_few_columns(spark: "SparkSession", lace: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "a b.bundle"
    bundle.write_bytes(samples.plex(991).raw + samples.plex(992).raw)
    frame = spark.read.format("bobbin").option("columns", "record").load([str(lace), str(bundle)])
    assert frame.columns == ["record"]
    assert frame.count() == 302
    named = spark.read.format("bobbin").schema("name STRING, id BIGINT").load(str(bundle))
    assert _rows(named) == [{"name": "links/991", "id": None}, {"name": "links/992", "id": None}]


def _predicates(count: int) -> list[str]:
    """Predicates of SQL over the columns that are indexed, drawn with a fixed seed."""
    random = Random(5)
    texts = {
        "`group`": ["u", "g/1", "g/", "x"],
        "app": ["é", "ding", "d"],
        "name": ["n1", "n/14", "links/3", "n"],
        "tai": [tai.render(5 * 10**9), "0000000", "0000000100", "x"],
        "signer": ["V.", "V.x"],
        "record": [samples.plex(3, group="g/3", name="n3", tai=3 * 10**9).hash, "P.a", "S."],
    }

    def one() -> str:
        column = random.choice([*texts, "id"])
        if column == "id":
            return f"id {random.choice(['=', '<', '>=', '<>'])} {random.randrange(310)}"
        text = random.choice(texts[column])
        forms = [
            f"{column} = '{text}'",
            f"{column} IN ('{text}', '{random.choice(texts[column])}', NULL)",
            f"{column} >= '{text}'",
            f"{column} < '{text}'",
            f"{column} LIKE '{text}%'",
            f"NOT ({column} = '{text}')",
            f"{column} IS NULL",
            f"{column} <=> '{text}'",
        ]
        return random.choice(forms)

    return [" AND ".join(one() for _ in range(random.randrange(1, 3))) for _ in range(count)]


def test_pushed_filters_leave_the_same_rows(spark: "SparkSession", lace: Path) -> None:
    """Against the same rows held in memory, where nothing can be pushed down to."""
    pushed = spark.read.format("bobbin").load(str(lace))
    held = spark.createDataFrame(pushed.toArrow())
    held.cache()
    seen = 0
    for predicate in _predicates(24):
        found = _rows(pushed.where(predicate).select("id", "record"))
        assert found == _rows(held.where(predicate).select("id", "record")), predicate
        seen += bool(found)
    assert seen >= 6, "most predicates that find nothing would prove little"


def test_what_is_pushed_is_not_looked_at_again(spark: "SparkSession", lace: Path) -> None:
    frame = spark.read.format("bobbin").load(str(lace)).where("name = 'n1' AND data_length > 3")
    with contextlib.redirect_stdout(io.StringIO()) as words:
        frame.explain()
    (looking,) = [line for line in words.getvalue().splitlines() if "Filter (" in line]
    assert "data_length" in looking
    assert "name" not in looking


def test_errors_are_ours(spark: "SparkSession", lace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing at"), explained("reading"):
        spark.read.format("bobbin").load(str(tmp_path / "nothing")).count()
    with pytest.raises(UsageError, match="no option"), explained("reading"):
        spark.read.format("bobbin").option("colums", "id").load(str(lace)).count()
    bundle = tmp_path / "x.bundle"
    bundle.write_bytes(samples.plex(1).raw[:-1])
    with pytest.raises(IntegrityError, match=r"x\.bundle is damaged: at byte 0"), explained("reading"):
        spark.read.format("bobbin").load(str(bundle)).count()
    with pytest.raises(UsageError, match="a stream reads a lace"), explained("reading"):
        _stream(spark, bundle, tmp_path / "checkpoint")
    lenient = spark.read.format("bobbin").option("mode", "dropmalformed")
    assert lenient.load(str(bundle)).count() == 0


def _stream(spark: "SparkSession", path: Path, checkpoint: Path) -> None:
    query = (
        spark.readStream.format("bobbin")
        .load(str(path))
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_who_catches_none_of_ours_reads_the_sentence_all_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(3, 1))
    (tmp_path / "lake" / lake.manifest("records").files[0].path).unlink()
    for path, words in ((tmp_path / "nothing", "there is nothing at"), (tmp_path / "lake", "No such file")):
        with pytest.raises(PySparkException) as caught:
            spark.read.format("bobbin").load(str(path)).collect()
        trace = str(caught.value).partition("Traceback")[2].splitlines()
        said = next(number for number, line in enumerate(trace) if line.startswith("bobbin."))
        assert words in trace[said]
        assert said <= 6, "nothing but the call and the sentence"


def test_a_damaged_lake(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(30, 1))
    path = tmp_path / "lake" / lake.manifest("records").files[0].path
    content = bytearray(path.read_bytes())
    content[100:400] = bytes(300)
    path.write_bytes(content)
    with pytest.raises(DamagedLake, match=r"is damaged|not those of that name"), explained("reading"):
        spark.read.format("bobbin").load(str(tmp_path / "lake")).collect()
    path.unlink()
    with pytest.raises(DamagedLake, match=r"part-00000\.parquet of the lake .* cannot be opened"), explained("reading"):
        spark.read.format("bobbin").load(str(tmp_path / "lake")).collect()


def test_a_damaged_lace(spark: "SparkSession", tmp_path: Path) -> None:
    with Lace.create(tmp_path / "x.lace") as made:
        made.store.put_records([samples.plex(1)])
    (tmp_path / "x.lace" / "records.db").write_bytes(b"nothing" * 5_000)
    with pytest.raises(DamagedStore, match="not a store"), explained("reading"):
        spark.read.format("bobbin").load(str(tmp_path / "x.lace")).count()


def test_a_stream_into_memory(spark: "SparkSession", tmp_path: Path) -> None:
    folder = tmp_path / "x.lace"
    with Lace.create(folder) as made:
        made.store.put_records([samples.plex(number) for number in range(7)])

    def run() -> None:
        source = spark.readStream.format("bobbin").option("maxRecordsPerBatch", "3").schema("id BIGINT, record STRING")
        query = (
            source.load(str(folder))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    with Lace.open(folder) as opened:
        opened.store.put_records([samples.plex(number) for number in range(9)])
    run()
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row["id"] for row in found) == list(range(1, 10))
    batches = sorted(int(path.name) for path in (tmp_path / "checkpoint" / "commits").iterdir() if path.name.isdigit())
    assert batches == [0, 1, 2, 3]


def test_registering_again_changes_nothing(spark: "SparkSession", lace: Path) -> None:
    register(spark)
    assert spark.read.format("bobbin").option("columns", "id").load(str(lace)).count() == 300
