"""``bobbin pipeline report``: what is in a lake, as a page and as figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_checks import check_lake, check_target
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text, printable, size_text

if TYPE_CHECKING:
    from bobbin.pipeline.report.figures import Figures

_REASONS_MAX: Final = 5


def pipeline_report(
    lake: LakeFolder,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the page to this file.", show_default=False),
    ] = None,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Report what is in a lake, how good it is, and what became of it.

    Volume over time, kinds, places, signers, sizes, the quarantine by reason, how evenly hashes are spread, every run,
    and what plans select. The page is one file without script that needs no network; --json has the same figures.
    The lake is only read.

    Example: bobbin pipeline report archive.lake --html archive.html
    """
    require_extra()
    check_lake(lake)
    if html is not None:
        check_target(html, lake)
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import report
    from bobbin.pipeline.report.figures import builtins
    from bobbin.store.lake.lake import Lake

    out = Output(as_json=as_json)
    with running("report", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open(lake, files=files_of(job.session, lake))
        figures = report.run(job.session, opened, page=html, step=job.step)
    out.result(builtins(figures), *_lines(out, figures))
    if html is not None:
        out.note(f"the page is in {html}")
    return ExitCode.OK


def _lines(out: Output, figures: "Figures") -> list[str]:
    from bobbin.pipeline.report.words import mean

    kinds = ", ".join(count_text(kind.records, kind.name, _plural(kind.name)) for kind in figures.kinds)
    told = figures.quarantine.reasons[:_REASONS_MAX]
    reasons = ", ".join(f"{one.pieces:,} {one.reason}" for one in told)
    if (others := figures.quarantine.pieces - sum(one.pieces for one in told)) and told:
        reasons += f", {others:,} for other reasons"
    balance = figures.balance
    rows = {
        "records": f"{figures.records:,} ({kinds}), {size_text(figures.sizes.total)}",
        "places": f"{figures.places.distinct:,}",
        "signers": f"{figures.signers.distinct:,}",
        "quarantine": f"{figures.quarantine.pieces:,}" + (f" ({reasons})" if reasons else ""),
        "balance": f"{mean(balance.mean)} records a prefix, {balance.fewest:,} to {balance.most:,}",
        "runs": f"{figures.runs_total:,}",
        "plans": f"{count_text(len(figures.selections), 'selection')}, "
        f"{count_text(len(figures.advertisements), 'advertisement')}",
    }
    lines = [f"{out.style(f'{label:<10}', dim=True)}  {out.style(text)}" for label, text in rows.items()]
    if not figures.facts_current and figures.records:
        lines.append(f"facts are not up to date: bobbin pipeline facts {printable(figures.lake)}")
    return lines


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("x") else f"{kind}s"
