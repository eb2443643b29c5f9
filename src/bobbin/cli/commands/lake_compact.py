"""``bobbin lake compact``: few large files in place of many small ones."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.lake_folder import LakeArgument, LakeMaster, open_lake
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_run import LOCAL
from bobbin.cli.progress import progress
from bobbin.cli.text import count_text, size_text

Tables = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", metavar="TABLE", help="Only this table (repeatable).", show_default=False),
]
Force = Annotated[
    bool, typer.Option("--force", metavar="", help="Also what is in good shape already.", show_default=False)
]


def lake_compact(
    location: LakeArgument,
    table: Tables = None,
    force: Force = False,
    master: LakeMaster = LOCAL,
    as_json: AsJson = False,
) -> ExitCode:
    """Merge the files of records, facts and quarantine into few sorted ones that do not overlap.

    The rows stay the same; looking records up gets faster. The old files stay for whoever reads them, until
    `bobbin lake clean` removes them, so the disk needs room for both.

    Example: bobbin lake compact archive.lake
    """
    out = Output(as_json=as_json)
    with open_lake(location, master=master) as lake:
        from bobbin.store.lake.compact import COMPACTED, compact

        with progress(f"lake compact {location}", "records") as meter:
            report, told = compact(lake, table or COMPACTED, force=force, progress=meter)
    lines = [
        f"{out.style(f'{one.table:<11}', bold=True)}  {one.rows:>13,} rows  {count_text(one.files_before, 'file')} "
        f"({size_text(one.bytes_before)}) → {count_text(one.files_after, 'file')} ({size_text(one.bytes_after)})"
        for one in told
    ]
    out.result(
        {
            "lake": location,
            "run": None if report is None else report.run,
            "tables": [
                {
                    "table": one.table,
                    "rows": one.rows,
                    "files_before": one.files_before,
                    "files_after": one.files_after,
                    "bytes_before": one.bytes_before,
                    "bytes_after": one.bytes_after,
                }
                for one in told
            ],
        },
        *(lines or ["nothing to do"]),
    )
    return ExitCode.OK
