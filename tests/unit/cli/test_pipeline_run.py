"""What every pipeline command shares."""

import sys
from typing import TYPE_CHECKING

import pytest

from bobbin.cli.pipeline_run import LOCAL, require_extra, running
from bobbin.errors import UsageError
from bobbin.pipeline.failures import PipelineError
from bobbin.store.lake.errors import NoLake

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
