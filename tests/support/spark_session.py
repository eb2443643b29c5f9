"""The one Spark session of a test process, and what is set right around it.

Nothing of the machine reaches it: it is started without the variables that Spark or Java would obey, and its scratch
folders lie in a temporary folder of the test run. Test modules can be imported by the Python workers, so a test may
send a function of its own to them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
OBEYED = frozenset(
    {
        "HADOOP_CONF_DIR",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "PYSPARK_DRIVER_PYTHON",
        "PYSPARK_PYTHON",
        "PYSPARK_SUBMIT_ARGS",
        "SPARK_CONF_DIR",
        "SPARK_HOME",
        "SPARK_LOCAL_DIRS",
        "SPARK_MASTER",
        "SPARK_REMOTE",
        "YARN_CONF_DIR",
    }
)
_REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def test_session(folder: Path) -> Iterator["SparkSession"]:
    """A session of the test profile that works below ``folder``; nothing of it is left afterwards."""
    from bobbin.pipeline.spark import Profile, close_session, open_session  # noqa: PLC0415  (slow)

    with pytest.MonkeyPatch.context() as patch:
        for name in OBEYED:
            patch.delenv(name, raising=False)
        patch.setenv("PYTHONPATH", str(_REPOSITORY))
        session = open_session(
            master=f"local[{CORES}]",
            profile=Profile.TEST,
            application="tests",
            options={
                "spark.local.dir": str(folder / "local"),
                "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
            },
        )
    try:
        yield session
    finally:
        close_session(session)


def clear(session: "SparkSession") -> None:
    """What one test leaves in the session, so that the next finds it as the first did."""
    session.catalog.clearCache()
    for table in session.catalog.listTables():
        if table.isTemporary:
            session.catalog.dropTempView(table.name)
