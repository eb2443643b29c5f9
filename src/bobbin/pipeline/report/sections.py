"""The sections of the page, one function each. Every chart has its numbers in a table beside or under it.

Whatever comes from records, sources or plans is escaped where it is put into the page: by ``table``, ``section`` and
the charts for everything that they are given.
"""

import math
from collections.abc import Sequence
from typing import Final

from bobbin.pipeline.report import charts
from bobbin.pipeline.report.charts import Column, Part
from bobbin.pipeline.report.figures import (
    DAMAGED,
    Balance,
    Derived,
    Figures,
    Quarantine,
    Ranking,
    RunFigures,
    Sizes,
    Timeline,
)
from bobbin.pipeline.report.pieces import Markup, bar, code, details, legend, section, table, tag
from bobbin.pipeline.report.words import (
    count,
    counted,
    escaped,
    instant,
    mean,
    moment,
    power,
    seconds,
    share,
    short,
    size,
    width,
)

RUNS_DRAWN: Final = 24
RECONCILE: Final = "reconcile"
"""The job whose outcome has a section of its own."""
_COMPARED: Final = (
    ("common", "the same on both sides", "good"),
    ("missing", "only there", "second"),
    ("extra", "only here", "main"),
    ("differing", "with other claims", "bad"),
)
"""How records of two sides stand, as that job counts them."""
_TAKEN: Final = (
    ("stored", "main", "stored"),
    ("duplicate", "second", "duplicates"),
    ("quarantined", "bad", "quarantined"),
)
"""What becomes of everything that a run takes in: its count, its colour, its word."""


def totals(figures: Figures) -> str:
    """The large numbers at the top."""
    pieces = figures.quarantine.pieces
    cards = [
        ("Records", count(figures.records), f"{size(figures.sizes.total)} in all"),
        ("Content", size(sum(kind.bytes for kind in figures.kinds)), "what authors wrote into records"),
        ("Places", count(figures.places.distinct), "groups and apps"),
        ("Signers", count(figures.signers.distinct), _signed(figures)),
        (
            "Quarantined",
            count(pieces),
            f"{size(figures.quarantine.bytes)} kept with their reasons" if pieces else "none",
        ),
        ("Runs", count(figures.runs_total), _last(figures.runs)),
    ]
    items = "".join(
        f"<div><dt>{escaped(word)}</dt><dd>{escaped(value)}<small>{escaped(more)}</small></dd></div>"
        for word, value, more in cards
    )
    return f'<dl class="totals">{items}</dl>{_staleness(figures)}'


def _signed(figures: Figures) -> str:
    signed = figures.described - figures.signers.without.records
    return f"of {share(signed, figures.described)} of the records"


def _last(runs: Sequence[RunFigures]) -> str:
    return f"the last on {instant(runs[0].started)}" if runs else "none yet"


def _staleness(figures: Figures) -> str:
    if figures.facts_current or not figures.records:
        return ""
    missing = max(0, figures.records - figures.described)
    return (
        f'<p class="note">What {counted(missing, "record")} of {count(figures.records)} say is not in the table of '
        "facts yet, so kinds, places, signers and times are those of the others. <code>bobbin pipeline facts</code> "
        "adds them.</p>"
    )


def over_time(timeline: Timeline) -> str:
    """Records and bytes by the time that records say of themselves."""
    if not timeline.buckets:
        return section("Volume over time", "No record of this lake says when it was made.", "")
    unit = width(timeline.width)
    lead = f"By the time that records say of themselves, in UTC; each column is one {unit}."
    if timeline.first is not None and timeline.last is not None:
        lead += f" The earliest record is of {moment(timeline.first)}, the latest of {moment(timeline.last)}."
    if timeline.earlier or timeline.later:
        lead += (
            f" Not drawn, because they are so far away from all others: {counted(timeline.earlier, 'earlier record')} "
            f"and {counted(timeline.later, 'later one')}."
        )
    shown = [(moment(bucket.start, timeline.width), bucket.records, bucket.bytes) for bucket in timeline.buckets]
    records = [
        Column(when, f"{when}: {counted(number, 'record')}", (Part(number, "main"),)) for when, number, _ in shown
    ]
    content = [Column(when, f"{when}: {size(number)}", (Part(number, "good"),)) for when, _, number in shown]
    body = (
        f"<h3>Records per {unit}</h3>"
        + charts.columns(f"Records per {unit}", _extremes(records, "records"), records, axis=short, height=220)
        + f"<h3>Content per {unit}</h3>"
        + charts.columns(f"Bytes of content per {unit}", "The same for bytes.", content, axis=size, height=170)
        + details(
            table(
                (unit.capitalize() + " (UTC)", "Records", "Content"),
                [(when, count(number), size(content)) for when, number, content in shown if number],
                numbers=(1, 2),
            )
        )
    )
    return section("Volume over time", lead, body)


