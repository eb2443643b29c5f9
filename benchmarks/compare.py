"""Two runs side by side.

    python -m benchmarks.compare                    the last commit against the working tree
    python -m benchmarks.compare v0.1.0             that revision against the working tree
    python -m benchmarks.compare BEFORE AFTER       each a revision, a folder of results, or one result file

Values stand next to each other with their quotient. Whether up is good depends on the unit, so no value is called
better or worse; a ratio with a bar is, by its verdict. Figures from different machines are marked as such.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from measurement.report import Report, decode_report, read_reports, render_table, show_number

_HERE = Path(__file__).resolve().parent
_RESULTS = _HERE / "results"


class NoRunError(ValueError):
    """The argument names neither files nor a revision with results."""


def read_run(source: str) -> dict[str, Report]:
    """The reports of a folder, of one file, or of a revision of this repository."""
    path = Path(source)
    if path.is_dir():
        reports = read_reports(path)
    elif path.is_file():
        reports = [decode_report(path.read_bytes())]
    else:
        reports = _read_revision(source)
    if not reports:
        raise NoRunError(f"{source}: no results there")
    return {report.name: report for report in reports}


def render_comparison(before: dict[str, Report], after: dict[str, Report]) -> str:
    """All questions either run answered, as Markdown."""
    return "\n\n".join(_render_question(name, before.get(name), after.get(name)) for name in sorted({*before, *after}))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="Set two runs side by side.")
    parser.add_argument("before", nargs="?", default="HEAD", help="revision, folder or file (default: HEAD)")
    parser.add_argument("after", nargs="?", default=str(_RESULTS), help="the same (default: the working tree)")
    options = parser.parse_args(arguments)
    try:
        print(render_comparison(read_run(options.before), read_run(options.after)))
    except NoRunError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _git(*arguments: str) -> bytes | None:
    process = subprocess.run(["git", *arguments], cwd=_HERE, capture_output=True, check=False)
    return process.stdout if process.returncode == 0 else None


def _read_revision(revision: str) -> list[Report]:
    # --end-of-options: an argument is a revision, never a flag.
    listing = _git("ls-tree", "--name-only", "--end-of-options", revision, "results/")
    if listing is None:
        raise NoRunError(f"{revision}: neither a file, a folder nor a revision with results")
    reports = []
    for name in listing.decode().splitlines():
        if name.endswith(".json"):
            content = _git("show", "--end-of-options", f"{revision}:./{name}")
            assert content is not None, "ls-tree has just listed it"
            reports.append(decode_report(content))
    return reports


def _render_question(name: str, before: Report | None, after: Report | None) -> str:
    parts = [f"## {name}"]
    if before is None or after is None:
        parts.append("Only in the run " + ("after." if before is None else "before."))
    elif (before.machine.cpu, before.machine.cores) != (after.machine.cpu, after.machine.cores):
        parts.append(f"Different machines: {before.machine.cpu}, then {after.machine.cpu}. Compare ratios only.")
    cells = [*_row_cells(before, after), *_ratio_cells(before, after)]
    parts.append(render_table(["what", "before", "after", "after / before", "verdict"], cells, numbers={1, 2, 3}))
    return "\n\n".join(parts)


def _row_cells(before: Report | None, after: Report | None) -> list[list[str]]:
    old = {row.name: row for row in before.result.rows} if before else {}
    new = {row.name: row for row in after.result.rows} if after else {}
    cells = []
    for name in dict.fromkeys([*old, *new]):
        row = new.get(name) or old[name]
        was = old[name].value if name in old else None
        now = new[name].value if name in new else None
        cells.append([f"{name} ({row.unit})" if row.unit else name, *_side_by_side(was, now), ""])
    return cells


def _ratio_cells(before: Report | None, after: Report | None) -> list[list[str]]:
    old = {ratio.name: ratio for ratio in before.result.ratios} if before else {}
    new = {ratio.name: ratio for ratio in after.result.ratios} if after else {}
    cells = []
    for name in dict.fromkeys([*old, *new]):
        verdicts = [side[name].verdict for side in (old, new) if name in side]
        verdict = verdicts[0] if len(set(verdicts)) == 1 else " → ".join(verdicts)
        was = old[name].value if name in old else None
        now = new[name].value if name in new else None
        cells.append([name, *_side_by_side(was, now), verdict])
    return cells


def _side_by_side(was: float | str | None, now: float | str | None) -> list[str]:
    quotient = ""
    if isinstance(was, int | float) and isinstance(now, int | float) and was:
        quotient = f"{now / was:.3g}"
    return ["–" if was is None else show_number(was), "–" if now is None else show_number(now), quotient]


if __name__ == "__main__":
    sys.exit(main())
