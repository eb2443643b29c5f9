"""The page: one file that needs nothing else, no script and no network, and that a browser is told to give neither."""

from bobbin.pipeline.report import sections
from bobbin.pipeline.report.figures import Figures
from bobbin.pipeline.report.style import SHEET
from bobbin.pipeline.report.words import escaped, instant

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render(figures: Figures) -> str:
    """The figures of a lake as a page."""
    name = figures.lake.rstrip("/").rpartition("/")[2] or figures.lake
    title = f"Lake report: {name}"
    made = instant(figures.made)
    place = "" if figures.lake == name else f" The lake is <code>{escaped(figures.lake)}</code>"
    body = "".join(
        [
            sections.totals(figures),
            sections.over_time(figures.timeline),
            '<div class="halves">',
            sections.kinds(figures),
            sections.reconciled(figures) or sections.tables(figures),
            "</div>",
            sections.ranking(
                "Places",
                "Where records belong, by group and app.",
                "Group / app",
                figures.places,
                rest="no place (Blobs)",
            ),
            sections.ranking(
                "Signers",
                "Who vouches for records: the keys with the most Seals.",
                "Key",
                figures.signers,
                rest="not signed",
            ),
            sections.quarantine(figures.quarantine),
            sections.sizes(figures.sizes),
            sections.balance(figures.balance),
            sections.runs(figures),
            sections.derived(figures),
            sections.tables(figures) if sections.reconciled(figures) else "",
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">'
        f"<title>{escaped(title)}</title><style>{SHEET}</style></head><body>"
        f'<header><h1>{escaped(name)}</h1><p class="soft">Data quality and exchange report, made on {escaped(made)}.'
        f"{place}</p></header><main>{body}</main>"
        "<footer>Made by <code>bobbin pipeline report</code>. All times are UTC; 1 kB is 1,000 "
        "bytes, 1 KiB is 1,024.</footer></body></html>\n"
    )
