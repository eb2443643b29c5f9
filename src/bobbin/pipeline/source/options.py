"""What a query says to the data source besides its paths. Names are Spark's way of writing; their case does not matter.

=======================  =============================================================================================
``columns``              names of the columns that are wanted, with commas between; all of them without
``mode``                 ``FAILFAST`` (what is no record in a bundle ends the query) or ``DROPMALFORMED`` (it is passed)
``verify``               ``false``: hand on what a lace or lake holds without comparing it with its name
``recordsPerPartition``  how many records of a lace are one partition
``bytesPerPartition``    how many bytes of a bundle are one partition
``startingId``           a stream begins after this ``StoreRecordId``; 0 without, or ``latest``
``maxRecordsPerBatch``   a batch of a stream has at most so many records; without, as many as there are
=======================  =============================================================================================
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.pipeline.source.columns import checked
from bobbin.pipeline.source.lace_slices import RECORDS_PER_SLICE

BYTES_PER_SLICE: Final = 32 * 1024 * 1024
LATEST: Final = "latest"

_KNOWN: Final = {
    name.lower(): name
    for name in (
        "path",
        "paths",
        "columns",
        "mode",
        "verify",
        "recordsPerPartition",
        "bytesPerPartition",
        "startingId",
        "maxRecordsPerBatch",
    )
}


class Mode(StrEnum):
    """What happens to bytes of a bundle that are no record."""

    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"


class Options(Struct, frozen=True, kw_only=True):
    """The options of one query, checked."""

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    mode: Mode = Mode.FAILFAST
    verify: bool = True
    records_per_slice: int = RECORDS_PER_SLICE
    bytes_per_slice: int = BYTES_PER_SLICE
    starting_id: int | None = 0
    """None for the end, as it is when the stream begins."""
    records_per_batch_max: int | None = None


def parse(given: Mapping[str, str]) -> Options:
    """The options that Spark hands over. Raises ``UsageError`` for one that is not known, or makes no sense."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name not in _KNOWN:
            raise UsageError(f"the source bobbin has no option {name!r}; it has {', '.join(_KNOWN.values())}")
    columns = options.get("columns")
    is_latest = options.get("startingid", "").lower() == LATEST
    return Options(
        paths=_paths(options),
        columns=None if columns is None else checked(name.strip() for name in columns.split(",")),
        mode=_mode(options.get("mode", Mode.FAILFAST)),
        verify=_truth("verify", options.get("verify", "true")),
        records_per_slice=_number("recordsPerPartition", options, least=1) or RECORDS_PER_SLICE,
        bytes_per_slice=_number("bytesPerPartition", options, least=1) or BYTES_PER_SLICE,
        starting_id=None if is_latest else _number("startingId", options, least=0) or 0,
        records_per_batch_max=_number("maxRecordsPerBatch", options, least=1),
    )


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    """One path, or several: Spark hands those over as a list in JSON."""
    if "path" in options and "paths" in options:
        raise UsageError("name the paths in load(), and nowhere else")
    if "paths" in options:
        try:
            return msgspec.json.decode(options["paths"], type=tuple[str, ...])
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UsageError(f"paths is a list of texts in JSON ({error})") from error
    if "path" not in options:
        raise UsageError("the source bobbin reads a path: load(path)")
    return (options["path"],)


def _mode(text: str) -> Mode:
    try:
        return Mode(text.upper())
    except ValueError:
        raise UsageError(f"mode is {' or '.join(Mode)}, not {text!r}") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"


def _number(name: str, options: Mapping[str, str], *, least: int) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not least <= int(text) < 1 << 63:
        raise UsageError(f"{name} is a number from {least} on, not {text!r}")
    return int(text)
