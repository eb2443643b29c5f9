"""What every ``bobbin pipeline`` command shares: its options, its Spark session, its progress and its errors."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from bobbin.cli.output import say
from bobbin.cli.progress import Meter, silence
from bobbin.cli.text import printable
from bobbin.errors import BobbinError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bobbin.pipeline.progress import Step

LakeFolder = Annotated[
    str,
    typer.Argument(metavar="LAKE", help="Folder of the lake: a path, or any that Hadoop knows.", show_default=False),
]
Master = Annotated[
    str,
    typer.Option("--master", metavar="URL", help="Where Spark runs: local[N], spark://HOST:PORT, yarn or k8s://…"),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="What the driver, and each executor of a cluster, may take, as in 4g. Default: half of the machine's, "
        "at most 6g.",
        show_default=False,
    ),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug", metavar="", help="Show what Spark logs, and the whole trace of an error.", show_default=False
    ),
]
LOCAL = "local[*]"
"""The default of ``Master``."""


class Running(Struct, frozen=True):
    """A job that may begin."""

    session: "SparkSession"
    step: "Step"
    """What the job calls when a step begins."""


def require_extra(*packages: str) -> None:
    """Fail where the packages of the pipeline are not installed."""
    missing = [package for package in packages or ("pyspark", "pyarrow") if find_spec(package) is None]
    if missing:
        raise UsageError(f"this needs {' and '.join(missing)}, which is not installed: pip install 'bobbin[spark]'")


@contextmanager
def running(title: str, *, master: str, memory: str | None, debug: bool, as_json: bool) -> Iterator[Running]:
    """A Spark session for the length of a block, with progress where someone watches and errors in one paragraph."""
    require_extra()
    from bobbin.pipeline.failures import explained
    from bobbin.pipeline.progress import watched
    from bobbin.pipeline.spark import session

    meter = Meter(title, "tasks", watched=not as_json and sys.stderr is not None and sys.stderr.isatty())
    try:
        with ExitStack() as stack:
            stack.enter_context(explained(title))
            with _traced(debug), silence(meter, "starting Spark …"):
                opened = stack.enter_context(session(master=master, memory=memory, application=title, debug=debug))
            # What failed is asked of Java, so it is read before the session ends.
            stack.enter_context(_traced(debug))
            stack.enter_context(explained(title))
            watch = stack.enter_context(watched(opened, meter))
            meter.words = lambda: watch.step
            yield Running(opened, watch.begin)
    finally:
        meter.close()


@contextmanager
def _traced(debug: bool) -> Iterator[None]:
    """With ``debug``, show where an error came from."""
    try:
        yield
    except BobbinError:
        if debug:
            say(printable(traceback.format_exc(), keep="\n"))
        raise
