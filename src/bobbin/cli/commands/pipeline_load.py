"""``bobbin pipeline load``: take one bundle, lace or lake into a lake, and go on where an earlier load was cut off."""

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_checks import check_place
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text

if TYPE_CHECKING:
    from bobbin.pipeline.jobs.load import Loaded
    from bobbin.store.lake.report import Report


def pipeline_load(
    lake: LakeFolder,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A bundle, a lace or another lake.", show_default=False)
    ],
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Take the records of one source into a lake, stretch by stretch.

    As ingest does it, but what is done is committed after every stretch (1 GB of a file, a million records of a lace)
    together with how far it is: a load that was interrupted goes on from there, and one that was completed does
    nothing. The lake is made if there is none. Ends with 1 if anything of the source was not taken, be it by the
    earlier load that this one goes on from.

    Example: bobbin pipeline load archive.lake january.bundle
    """
    require_extra()
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import load
    from bobbin.store.lake.lake import Lake

    out = Output(as_json=as_json)
    check_place(lake)
    load.locate(source, lake)

    def heard(report: "Report") -> None:
        if as_json:
            out.row({"event": "stretch", "run": report.run, **report.counts})

    with running("load", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open_or_create(lake, files=files_of(job.session, lake))
        done = load.run(job.session, opened, source, step=job.step, heard=heard)
    out.result({"event": "summary", "lake": lake, **structs.asdict(done)}, *_lines(out, done))
    return ExitCode.NOT_ALL if done.quarantined or done.earlier else ExitCode.OK


def _lines(out: Output, done: "Loaded") -> list[str]:
    counts = f"{done.stored:,} stored · {done.duplicate:,} duplicate · {done.quarantined:,} quarantined"
    pace = f"({count_text(done.read, 'record')} in {count_text(done.runs, 'run')})"
    rejected = [(reason, count, "") for reason, count in sorted(done.reasons.items())]
    rejected += [(reason, count, "  by an earlier load") for reason, count in sorted(done.earlier.items())]
    lines = [
        f"{out.style('quarantined', fg='red')}  {count:>10,}  {out.style(reason, bold=True)}{out.style(when, dim=True)}"
        for reason, count, when in rejected
    ]
    lines.append(f"{counts}  {out.style(pace, dim=True)}")
    if done.resumed:
        lines.append(_earlier(done))
    return lines


def _earlier(done: "Loaded") -> str:
    """What earlier loads of the source have left to do."""
    left_out = sum(done.earlier.values())
    put = f"put {count_text(left_out, 'piece')} into the quarantine"
    if done.runs:
        return "went on from an earlier load" + (f", which had {put}" if left_out else "")
    return f"an earlier load had read all of it and {put}" if left_out else "an earlier load had taken all of it"
