"""``report``: what is in a lake, how good it is and what became of it, as figures and as a page. It only reads."""

import os
import secrets
from pathlib import Path

from pyspark.sql import SparkSession

from bobbin.pipeline.failures import PipelineError, explained
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.report.figures import Figures
from bobbin.pipeline.report.gather import gather
from bobbin.pipeline.report.page import render
from bobbin.store.lake.lake import Lake


def run(session: SparkSession, lake: Lake, *, page: Path | None = None, step: Step = silent) -> Figures:
    """The figures of a lake, also written as a page where one is asked for."""
    with explained("report"):
        figures = gather(session, lake, step=step)
    if page is not None:
        step("writing the page")
        write_page(render(figures), page)
    return figures


def write_page(text: str, page: Path) -> None:
    """Write a page; who looks at it meanwhile sees the one before."""
    new = page.with_name(f".{page.name}.{secrets.token_hex(4)}")
    try:
        new.write_text(text, "utf-8")
        new.replace(page)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise PipelineError(
            f"report: {page} cannot be written: {os.strerror(error.errno or 0)}", retry=False
        ) from error
