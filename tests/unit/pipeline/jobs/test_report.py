"""The job ``report`` reads, and writes one page."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bobbin.pipeline.failures import PipelineError
from bobbin.pipeline.jobs import report
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_page_and_figures_and_the_lake_as_it_was(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(30, 1))
    before = _content(tmp_path / "lake")
    page = tmp_path / "page.html"
    steps: list[str] = []
    figures = report.run(spark, lake, page=page, step=steps.append)
    assert figures.records == 30
    assert page.read_text().startswith("<!doctype html>")
    assert steps[-1] == "writing the page"
    assert _content(tmp_path / "lake") == before
    assert report.run(spark, lake).sizes == figures.sizes
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]


def test_a_damaged_file_is_named_and_the_page_stays(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(30, 1))
    page = tmp_path / "page.html"
    page.write_text("before")
    damaged = tmp_path / "lake" / lake.manifest("records").files[0].path
    damaged.write_bytes(damaged.read_bytes()[:-8])
    with pytest.raises(DamagedLake, match=f"{damaged.name} of the lake .* has .* bytes, and its manifest says"):
        report.run(spark, lake, page=page)
    assert page.read_text() == "before"


def test_a_page_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"page.html cannot be written: No such file or directory"):
        report.write_page("text", tmp_path / "nowhere" / "page.html")
    (tmp_path / "taken").mkdir()
    with pytest.raises(PipelineError, match="taken cannot be written: Is a directory"):
        report.write_page("text", tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