def _extremes(data: Sequence[Column], unit: str) -> str:
    most = max(data, key=lambda column: column.height)
    return f"The highest column is {most.label} with {short(most.height)} {unit}."


def kinds(figures: Figures) -> str:
    """Blobs, Plexes and Seals."""
    most = max((kind.records for kind in figures.kinds), default=0)
    rows = [
        (
            kind.name,
            bar(kind.records, most),
            count(kind.records),
            share(kind.records, figures.described),
            size(kind.bytes),
        )
        for kind in figures.kinds
    ]
    lead = "A Blob is bare content, a Plex has a place and a time, and a Seal is a Plex that somebody signed."
    return section(
        "Kinds", lead, table(("Kind", "", "Records", "Share", "Content"), rows, numbers=(2, 3, 4), bars=(1,))
    )


def ranking(title: str, lead: str, head: str, ranked: Ranking, *, rest: str, unit: str = "Records") -> str:
    """The largest of many names, the others as one, and what has no name."""
    whole = sum(one.records for one in ranked.top) + ranked.others.records + ranked.without.records
    lines = [(one.name, one.records, one.bytes, "main") for one in ranked.top]
    if ranked.others.records:
        others = counted(ranked.distinct - len(ranked.top), "other")
        lines.append((others, ranked.others.records, ranked.others.bytes, "rest"))
    if ranked.without.records:
        lines.append((rest, ranked.without.records, ranked.without.bytes, "rest"))
    most = max((line[1] for line in lines), default=0)
    rows = [
        (name, bar(number, most, style), count(number), share(number, whole), size(content))
        for name, number, content, style in lines
    ]
    if not rows:
        return section(title, lead, '<p class="soft">None.</p>')
    return section(title, lead, table((head, "", unit, "Share", "Bytes"), rows, numbers=(2, 3, 4), bars=(1,)))


def sizes(figures: Sizes) -> str:
    """How large records are."""
    if not figures.buckets:
        return section("Sizes", "There are no records.", "")
    data = [
        Column(
            power(one.low),
            f"{power(one.low)} to {power(one.high)}: {counted(one.records, 'record')}",
            (Part(one.records, "main"),),
        )
        for one in figures.buckets
    ]
    lead = (
        f"Whole records, headers included. Half of them have at most {size(figures.median)}, 99 of 100 at most "
        f"{size(figures.most_99)}; the smallest has {size(figures.least)}, the largest {size(figures.largest)}."
    )
    rows = [(power(one.low), power(one.high), count(one.records)) for one in figures.buckets]
    body = charts.columns("Records by size", _extremes(data, "records"), data, axis=short, height=200)
    return section("Sizes", lead, body + details(table(("From", "Below", "Records"), rows, numbers=(0, 1, 2))))


