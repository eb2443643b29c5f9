"""The figures of a lake, aggregated by Spark. What comes to the driver is bounded, however large the lake is.

Each table is read through its manifest, and through one manifest each, so that all figures about it agree. Of tables
with a key and of runs there may be any number: the manifest of each is read and dropped, unless it is one of those that
are listed; of reports, only those that are listed are read. Nothing is written.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from bobbin.pipeline import frames
from bobbin.pipeline.offer import is_from_current
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.report.figures import (
    DAMAGED,
    Balance,
    Bucket,
    Derived,
    Example,
    Figures,
    Filled,
    Named,
    Quarantine,
    Ranking,
    Rejected,
    RunFigures,
    SizeBucket,
    Sizes,
    TableFigures,
    Timeline,
    Volume,
)
from bobbin.records import b64a, tai
from bobbin.store.lake import commit as commits
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake, tai_now
from bobbin.store.lake.manifest import Manifest
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import ADVERTISEMENTS, FACTS, QUARANTINE, RECORDS, SELECTIONS

TOP: Final = 12
"""Names in a ranking."""
BUCKETS_MAX: Final = 96
EXAMPLES: Final = 3
REASONS_MAX: Final = 40
RUNS_MAX: Final = 50
DERIVED_MAX: Final = 30
PREFIX_LENGTH: Final = 2
FILLED_MAX: Final = 24
"""Columns of the distribution over prefixes."""
TEXT_MAX: Final = 200
"""Characters of anything that somebody else wrote."""
_BEGINNING: Final = 48
KINDS: Final = {"B": "Blob", "P": "Plex", "S": "Seal"}

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
WIDTHS: Final = (_MINUTE, 10 * _MINUTE, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY, 3640 * _DAY)
"""How long a bucket of time may be."""

_LEAP_YEARS: Final = (1972, 2100)
"""Between which years leap seconds are looked for; there have been none since 2017."""


def gather(session: SparkSession, lake: Lake, *, step: Step = silent) -> Figures:
    """All figures of a lake as it is now."""
    records, facts, rejected = (lake.manifest(table.name) for table in (RECORDS, FACTS, QUARANTINE))
    kept = _Kept()
    for manifest in _keyed(lake):
        kept.add(manifest)
    stored = frames.read(session, lake, records)
    described = frames.read(session, lake, facts)
    step("sizes")
    sizes = measure_sizes(stored)
    step("balance")
    balance = measure_balance(stored)
    step("kinds and places")
    kinds = count_kinds(described)
    place = f.concat_ws(" / ", _short("group"), _short("app"))
    places = rank(described.withColumn("name", f.when(f.col("group").isNotNull(), place)))
    step("signers")
    signers = rank(described.withColumn("name", _short("signer")))
    step("time")
    timeline = count_over_time(described)
    step("quarantine")
    quarantine = count_quarantine(frames.read(session, lake, rejected))
    step("runs and plans")
    runs = lake.runs()
    plain = [one for one in (facts, rejected, records) if one.number]
    return Figures(
        lake=lake.location,
        made=tai_now(),
        tables=tuple(_table(one) for one in sorted((*plain, *kept.newest("")), key=lambda one: one.table)),
        tables_total=len(plain) + sum(kept.totals.values()),
        records=records.rows,
        described=facts.rows,
        facts_current=facts.rows == records.rows and is_from_current(lake, facts, RECORDS.name),
        kinds=kinds,
        places=places,
        signers=signers,
        timeline=timeline,
        sizes=sizes,
        balance=balance,
        quarantine=quarantine,
        runs=tuple(_run(lake, run) for run in runs[:RUNS_MAX]),
        runs_total=len(runs),
        selections=_derived(session, lake, kept.newest(SELECTIONS.name)),
        advertisements=_derived(session, lake, kept.newest(ADVERTISEMENTS.name)),
        derived_total=kept.totals[SELECTIONS.name] + kept.totals[ADVERTISEMENTS.name],
    )


# ---- records ---------------------------------------------------------------------------------------------------------


def measure_sizes(records: DataFrame) -> Sizes:
    """How large whole records are: a histogram by powers of two, and what lies in the middle."""
    sized = records.select(f.octet_length("raw").cast("long").alias("size"))
    power = f.floor(f.log2(f.greatest(f.col("size"), f.lit(1)))).cast("int")
    counted = sized.groupBy(power.alias("power")).agg(f.count(f.lit(1)).alias("records")).collect()
    whole = sized.agg(
        f.sum("size").alias("total"),
        f.min("size").alias("least"),
        f.max("size").alias("largest"),
        f.percentile_approx("size", [0.5, 0.99]).alias("middle"),
    ).collect()[0]
    found = {row.power: row.records for row in counted}
    powers = range(min(found), max(found) + 1) if found else range(0)
    median, most = whole.middle or (0, 0)
    return Sizes(
        total=whole.total or 0,
        least=whole.least or 0,
        median=median,
        most_99=most,
        largest=whole.largest or 0,
        buckets=tuple(SizeBucket(low=1 << at, high=2 << at, records=found.get(at, 0)) for at in powers),
    )


def measure_balance(records: DataFrame, length: int = PREFIX_LENGTH) -> Balance:
    """How many records each prefix has. There are few prefixes, so their counts come to the driver."""
    prefix = frames.payload(length).alias("prefix")
    counts = [row["count"] for row in records.select(prefix).groupBy("prefix").count().collect()]
    prefixes = len(b64a.ALPHABET) ** length
    empty = prefixes - len(counts)
    mean = sum(counts) / prefixes
    variance = (sum((count - mean) ** 2 for count in counts) + empty * mean**2) / prefixes
    return Balance(
        length=length,
        prefixes=prefixes,
        empty=empty,
        fewest=0 if empty else min(counts),
        most=max(counts, default=0),
        mean=mean,
        dispersion=variance / mean if mean else 0.0,
        distribution=distribute(counts, empty),
    )


def distribute(counts: Sequence[int], empty: int) -> tuple[Filled, ...]:
    """How many prefixes have how many records, in columns of equal width."""
    if not counts:
        return ()
    low = 0 if empty else min(counts)
    width = max(1, math.ceil((max(counts) - low + 1) / FILLED_MAX))
    columns = [0] * ((max(counts) - low) // width + 1)
    for count in counts:
        columns[(count - low) // width] += 1
    columns[0] += empty
    return tuple(
        Filled(low=low + at * width, high=low + (at + 1) * width - 1, prefixes=count)
        for at, count in enumerate(columns)
    )


# ---- facts -----------------------------------------------------------------------------------------------------------


def _volume() -> list[Column]:
    return [f.count(f.lit(1)).alias("records"), f.coalesce(f.sum("data_length"), f.lit(0)).alias("bytes")]


def count_kinds(facts: DataFrame) -> tuple[Named, ...]:
    """Blobs, Plexes and Seals."""
    found = {row.type: row for row in facts.groupBy("type").agg(*_volume()).collect()}
    return tuple(
        Named(name=name, records=found[letter].records, bytes=found[letter].bytes)
        if letter in found
        else Named(name=name, records=0, bytes=0)
        for letter, name in KINDS.items()
    )


def rank(rows: DataFrame, top: int = TOP) -> Ranking:
    """The names with the most records. ``rows`` has ``name``, null where there is none, and ``data_length``."""
    grouped = rows.groupBy("name").agg(*_volume())
    named = f.col("name").isNotNull()
    best = grouped.where(named).orderBy(f.desc("records"), f.asc("name")).limit(top).collect()
    whole = grouped.agg(
        f.count("name").alias("distinct"),
        *[
            f.coalesce(f.sum(f.when(condition, f.col(column))), f.lit(0)).alias(f"{kind}_{column}")
            for kind, condition in (("named", named), ("without", ~named))
            for column in ("records", "bytes")
        ],
    ).collect()[0]
    listed = tuple(Named(name=row.name, records=row.records, bytes=row.bytes) for row in best)
    return Ranking(
        distinct=whole.distinct,
        top=listed,
        others=Volume(
            records=whole.named_records - sum(one.records for one in listed),
            bytes=whole.named_bytes - sum(one.bytes for one in listed),
        ),
        without=Volume(records=whole.without_records, bytes=whole.without_bytes),
    )


def count_over_time(facts: DataFrame, buckets_max: int = BUCKETS_MAX) -> Timeline:
    """Records and bytes by the time that records say of themselves, which need not be true."""
    timed = facts.where(f.col("tai").isNotNull()).select(utc_second().alias("second"), "data_length")
    row = timed.agg(
        f.min("second").alias("first"),
        f.max("second").alias("last"),
        f.percentile_approx("second", [0.005, 0.995]).alias("middle"),
    ).collect()[0]
    if row.first is None:
        return Timeline(width=_DAY, buckets=(), earlier=0, later=0, first=None, last=None)
    begin, end, width = choose_range(row.first, row.last, row.middle, buckets_max)
    bucket = f.floor(f.col("second") / width).cast("long")
    inside = (f.col("second") >= begin) & (f.col("second") < end)
    counted = timed.where(inside).groupBy(bucket.alias("bucket")).agg(*_volume()).collect()
    outside = timed.agg(
        f.count_if(f.col("second") < begin).alias("earlier"), f.count_if(f.col("second") >= end).alias("later")
    ).collect()[0]
    found = {one.bucket * width: one for one in counted}
    return Timeline(
        width=width,
        buckets=tuple(_bucket(start, found.get(start)) for start in range(begin, end, width)),
        earlier=outside.earlier,
        later=outside.later,
        first=row.first,
        last=row.last,
    )


def utc_second() -> Column:
    """The Unix second of ``tai``. TAI is ahead of UTC by the leap seconds that there had been by then."""
    second = f.substring("tai", 1, 10).cast("long")
    ahead: Column = f.lit(tai.offset_seconds(0))
    for start, offset in _leaps():
        ahead = f.when(second >= start, f.lit(offset)).otherwise(ahead)
    return second - ahead


def _leaps() -> Iterator[tuple[int, int]]:
    """From which TAI second on TAI is ahead by how many. Leap seconds come at the end of June and of December."""
    before = tai.offset_seconds(0)
    for year in range(_LEAP_YEARS[0], _LEAP_YEARS[1]):
        for month in (1, 7):
            start = int(datetime(year, month, 1, tzinfo=UTC).timestamp())
            offset = tai.offset_seconds(start)
            if offset != before:
                yield start + offset, offset
            before = offset


def _bucket(start: int, row: Row | None) -> Bucket:
    return Bucket(start=start, records=row.records if row else 0, bytes=row.bytes if row else 0)


def choose_range(first: int, last: int, middle: Sequence[int], buckets_max: int) -> tuple[int, int, int]:
    """Where buckets begin and end, and how long each is.

    All of the time is shown, unless a hundredth of the records would make the rest invisible: then only where the
    others are.
    """
    low, high = middle
    if last - first > 4 * max(high - low, _HOUR):
        first, last = max(first, low), min(last, high)
    for width in WIDTHS:
        begin, end = first // width * width, last // width * width + width
        if (end - begin) // width <= buckets_max:
            return begin, end, width
    width = WIDTHS[-1]
    return last // width * width + width - buckets_max * width, last // width * width + width, width


# ---- quarantine ------------------------------------------------------------------------------------------------------


def count_quarantine(pieces: DataFrame) -> Quarantine:
    """What was rejected, by reason and by source, with a few examples of each reason."""
    whole = pieces.agg(f.count(f.lit(1)).alias("pieces"), f.coalesce(f.sum("size"), f.lit(0)).alias("bytes")).collect()[
        0
    ]
    grouped = pieces.groupBy(_short("reason").alias("reason")).agg(
        f.count(f.lit(1)).alias("pieces"), f.sum("size").alias("bytes")
    )
    reasons = grouped.orderBy(f.desc("pieces"), f.asc("reason")).limit(REASONS_MAX).collect()
    examples = _examples(pieces) if reasons else {}
    return Quarantine(
        pieces=whole.pieces,
        bytes=whole.bytes,
        reasons=tuple(
            Rejected(
                reason=row.reason, pieces=row.pieces, bytes=row.bytes, examples=tuple(examples.get(row.reason, ()))
            )
            for row in reasons
        ),
        other_reasons=whole.pieces - sum(row.pieces for row in reasons),
        sources=rank(pieces.select(_short("source").alias("name"), f.col("size").alias("data_length"))),
    )


def _examples(pieces: DataFrame) -> dict[str, list[Example]]:
    """The first few of each reason. Spark keeps no more than these of each partition on the way."""
    order = Window.partitionBy("reason").orderBy("source", "offset", "digest")
    first = (
        pieces.select(
            _short("reason").alias("reason"),
            _short("source").alias("source"),
            "offset",
            "size",
            "digest",
            _short("detail").alias("detail"),
            f.substring("raw", 1, _BEGINNING).alias("raw"),
        )
        .withColumn("place", f.row_number().over(order))
        .where(f.col("place") <= EXAMPLES)
        .orderBy("reason", "place")
        .limit(EXAMPLES * REASONS_MAX)
    )
    found: dict[str, list[Example]] = {}
    for row in first.collect():
        example = Example(
            source=row.source,
            offset=row.offset,
            size=row.size,
            detail=row.detail,
            beginning=bytes(row.raw).decode("utf-8", "backslashreplace"),
        )
        found.setdefault(row.reason, []).append(example)
    return found


# ---- manifests and runs ----------------------------------------------------------------------------------------------


def _table(manifest: Manifest) -> TableFigures:
    return TableFigures(
        name=manifest.table,
        number=manifest.number,
        rows=manifest.rows,
        files=len(manifest.files),
        bytes=sum(file.bytes for file in manifest.files),
    )


class _Kept:
    """The manifests with a key that were made last, some of each kind and some of all, and how many there are."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self._newest: dict[str, list[Manifest]] = {}

    def add(self, manifest: Manifest) -> None:
        """One more; an older one may go for it."""
        kind = manifest.table.partition("/")[0]
        self.totals[kind] += 1
        for group in (kind, ""):
            held = self._newest.setdefault(group, [])
            held.append(manifest)
            if len(held) > 2 * DERIVED_MAX:
                self._newest[group] = self.newest(group)

    def newest(self, kind: str) -> list[Manifest]:
        """Those of one kind, or of all kinds for the empty text, the last one first."""
        return heapq.nlargest(DERIVED_MAX, self._newest.get(kind, ()), key=attrgetter("run", "table"))


