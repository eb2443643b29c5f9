"""What every pipeline command shares."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bobbin.cli.pipeline_run import LOCAL, require_extra, running
from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.pipeline.failures import PipelineError
from bobbin.store.lake.errors import NoLake
from bobbin.store.lake.lake import Lake
from tests.support.described import KEY, describe_all, select_some
from tests.support.lakes import some_records, store
from tests.unit.cli.command_line import Cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_job_gets_a_session_and_can_name_its_steps(spark: "SparkSession", capfd: pytest.CaptureFixture[str]) -> None:
    with running("ingest", master=LOCAL, memory=None, debug=False, as_json=False) as job:
        job.step("counting")
        assert job.session is spark
        assert job.session.range(10).count() == 10
    assert capfd.readouterr() == ("", "")


def test_an_error_of_spark_is_one_paragraph(spark: "SparkSession", capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(PipelineError, match=r"^ingest: Spark failed: "),
        running("ingest", master=LOCAL, memory=None, debug=False, as_json=False),
    ):
        spark.sql("select cast('x' as int)").collect()
    assert capfd.readouterr() == ("", "")


def test_with_debug_the_trace_comes_first(spark: "SparkSession", capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(PipelineError),
        running("ingest", master=LOCAL, memory=None, debug=True, as_json=False),
    ):
        spark.sql("select cast('x' as int)").collect()
    shown = capfd.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert "NumberFormatException" in shown


@pytest.mark.usefixtures("spark")
def test_errors_of_ours_pass_unchanged() -> None:
    with (
        pytest.raises(NoLake, match=r"^here$"),
        running("ingest", master=LOCAL, memory=None, debug=False, as_json=True),
    ):
        raise NoLake("here")


def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    require_extra()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(UsageError, match=r"this needs pyspark, .*: pip install 'bobbin\[spark\]'$"):
        require_extra()
    with (
        pytest.raises(UsageError, match="pip install"),
        running("ingest", master=LOCAL, memory=None, debug=False, as_json=False),
    ):
        pytest.fail("it has begun")
    require_extra("pyarrow")


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A folder with a lake and what jobs take; ``lost(table)`` takes a file of a table away."""
    records = some_records(6, 1)
    lake = Lake.create(tmp_path / "x.lake")
    store(lake, records[:4])
    describe_all(lake)
    select_some(lake, {"MaySend": [records[0].hash]})
    (tmp_path / "x.bundle").write_bytes(b"".join(record.raw for record in records))
    with Lace.create(tmp_path / "x.lace") as lace:
        lace.store.put_records(records)
    (tmp_path / "own.policy").write_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n")
    monkeypatch.chdir(tmp_path)

    def lose(table: str) -> None:
        (tmp_path / "x.lake" / lake.manifest(table).files[0].path).unlink()

    return lose


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("records", "ingest x.lake x.bundle"),
        ("records", "load x.lake x.bundle"),
        ("records", "load y.lake x.lake"),
        ("records", "follow x.lake x.lace --once"),
        ("records", "export x.lake --to out"),
        ("records", "report x.lake"),
        ("facts", "facts x.lake"),
        ("facts", "advertise x.lake"),
        ("facts", "reconcile x.lake x.lace"),
        ("facts", "select x.lake --policy own.policy --peer source:x"),
        (f"selections/{KEY}", f"export x.lake --to out --selection {KEY}"),
        (f"selections/{KEY}", f"advertise x.lake --selection {KEY}"),
        (f"selections/{KEY}", "report x.lake"),
    ],
)
def test_a_lost_file_is_damage_in_every_job(cli: Cli, lost: Callable[[str], None], table: str, line: str) -> None:
    lost(table)
    answer = cli("pipeline", *line.split())
    assert answer.code == 3
    error, *rest = answer.err.splitlines()
    assert rest == []
    assert f"{table}/data/" in error
    assert "is lost" in error
    assert "`bobbin lake check`" in error