def balance(figures: Balance) -> str:
    """How evenly records are spread over prefixes."""
    lead = (
        f"Two parties compare what they have by the first {figures.length} symbols of each hash. Of "
        f"{count(figures.prefixes)} such prefixes the fullest has {counted(figures.most, 'record')}, the emptiest "
        f"{count(figures.fewest)}; the mean is {mean(figures.mean)}."
    )
    if not figures.distribution:
        return section("Partition balance", "There are no records to spread.", "")
    expected = [figures.prefixes * _chance(one.low, one.high, figures.mean) for one in figures.distribution]
    data = [
        Column(
            _span(one.low, one.high),
            f"{_span(one.low, one.high)} records: {counted(one.prefixes, 'prefix', 'prefixes')}",
            (Part(one.prefixes, "main"),),
        )
        for one in figures.distribution
    ]
    verdict = (
        "as even as chance"
        if 0.8 <= figures.dispersion <= 1.25 or figures.mean < 0.05
        else "more even than chance"
        if figures.dispersion < 0.8
        else "less even than chance"
    )
    key = legend(("main", "prefixes with so many records"), ("line", "what chance gives"))
    rows = [
        (_span(one.low, one.high), count(one.prefixes), f"{value:,.1f}")
        for one, value in zip(figures.distribution, expected, strict=True)
    ]
    body = (
        charts.columns(
            "Prefixes by number of records", _extremes(data, "prefixes"), data, axis=short, line=expected, height=200
        )
        + key
        + f'<p class="soft">Variance over mean is {figures.dispersion:.2f}: {verdict}.</p>'
        + details(table(("Records", "Prefixes", "By chance"), rows, numbers=(0, 1, 2)))
    )
    return section("Partition balance", lead, body)


def _chance(low: int, high: int, mean: float) -> float:
    """How likely a number from ``low`` to ``high`` is where chance spreads with this mean (Poisson)."""
    if mean <= 0:
        return 1.0 if low == 0 else 0.0
    return sum(math.exp(number * math.log(mean) - mean - math.lgamma(number + 1)) for number in range(low, high + 1))


def _span(low: int, high: int) -> str:
    return count(low) if low == high else f"{count(low)}–{count(high)}"


def quarantine(figures: Quarantine) -> str:
    """What was rejected, why, and from where."""
    if not figures.pieces:
        return section("Quarantine", "Nothing: every piece that came in is a valid record.", "")
    lead = (
        f"{counted(figures.pieces, 'piece')} that are no valid record, {size(figures.bytes)}. Every byte of them is "
        "kept, with the reason and the place it came from."
    )
    most = figures.reasons[0].pieces if figures.reasons else 0
    rows = [
        (
            one.reason,
            bar(one.pieces, most, "bad"),
            count(one.pieces),
            share(one.pieces, figures.pieces),
            size(one.bytes),
        )
        for one in figures.reasons
    ]
    body = table(("Reason", "", "Pieces", "Share", "Bytes"), rows, numbers=(2, 3, 4), bars=(1,))
    if figures.other_reasons:
        body += f'<p class="soft">{counted(figures.other_reasons, "piece")} more, of other reasons.</p>'
    examples = [
        (
            one.reason,
            example.source,
            "" if example.offset is None else count(example.offset),
            size(example.size),
            example.detail,
            code(example.beginning),
        )
        for one in figures.reasons
        for example in one.examples
    ]
    heads = ("Reason", "Source", "Offset", "Size", "What is wrong", "Begins")
    body += details(table(heads, examples, numbers=(2, 3)), "Examples of each reason")
    sources = [(one.name, count(one.records), size(one.bytes)) for one in figures.sources.top]
    body += details(table(("Source", "Pieces", "Bytes"), sources, numbers=(1, 2)), "By source")
    return section("Quarantine", lead, body)


def runs(figures: Figures) -> str:
    """What each run took in, and what became of it."""
    if not figures.runs:
        return section("Runs", "No job has been run yet.", "")
    taking = [one for one in reversed(figures.runs) if _takes(one)][-RUNS_DRAWN:]
    data = [
        Column(
            instant(one.started)[5:16],
            f"{one.job}, {instant(one.started)}: "
            + ", ".join(f"{count(one.counts.get(key, 0))} {word}" for key, _, word in _TAKEN),
            tuple(Part(one.counts.get(key, 0), style) for key, style, _ in _TAKEN),
        )
        for one in taking
    ]
    body = ""
    if data:
        described = "Each column is a run that took records in, the oldest on the left."
        body = charts.columns("Records that each run took in", described, data, axis=short, height=180)
        body += legend(*((style, word) for _, style, word in _TAKEN))
    rows = [_run(one) for one in figures.runs]
    heads = ("Started (UTC)", "Job", "In", "Stored", "Duplicate", "Quarantined", "Took", "Result")
    body += f'<div class="scroll">{table(heads, rows, numbers=(2, 3, 4, 5, 6))}</div>'
    if figures.runs_total > len(figures.runs):
        body += f'<p class="soft">{counted(figures.runs_total - len(figures.runs), "older run")} not listed.</p>'
    lead = "Every run accounts for all of its input: in = stored + duplicate + quarantined."
    return section("Runs", lead, body)


