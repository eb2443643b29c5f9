"""What a wide row of ``facts`` says, as expressions of Spark: the one place where the five relations come from it.

A row has a column for each fixed field, the extra headers and the links as lists. Rules look into one row at a time
(``rules.wide``), whoever wants a whole relation takes a view (``VIEWS``); both read the same expressions.

The names of the fixed fields are reserved: no record has an extra header of such a name, so a fixed field is its
column and nothing else.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from bobbin.facts import relations
from bobbin.pipeline.batches.describe import FIXED_FIELDS

SINGLE_INDEX: Final = "0"
"""The index of a fixed field."""

HASHES: Final[Mapping[str, str]] = MappingProxyType(
    {relations.BLOB_HASH: "blob_hash", relations.PLEX_HASH: "plex_hash"}
)
"""The relations that are a column, which is null where a record has no such fact."""

FIELD_PARTS: Final = ("name", "index", "value")
LINK_PARTS: Final = ("name", "index", "data", "target")
_FIELD: Final = "array<struct<name:string,index:int,value:string>>"
_LINK: Final = "array<struct<name:string,index:int,data:string,target:string>>"


def fixed_field(name: str) -> Column:
    """The value of a fixed field, as a text; null where a record has none."""
    return f.col(FIXED_FIELDS[name]).cast("string")


def extras() -> Column:
    """The extra headers of a record."""
    return f.coalesce(f.col("extras"), f.array().cast(_FIELD))


def fields() -> Column:
    """All fields of a record, those that it has, in the form of its extra headers."""
    fixed = [
        f.struct(
            f.lit(name).alias("name"),
            f.lit(SINGLE_INDEX).cast("int").alias("index"),
            fixed_field(name).alias("value"),
        )
        for name in FIXED_FIELDS
    ]
    return f.concat(f.filter(f.array(*fixed), lambda one: one["value"].isNotNull()), extras())


def links() -> Column:
    """The links that the headers of a record make."""
    return f.coalesce(f.col("links"), f.array().cast(_LINK))


def have(facts: DataFrame) -> DataFrame:
    """``Have(record)``."""
    return facts.select("record")


def field(facts: DataFrame) -> DataFrame:
    """``Field(record, name, index, value)``."""
    return _spelled(facts, fields())


def record_link(facts: DataFrame) -> DataFrame:
    """``RecordLink(record, name, index, data, target)``."""
    return _spelled(facts, links())


def blob_hash(facts: DataFrame) -> DataFrame:
    """``BlobHash(record, blob_hash)``."""
    return _column(facts, HASHES[relations.BLOB_HASH])


def plex_hash(facts: DataFrame) -> DataFrame:
    """``PlexHash(record, plex_hash)``."""
    return _column(facts, HASHES[relations.PLEX_HASH])


VIEWS: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = MappingProxyType(
    {
        relations.HAVE: have,
        relations.FIELD: field,
        relations.RECORD_LINK: record_link,
        relations.BLOB_HASH: blob_hash,
        relations.PLEX_HASH: plex_hash,
    }
)
"""The relations by their names. Columns are in the order of the relation's arguments, and all are texts."""


def _spelled(facts: DataFrame, elements: Column) -> DataFrame:
    return facts.select("record", f.inline(elements)).withColumn("index", f.col("index").cast("string"))


def _column(facts: DataFrame, name: str) -> DataFrame:
    return facts.where(f.col(name).isNotNull()).select("record", name)
