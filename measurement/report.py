"""From results to files: a JSON file for each run, and the page that shows them all.

The page is always made from the JSON files, never by hand. A missed bar stands on it in bold and is counted at the
top.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from measurement.machine import Machine
from measurement.result import Ratio, Result, Row


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A result together with the run it came from."""

    name: str
    seconds: float
    machine: Machine
    result: Result


def write_report(report: Report, folder: Path) -> Path:
    """Write one report where the page will find it. An older one of the same name is replaced whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.name}.json"
    unfinished = path.with_suffix(".json.new")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    unfinished.replace(path)
    return path


def decode_report(content: bytes) -> Report:
    """Read one report back."""
    return msgspec.json.decode(content, type=Report)


def read_reports(folder: Path) -> list[Report]:
    """All reports in a folder, by name."""
    return [decode_report(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


def render_page(title: str, introduction: str, reports: Sequence[Report]) -> str:
    """The whole page, as Markdown."""
    parts = [f"# {title}", introduction, _render_summary(reports)]
    parts += [_render_report(report) for report in reports]
    return "\n\n".join(parts) + "\n"


def render_ratios(ratios: Sequence[Ratio]) -> str:
    """The table of promises."""
    cells = [
        [ratio.name, show_number(ratio.value), _show_bar(ratio), _show_verdict(ratio), ratio.note] for ratio in ratios
    ]
    return render_table(["ratio", "measured", "bar", "verdict", "note"], cells, numbers={1})


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: frozenset[int] | set[int]) -> str:
    """A Markdown table; the columns in ``numbers`` are set to the right, a column empty throughout is left out."""
    kept = [column for column in range(len(head)) if any(row[column] for row in rows)]
    lines = [
        _render_line([head[column] for column in kept]),
        _render_line(["---:" if column in numbers else "---" for column in kept]),
    ]
    lines += [_render_line([row[column] for column in kept]) for row in rows]
    return "\n".join(lines)


def show_number(value: float | str) -> str:
    """A number as people read it: thousands apart, four significant digits where it is not whole."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if abs(value) >= 1000:  # from here on the fraction says nothing
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _render_summary(reports: Sequence[Report]) -> str:
    if not reports:
        return "No run has been recorded yet."
    promises = [(report.name, ratio) for report in reports for ratio in report.result.ratios if ratio.bar is not None]
    missed = [(name, ratio) for name, ratio in promises if ratio.missed]
    if not promises:
        return "No result here carries a bar."
    if not missed:
        return f"**All {len(promises)} bars are met.**" if len(promises) > 1 else "**The one bar is met.**"
    lines = [f"**{len(missed)} of {len(promises)} bars missed:**", ""]
    lines += [f"- {name}: {ratio.name}, {show_number(ratio.value)} ({_show_bar(ratio)})" for name, ratio in missed]
    return "\n".join(lines)


def _render_report(report: Report) -> str:
    result = report.result
    parts = [f"## {report.name}", result.question]
    if result.rows:
        cells = [_row_cells(row) for row in result.rows]
        parts.append(render_table(["what", "value", "unit", "note"], cells, numbers={1}))
    if result.ratios:
        parts.append(render_ratios(result.ratios))
    parts += result.notes
    machine = report.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    parts.append(
        f"*{machine.date} · {report.seconds:,.0f} s · {machine.cpu}, {machine.cores} cores, "
        f"{machine.memory_gib:g} GiB · {machine.system} · {machine.python} · SQLite {machine.sqlite} · {packages}*"
    )
    return "\n\n".join(parts)


def _row_cells(row: Row) -> list[str]:
    return [row.name, show_number(row.value), row.unit, row.note]


def _show_bar(ratio: Ratio) -> str:
    if ratio.bar is None:
        return ""
    sign = "≥" if ratio.comparison == ">=" else "≤"
    stretch = "" if ratio.stretch is None else f", stretch {sign} {show_number(ratio.stretch)}"
    return f"{sign} {show_number(ratio.bar)}{stretch}"


def _show_verdict(ratio: Ratio) -> str:
    return f"**{ratio.verdict.upper()}**" if ratio.missed else ratio.verdict


def _render_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