def _run(one: RunFigures) -> tuple[str, ...]:
    def number(name: str) -> str:
        return count(one.counts[name]) if name in one.counts else ""

    taken = (number("in"), number("stored"), number("duplicate"), number("quarantined"))
    return (instant(one.started).removesuffix(" UTC"), one.job, *taken, seconds(one.seconds), _result(one))


def _result(one: RunFigures) -> str:
    """What a run that took nothing in has made."""
    if _takes(one):
        return "; ".join(one.notes)
    if one.job == RECONCILE:
        return ", ".join(f"{count(one.counts[key])} {word}" for key, word, _ in _COMPARED if key in one.counts)
    if one.job == DAMAGED:
        return "; ".join(one.notes)
    return ", ".join(
        f"{counted(value, 'row')} in {name}" if "/" in name else f"{count(value)} {name}"
        for name, value in one.outputs.items()
        if value
    )


def _takes(one: RunFigures) -> bool:
    """Whether a run took records in."""
    return "stored" in one.counts and "duplicate" in one.counts


def derived(figures: Figures) -> str:
    """What policies select, and what is advertised of it."""
    if not figures.selections and not figures.advertisements:
        lead = "No policy has been evaluated over this lake, and nothing is advertised from it."
        return section("Selections and advertisements", lead, "")
    body = ""
    if figures.selections:
        rows = [
            (one.properties.get("plan", ""), one.table.rpartition("/")[2], _predicates(one), _currency(one))
            for one in figures.selections
        ]
        body += "<h3>Selections</h3>" + table(("Plan", "Key", "Records by predicate", "State"), rows)
    if figures.advertisements:
        offers = [
            (
                one.properties.get("source", ""),
                one.properties.get("plan", ""),
                one.table.rpartition("/")[2],
                count(one.rows),
                _currency(one),
            )
            for one in figures.advertisements
        ]
        heads = ("Advertised by", "Plan", "Key", "Records", "State")
        body += "<h3>Advertisements</h3>" + table(heads, offers, numbers=(3,))
    listed = len(figures.selections) + len(figures.advertisements)
    if figures.derived_total > listed:
        body += f'<p class="soft">{counted(figures.derived_total - listed, "older table")} not listed.</p>'
    lead = (
        "What the rules of a plan select from the lake, and what two parties compare. A table is current if it was "
        "made from the facts of now."
    )
    return section("Selections and advertisements", lead, body)


def _predicates(one: Derived) -> str:
    return " · ".join(f"{name} {count(number)}" for name, number in one.counts.items()) or counted(one.rows, "row")


def _currency(one: Derived) -> Markup:
    return tag("current", "good") if one.current else tag("made from older facts", "second")


def reconciled(figures: Figures) -> str:
    """How the lake compared with others, if it was compared at all."""
    last = next((one for one in figures.runs if one.job == RECONCILE), None)
    if last is None:
        return ""
    numbers = [(last.counts.get(key, 0), word, style) for key, word, style in _COMPARED]
    most = max(number for number, _, _ in numbers)
    rows = [(word, bar(number, most, style), count(number)) for number, word, style in numbers]
    differ = any(last.counts.get(key, 0) for key, _, _ in _COMPARED[1:])
    verdict = "The sides differed." if differ else "Both sides had the same."
    lead = f"The last comparison, on {instant(last.started)}: {'; '.join(last.notes) or 'with another side'}. {verdict}"
    return section("Reconciliation", lead, table(("Records", "", "Number"), rows, numbers=(2,), bars=(1,)))


def tables(figures: Figures) -> str:
    """The tables of the lake as their manifests describe them."""
    rows = [(one.name, count(one.number), count(one.rows), count(one.files), size(one.bytes)) for one in figures.tables]
    lead = "As the manifests describe them; these are the states that this page is about."
    body = table(("Table", "Manifest", "Rows", "Files", "On disk"), rows, numbers=(1, 2, 3, 4))
    if figures.tables_total > len(figures.tables):
        body += f'<p class="soft">{counted(figures.tables_total - len(figures.tables), "older table")} not listed.</p>'
    return section("Tables", lead, body)
