"""The format ``bobbin``: ``spark.read.format("bobbin").load(path)``, and ``readStream`` for a lace that grows."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from bobbin.pipeline.source import columns, locations
from bobbin.pipeline.source.options import parse
from bobbin.pipeline.source.plain_errors import plainly
from bobbin.pipeline.source.reader import Reader
from bobbin.pipeline.source.stream import StreamReader

FORMAT: Final = "bobbin"
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(session: SparkSession) -> None:
    """Make the format known to a session. Spark hands filters to sources in Python only where it is told to."""
    session.conf.set(_PUSHDOWN, "true")
    session.dataSource.register(BobbinSource)


class BobbinSource(DataSource):
    """Laces, bundles and lakes as one source."""

    @classmethod
    def name(cls) -> str:
        """What the format is called."""
        return FORMAT

    @plainly
    def schema(self) -> StructType:
        """The columns that the options name, or all of them; for paths that can be read."""
        options = parse(self.options)
        for path in options.paths:
            locations.find(path)
        return from_arrow_schema(columns.schema(options.columns or columns.NAMES))

    @plainly
    def reader(self, schema: StructType) -> Reader:
        """For a query over what is there now."""
        return Reader(parse(self.options), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 -- Spark's name
        """For a query over what comes."""
        return StreamReader(self.options, schema)
