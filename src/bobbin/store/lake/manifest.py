"""A manifest: the one list of the files that make up a table, and what each of them holds.

A table is what its manifest says. Files beside those named are leftovers or belong to older manifests; nobody finds a
file by looking into a folder. A manifest is never changed: the next one has the next number. The decoder takes nothing
on trust, since a lake is a folder that anybody may have written to.
"""

import re
from typing import Annotated, Final, NoReturn

import msgspec
from msgspec import Meta, Struct

from bobbin.errors import UsageError
from bobbin.records import tai
from bobbin.store.lake import tables
from bobbin.store.lake.errors import DamagedLake, OtherVersion
from bobbin.store.lake.report import RUN_PATTERN

FORMAT: Final = "bobbin-manifest/1"
_FORMATS: Final = re.compile(r"bobbin-manifest/[0-9]+", re.ASCII)
PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*\.parquet", re.ASCII)
_RUN: Final = re.compile(RUN_PATTERN, re.ASCII)

CONTENT: Final = "content"
"""The property of a manifest that names the same rows as an earlier one: the number of the first of them."""

ORDER: Final = "order"
"""The property that says in which manifest rows last got other places; later ones have only added some at the end."""

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Text = Annotated[str, Meta(max_length=1 << 20)]


class DataFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable Parquet file."""

    path: str
    """Relative to the lake: ``<table>/data/<run>/<name>.parquet``."""
    rows: Count
    bytes: Count
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    """BLAKE3 of the file, in hex."""
    low: Text | None
    """The least value of the first sort column, if that is a text; without the letter for a table in payload order."""
    high: Text | None


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """One state of a table. Number 0 stands for a table that was never written, and is in no file."""

    format: str
    table: str
    schema: Annotated[int, Meta(ge=1)]
    """Version of the table's columns."""
    number: Count
    run: str
    """The run that made it; empty for number 0."""
    created: str
    """TAI; empty for number 0."""
    rows: Count
    files: tuple[DataFile, ...]
    """In the order in which they came: this is the order that numbers the records of a lake."""
    properties: dict[str, str]


class _Version(Struct):
    """As much of a manifest as tells whether we know the rest."""

    format: str
    schema: int


def empty(table: str) -> Manifest:
    """The manifest of a table that was never written."""
    return Manifest(FORMAT, table, tables.table(table).version, 0, "", "", 0, (), {})


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest's file."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(raw: bytes, *, where: str, table: str | None = None) -> Manifest:
    """The manifest that a file holds, for a table if one is named.

    Raises ``OtherVersion`` for one from a later Bobbin, ``DamagedLake`` for everything else that is none.
    """
    try:
        version = msgspec.json.decode(raw, type=_Version, strict=True)
        if _FORMATS.fullmatch(version.format) and version.format != FORMAT:
            raise OtherVersion(f"{where} is written as {version.format}; this Bobbin reads {FORMAT}")
        manifest = msgspec.json.decode(raw, type=Manifest, strict=True)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedLake(f"{where} is no manifest ({error})") from error
    _check(manifest, where, table)
    return manifest


def _check(manifest: Manifest, where: str, table: str | None) -> None:
    def refuse(reason: str) -> NoReturn:
        raise DamagedLake(f"{where} is no valid manifest: {reason}")

    if manifest.format != FORMAT:
        refuse(f"its format is {manifest.format!r}")
    if table is not None and manifest.table != table:
        refuse(f"it is of the table {manifest.table!r}, not {table}")
    try:
        known = tables.check_name(manifest.table)
        tai.parse(manifest.created)
    except UsageError as error:
        refuse(str(error))
    if manifest.schema > known.version:
        raise OtherVersion(
            f"{where} has the columns of version {manifest.schema}; this Bobbin knows {known.version} of {known.name}"
        )
    if not manifest.number or not _RUN.fullmatch(manifest.run):
        refuse("it has no number or no run")
    if sum(file.rows for file in manifest.files) != manifest.rows:
        refuse("the rows of its files do not add up")
    if len({file.path for file in manifest.files}) != len(manifest.files):
        refuse("it names a file twice")
    for file in manifest.files:
        if reason := _wrong(file, manifest.table):
            refuse(f"{file.path!r}: {reason}")


def _wrong(file: DataFile, table: str) -> str | None:
    """What is wrong with a file's entry. A path never leads out of the table's own folder."""
    if not file.path.startswith(f"{table}/data/"):
        return "the path is not in the table's folder"
    run, slash, name = file.path.removeprefix(f"{table}/data/").partition("/")
    if not slash or not _RUN.fullmatch(run) or not PART.fullmatch(name):
        return "the path is not <table>/data/<run>/<name>.parquet"
    if not file.rows or not file.bytes:
        return "an empty file has no place in a manifest"
    if (file.low is None) != (file.high is None) or (
        file.low is not None and file.high is not None and file.low.encode() > file.high.encode()
    ):
        return "the bounds are no bounds"
    return None


def content_of(manifest: Manifest) -> int:
    """The number of the first manifest with these rows: its own, unless it only has them in other files."""
    return number_in(manifest, CONTENT, manifest.number)


def order_of(manifest: Manifest) -> int:
    """The number of the manifest since which rows have only been added, at the end."""
    return number_in(manifest, ORDER, 0)


def is_extended(manifest: Manifest, base: Manifest) -> bool:
    """Whether a manifest is a later one than the base, with rows added at the end and nothing else changed."""
    return (
        manifest.number > base.number > 0
        and order_of(manifest) == order_of(base)
        and manifest.files[: len(base.files)] == base.files
    )


def number_in(manifest: Manifest, name: str, default: int) -> int:
    """A property that is a number; the default where it is none."""
    found = manifest.properties.get(name, "")
    return int(found) if found.isascii() and found.isdecimal() and len(found) < 19 else default


def run_of(path: str) -> str:
    """The run that wrote a file of a manifest."""
    return path.rsplit("/", 2)[1]
