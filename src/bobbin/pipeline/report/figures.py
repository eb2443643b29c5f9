"""The figures of a report about a lake. Every list is bounded; what is left out is counted beside it."""

from typing import Any, Final

import msgspec
from msgspec import Struct

FORMAT: Final = "bobbin-lake-report"
VERSION: Final = 1


class Volume(Struct, frozen=True, kw_only=True):
    """Records, and the bytes that their authors wrote into them."""

    records: int
    bytes: int


class Named(Struct, frozen=True, kw_only=True):
    """The volume under a name."""

    name: str
    records: int
    bytes: int


class Ranking(Struct, frozen=True, kw_only=True):
    """The largest of many, and the rest as one."""

    distinct: int
    """How many different names there are."""
    top: tuple[Named, ...]
    others: Volume
    """Of all names that are not in ``top``."""
    without: Volume
    """Of records that have no such name, as a Blob has no signer."""


class Bucket(Struct, frozen=True, kw_only=True):
    """One stretch of time."""

    start: int
    """Unix seconds, which are UTC."""
    records: int
    bytes: int


class Timeline(Struct, frozen=True, kw_only=True):
    """The volume over the time that records say of themselves."""

    width: int
    """Seconds in a bucket."""
    buckets: tuple[Bucket, ...]
    """From the first to the last, without gaps."""
    earlier: int
    """Records before the first bucket: so few, and so far away, that they would hide all the others."""
    later: int
    first: int | None
    """The earliest and the latest Unix second of all; None where no record has a time."""
    last: int | None


class SizeBucket(Struct, frozen=True, kw_only=True):
    """Records of ``low`` bytes or more, and less than ``high``."""

    low: int
    high: int
    records: int


class Sizes(Struct, frozen=True, kw_only=True):
    """How large whole records are, in bytes."""

    total: int
    least: int
    median: int
    most_99: int
    """99 of 100 records have at most so many."""
    largest: int
    buckets: tuple[SizeBucket, ...]


class Filled(Struct, frozen=True, kw_only=True):
    """How many prefixes have so many records."""

    low: int
    high: int
    """The last count that belongs here."""
    prefixes: int


class Balance(Struct, frozen=True, kw_only=True):
    """How evenly records are spread over the prefixes of ``length`` symbols, by which two parties compare them."""

    length: int
    prefixes: int
    empty: int
    fewest: int
    most: int
    mean: float
    dispersion: float
    """Variance over mean. Chance alone gives 1; much more means that something is wrong with the hashes."""
    distribution: tuple[Filled, ...]


class Example(Struct, frozen=True, kw_only=True):
    """One piece of the quarantine."""

    source: str
    offset: int | None
    size: int
    detail: str
    beginning: str
    """The first bytes, as text with everything else as escapes."""


class Rejected(Struct, frozen=True, kw_only=True):
    """What was put into the quarantine for one reason."""

    reason: str
    pieces: int
    bytes: int
    examples: tuple[Example, ...]


class Quarantine(Struct, frozen=True, kw_only=True):
    """Everything that is no record."""

    pieces: int
    bytes: int
    reasons: tuple[Rejected, ...]
    other_reasons: int
    """Pieces of reasons that are not listed."""
    sources: Ranking


DAMAGED: Final = "(damaged)"
"""Stands for the job of a run whose report cannot be read; the notes say why."""


class RunFigures(Struct, frozen=True, kw_only=True):
    """One run of a job."""

    run: str
    job: str
    started: str
    """TAI."""
    seconds: float
    counts: dict[str, int]
    inputs: dict[str, int]
    outputs: dict[str, int]
    notes: tuple[str, ...]
    plan: str | None


class Derived(Struct, frozen=True, kw_only=True):
    """One table of selections or advertisements."""

    table: str
    rows: int
    properties: dict[str, str]
    counts: dict[str, int]
    """Of selections: records for each predicate."""
    current: bool
    """Whether it was made from the facts that the lake has now."""


class TableFigures(Struct, frozen=True, kw_only=True):
    """One table as its manifest describes it."""

    name: str
    number: int
    rows: int
    files: int
    bytes: int


class Figures(Struct, frozen=True, kw_only=True):
    """All of it."""

    format: str = FORMAT
    version: int = VERSION
    lake: str
    made: str
    """TAI."""
    tables: tuple[TableFigures, ...]
    """Those without a key, and of the others those that were made last."""
    tables_total: int
    records: int
    described: int
    """Records whose facts are known; all figures on kinds, places, signers and times are about these."""
    facts_current: bool
    kinds: tuple[Named, ...]
    places: Ranking
    """By group and app, as ``group / app``."""
    signers: Ranking
    timeline: Timeline
    sizes: Sizes
    balance: Balance
    quarantine: Quarantine
    runs: tuple[RunFigures, ...]
    """The newest first."""
    runs_total: int
    selections: tuple[Derived, ...]
    advertisements: tuple[Derived, ...]
    derived_total: int
    """Tables of both kinds, those that are not listed included."""


def builtins(figures: Figures) -> dict[str, Any]:
    """The figures as plain values, for JSON."""
    plain = msgspec.to_builtins(figures)
    assert isinstance(plain, dict)
    return plain
