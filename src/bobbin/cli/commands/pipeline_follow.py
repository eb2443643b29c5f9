"""``bobbin pipeline follow``: take a lace into a lake, and go on as it grows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_checks import check_place
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.store.lake.report import Report

_EVERY_SECONDS = 10.0
_BATCH_RECORDS_MAX = 1_000_000


def pipeline_follow(
    lake: LakeFolder,
    lace: Annotated[Path, typer.Argument(metavar="LACE", help="Folder of the lace.", show_default=False)],
    once: Annotated[
        bool, typer.Option("--once", metavar="", help="End when all that is there now is taken.", show_default=False)
    ] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="How often to look for new records.")
    ] = _EVERY_SECONDS,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="At most so many records are one run of the lake.")
    ] = _BATCH_RECORDS_MAX,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Take the records of a lace into a lake as they come, each exactly once.

    Structured Streaming reads the lace from one StoreRecordId to the next; each batch is one run of the lake, committed
    together with how far it is. So it can be interrupted or killed at any moment and started again. Runs until Ctrl-C,
    unless --once is given, says what it has done, and ends with 130 then. Removals are not followed: what the lace
    forgets stays in the lake. The lake is made if there is none. Ends with 1 if anything that it read was not taken.

    Example: bobbin pipeline follow archive.lake notes.lace --every 60
    """
    require_extra()
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import follow
    from bobbin.store.lake.lake import Lake

    if every <= 0 or batch < 1:
        raise UsageError("--every is a number of seconds above 0, and --batch a number of records from 1 on")
    out = Output(as_json=as_json)
    check_place(lake)
    follow.locate_lace(str(lace))

    def heard(report: "Report") -> None:
        counts = report.counts
        words = (
            f"{counts['stored']:,} stored · {counts['duplicate']:,} duplicate · {counts['quarantined']:,} quarantined"
        )
        out.row({"event": "batch", "run": report.run, **counts}, f"{words}  {out.style(f'run {report.run}', dim=True)}")

    with running("follow", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open_or_create(lake, files=files_of(job.session, lake))
        done = follow.run(
            job.session,
            opened,
            str(lace),
            once=once,
            every_seconds=every,
            records_per_batch_max=batch,
            step=job.step,
            heard=heard,
        )
    end = "  (interrupted)" if done.interrupted else ""
    out.result(
        {"event": "summary", "lake": lake, "lace": str(lace), **structs.asdict(done)},
        f"{count_text(done.read, 'record')} in {count_text(done.runs, 'run')}, up to the id {done.id}{end}",
    )
    if done.interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.NOT_ALL if done.quarantined else ExitCode.OK