def _keyed(lake: Lake) -> Iterator[Manifest]:
    """The manifests of all tables with a key that were ever written."""
    for name in commits.table_names(lake.files):
        if "/" in name and (manifest := lake.manifest(name)).number:
            yield manifest


def _run(lake: Lake, run: str) -> RunFigures:
    """One run. A report that cannot be read is no reason to show none of the others."""
    try:
        report = lake.report(run)
    except DamagedLake as error:
        return _damaged(run, str(error))
    return _damaged(run, "its report is gone") if report is None else _told(report)


def _damaged(run: str, why: str) -> RunFigures:
    started = ""
    with suppress(ValueError):  # a name that has the form of a run's need not be that of a moment
        started = tai.render(commits.began_ns(run))
    return RunFigures(
        run=run,
        job=DAMAGED,
        started=started,
        seconds=0.0,
        counts={},
        inputs={},
        outputs={},
        notes=(why[:TEXT_MAX],),
        plan=None,
    )


def _told(report: Report) -> RunFigures:
    return RunFigures(
        run=report.run,
        job=report.job,
        started=report.started,
        seconds=report.seconds,
        counts=report.counts,
        inputs=report.inputs,
        outputs=report.outputs,
        notes=tuple(note[:TEXT_MAX] for note in report.notes),
        plan=report.plan,
    )


def _derived(session: SparkSession, lake: Lake, manifests: Sequence[Manifest]) -> tuple[Derived, ...]:
    """What there is to say of tables of one kind."""
    return tuple(
        Derived(
            table=one.table,
            rows=one.rows,
            properties={name: value[:TEXT_MAX] for name, value in sorted(one.properties.items())},
            counts=_predicates(session, lake, one) if one.table.startswith(f"{SELECTIONS.name}/") else {},
            current=is_from_current(lake, one, FACTS.name),
        )
        for one in manifests
    )


def _predicates(session: SparkSession, lake: Lake, manifest: Manifest) -> dict[str, int]:
    rows: list[Any] = frames.read(session, lake, manifest).groupBy("predicate").count().orderBy("predicate").collect()
    return {row["predicate"]: row["count"] for row in rows}


def _short(name: str) -> Column:
    """A text that somebody else wrote, cut where it is very long."""
    return f.substring(name, 1, TEXT_MAX)
