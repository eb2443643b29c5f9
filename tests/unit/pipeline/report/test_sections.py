"""Each section says what its figures say, and something sensible where there is nothing to say."""

import pytest
from msgspec.structs import replace

from bobbin.pipeline.report import sections
from bobbin.pipeline.report.figures import DAMAGED, Filled, Timeline
from tests.unit.pipeline.report.made_figures import DAY, empty_figures, figures, run_figures


def test_totals_and_what_is_not_described_yet() -> None:
    assert "<dt>Records</dt><dd>50<small>25.0 kB in all" in sections.totals(figures())
    assert 'class="note"' not in sections.totals(figures())
    stale = sections.totals(figures(described=45, facts_current=False))
    assert "What 5 records of 50 say is not in the table of facts yet" in stale
    assert "none yet" in sections.totals(empty_figures())


def test_time_names_what_is_not_drawn() -> None:
    timeline = figures().timeline
    assert "each column is one day" in sections.over_time(timeline)
    assert "2026-01-30: 29 records" in sections.over_time(timeline)
    assert "Not drawn" not in sections.over_time(timeline)
    far = sections.over_time(replace(timeline, earlier=1, later=2))
    assert "1 earlier record and 2 later ones" in far
    nothing = Timeline(width=DAY, buckets=(), earlier=0, later=0, first=None, last=None)
    assert "No record of this lake says when" in sections.over_time(nothing)


def test_rankings_end_with_the_others_and_those_without() -> None:
    made = sections.ranking("Signers", "Who.", "Key", figures().signers, rest="not signed")
    assert made.index("2 others") < made.index("not signed")
    assert "None." in sections.ranking("Signers", "Who.", "Key", empty_figures().signers, rest="not signed")


def test_kinds_and_sizes_and_tables() -> None:
    assert "Seal" in sections.kinds(figures())
    assert "512 B to 1 KiB: 45 records" in sections.sizes(figures().sizes)
    assert "There are no records" in sections.sizes(empty_figures().sizes)
    assert "12.3 kB" in sections.tables(figures())
    assert "not listed" not in sections.tables(figures())
    assert "4 older tables not listed" in sections.tables(figures(tables_total=5))


@pytest.mark.parametrize(
    ("dispersion", "mean", "words"),
    [
        (1.0, 9.0, "as even as chance"),
        (0.5, 9.0, "more even than chance"),
        (3.0, 9.0, "less even than"),
        (9.9, 0.01, "as even"),
    ],
)
def test_balance_is_judged_against_chance(dispersion: float, mean: float, words: str) -> None:
    changed = replace(figures().balance, dispersion=dispersion, mean=mean)
    assert f"{dispersion:.2f}: {words}" in sections.balance(changed)


def test_chance_spreads_over_all_numbers() -> None:
    assert sum(sections._chance(number, number, 7.5) for number in range(60)) == pytest.approx(1)
    assert sections._chance(0, 0, 0) == 1
    assert sections._chance(1, 5, 0) == 0
    wide = replace(figures().balance, distribution=(Filled(low=0, high=9, prefixes=4096),))
    assert "0–9 records: 4,096 prefixes" in sections.balance(wide)
    assert "no records to spread" in sections.balance(empty_figures().balance)


def test_quarantine_counts_what_is_not_listed() -> None:
    made = sections.quarantine(figures().quarantine)
    assert "3 pieces that are no valid record" in made
    assert "1 piece more, of other reasons" in made
    assert "every piece that came in is a valid record" in sections.quarantine(empty_figures().quarantine)
    piece = figures().quarantine.reasons[0]
    placeless = replace(piece, examples=(replace(piece.examples[0], offset=None),))
    assert '<td class="number"></td>' in sections.quarantine(replace(figures().quarantine, reasons=(placeless,)))


def test_runs_say_what_they_took_and_what_they_made() -> None:
    made = sections.runs(figures())
    assert "ingest, 2026-01-01 00:00:00 UTC: 5 stored, 2 duplicates, 1 quarantined" in made
    assert "7 rows in selections/0123456789abcdef" in made
    assert "4 the same on both sides, 3 only there, 2 only here, 1 with other claims" in made
    assert "2 older runs not listed" in made
    assert "No job has been run yet" in sections.runs(empty_figures())
    damaged = run_figures(DAMAGED, {}, notes=("it is no report",))
    assert "it is no report" in sections.runs(figures(runs=(damaged,)))
    assert "<svg viewBox" not in sections.runs(figures(runs=(run_figures("facts", {}, outputs={"facts": 3}),)))


def test_selections_and_advertisements_say_whether_they_are_current() -> None:
    made = sections.derived(figures())
    assert "MaySend 7" in made
    assert "current" in made
    assert "made from older facts" in made
    assert "2 older tables not listed" in made
    assert "No policy has been evaluated" in sections.derived(empty_figures())
    plain = replace(figures().selections[0], counts={})
    assert "7 rows" in sections.derived(figures(selections=(plain,)))


def test_reconciliation_is_there_only_where_sides_were_compared() -> None:
    assert "The sides differed." in sections.reconciled(figures())
    same = run_figures("reconcile", {"common": 4, "missing": 0, "extra": 0, "differing": 0})
    assert "Both sides had the same." in sections.reconciled(figures(runs=(same,)))
    assert sections.reconciled(empty_figures()) == ""
