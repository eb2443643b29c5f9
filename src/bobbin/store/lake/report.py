"""What a run did, as it is written into the lake when the run is committed."""

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from bobbin.store.lake.errors import DamagedLake

RUN: Final = r"[0-9]{8}T[0-9]{6}Z-[0-9]{6}-[0-9a-f]{4}"
"""When it began, in UTC, to the microsecond, and four random digits. Names of runs sort by time."""
RUN_PATTERN: Final = rf"^{RUN}\Z"
_RUN: Final = re.compile(RUN_PATTERN, re.ASCII)

RunId = Annotated[str, Meta(pattern=RUN_PATTERN)]
Counts = dict[str, int]


def is_run(name: str) -> bool:
    """Whether a text is the name of a run."""
    return _RUN.match(name) is not None


class Report(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run."""

    run: RunId
    job: str
    plan: str | None
    """The id of the policy that the job followed, where it followed one."""
    started: str
    """TAI."""
    seconds: float
    inputs: Counts
    outputs: Counts
    counts: Counts
    tables: Counts
    """The number of the manifest that the run made, for each table."""
    notes: tuple[str, ...] = ()


def encode(report: Report) -> bytes:
    """The bytes of a report's file."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def decode(raw: bytes, *, where: str) -> Report:
    """The report that a file holds."""
    try:
        return msgspec.json.decode(raw, type=Report, strict=True)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedLake(f"{where} is no report of a run ({error})") from error
