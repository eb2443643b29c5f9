"""``bobbin pipeline ingest``: take the records of many large files into a lake."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_checks import check_place
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text, printable, size_text
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.store.lake.report import Report


class FormatChoice(StrEnum):
    """What sources are, as the user says it."""

    AUTO = "auto"
    BUNDLE = "bundle"
    JSONL = "jsonl"
    PARQUET = "parquet"
    FILES = "files"
    LACE = "lace"


def pipeline_ingest(
    lake: LakeFolder,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE", help="Bundles, JSONL or Parquet files, folders of those, or laces.", show_default=False
        ),
    ],
    form: Annotated[
        FormatChoice,
        typer.Option("--form", help="What the sources are; files: a folder in which every file is a record."),
    ] = FormatChoice.AUTO,
    format_: Annotated[
        FormatChoice | None, typer.Option("--format", hidden=True, help="An older name of --form.")
    ] = None,
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="Column of Parquet files that holds the records' bytes.")
    ] = "raw",
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Check every record of some sources on all cores, store the valid ones in a lake.

    What is no valid record goes to the lake's quarantine, with its bytes, its reason and its place. Everything is
    committed at once, or nothing is. Ingesting again is safe: what is here already counts as duplicate. The lake is
    made if there is none. Ends with 1 if anything was not taken.

    Example: bobbin pipeline ingest archive.lake january.bundle february.jsonl notes.lace
    """
    require_extra()
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import ingest
    from bobbin.pipeline.reading.sources import Format, find_sources
    from bobbin.store.lake.lake import Lake

    out = Output(as_json=as_json)
    if format_ is not None and form is not FormatChoice.AUTO:
        raise UsageError("--format is an older name of --form; give one of them")
    check_place(lake)
    found = find_sources(sources, Format((format_ or form).value), lake=lake, column=column)
    with running("ingest", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open_or_create(lake, files=files_of(job.session, lake))
        report = ingest.run(job.session, opened, found, column=column, step=job.step)
    reasons = ingest.reasons_of(report)
    counts = {name: count for name, count in report.counts.items() if not name.startswith(ingest.REASON)}
    out.result(
        {
            "event": "summary",
            "lake": lake,
            "run": report.run,
            "sources": report.inputs["sources"],
            "bytes": report.inputs["bytes"],
            **counts,
            "reasons": reasons,
            "seconds": report.seconds,
        },
        *_lines(out, report, reasons),
    )
    return ExitCode.NOT_ALL if report.counts["quarantined"] else ExitCode.OK


def _lines(out: Output, report: "Report", reasons: dict[str, int]) -> list[str]:
    def part(word: str, fg: str) -> str:
        count = report.counts[word]
        return out.style(f"{count:,} {word}", fg=fg if count else None, bold=bool(count))

    lines = [
        f"{out.style('quarantined', fg='red')}  {count:>10,}  {out.style(printable(reason), bold=True)}"
        for reason, count in reasons.items()
    ]
    parts = [part("stored", "green"), part("duplicate", "yellow"), part("quarantined", "red")]
    pace = (
        f"{count_text(report.counts['in'], 'record')} of {count_text(report.inputs['sources'], 'source')}, "
        f"{size_text(report.inputs['bytes'])} in {report.seconds:.1f} s"
    )
    lines.append(f"{' · '.join(parts)}  {out.style(f'({pace})', dim=True)}")
    if known := report.counts["quarantined_before"]:
        lines.append(f"{known:,} of the quarantined were in the quarantine before")
    lines.append(out.style(f"run {report.run}", dim=True))
    return lines
