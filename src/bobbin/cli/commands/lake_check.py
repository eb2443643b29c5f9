"""``bobbin lake check``: whether a lake is in order."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.lake_folder import LakeArgument, LakeMaster, open_lake
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_run import LOCAL
from bobbin.cli.progress import progress
from bobbin.cli.text import count_text, size_text

if TYPE_CHECKING:
    from bobbin.store.lake.lake import Lake

Quick = Annotated[
    bool,
    typer.Option(
        "--quick", metavar="", help="Compare files with their digests, without reading the rows.", show_default=False
    ),
]


def lake_check(
    location: LakeArgument, quick: Quick = False, master: LakeMaster = LOCAL, as_json: AsJson = False
) -> ExitCode:
    """Check that a lake is in order.

    Every file against its manifest, every record in full with its signature, every quarantined byte, and that the
    counts of the runs add up. Each thing that is wrong is listed. Files that belong to nothing are named, too; they do
    no harm. Ends with 0 if the lake is in order and with 3 if it is not.

    Example: bobbin lake check archive.lake
    """
    with open_lake(location, master=master) as lake:
        return _check(Output(as_json=as_json), lake, location, quick=quick)


def _check(out: Output, lake: "Lake", location: str, *, quick: bool) -> ExitCode:
    from bobbin.store.lake.check import check, orphans

    began = time.monotonic()
    findings = 0
    rows = [0]

    with progress(f"lake check {location}", "records") as meter:

        def seen(done: int, total: int) -> None:
            rows[0] = done
            meter(done, total)

        for finding in check(lake, quick=quick, progress=seen):
            findings += 1
            with meter.paused():
                words = f"{out.style(finding.where, bold=True)}  {out.style(finding.what)}"
                out.row(
                    {"event": "finding", "where": finding.where, "what": finding.what},
                    f"{out.style('damaged', fg='red')}  {words}",
                )
    left = 0
    for orphan in orphans(lake):
        left += 1
        out.row(
            {"event": "orphan", "path": orphan.path, "bytes": orphan.bytes},
            f"{out.style('orphan', fg='yellow')}   {out.style(orphan.path)}  {size_text(orphan.bytes)}",
        )
    good = out.style("in order", fg="green")
    verdict = good if not findings else out.style(count_text(findings, "finding"), fg="red")
    spare = f" · {count_text(left, 'orphan')}" if left else ""
    pace = out.style(f"(in {time.monotonic() - began:.1f} s)", dim=True)
    looked = "files compared with their digests" if quick else f"{count_text(rows[0], 'row')} checked"
    out.result(
        {
            "event": "summary",
            "lake": location,
            "rows": rows[0],
            "findings": findings,
            "orphans": left,
            "quick": quick,
        },
        f"{verdict} · {looked}{spare}  {pace}",
    )
    return ExitCode.INTEGRITY if findings else ExitCode.OK
