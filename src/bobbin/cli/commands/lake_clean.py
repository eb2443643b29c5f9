"""``bobbin lake clean``: remove files that nobody needs any more."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.lake_folder import LakeArgument, LakeMaster, open_lake, parse_age
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_run import LOCAL
from bobbin.cli.text import count_text, size_text

Age = Annotated[
    str, typer.Option("--older-than", metavar="TIME", help="What was given up longer ago, as in 90s, 12h, 7d, or 0.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Only say what would be removed.", show_default=False)
]


def lake_clean(
    location: LakeArgument,
    older_than: Age = "1d",
    dry_run: DryRun = False,
    master: LakeMaster = LOCAL,
    as_json: AsJson = False,
) -> ExitCode:
    """Remove files that no current manifest names, and the history, when they are old enough.

    A file goes when its table has done without it for the given time, and no run is going that began before. Who reads
    a lake without a run, as a node over it does, has just that time to finish: 0 is for a lake that nobody reads. Files
    that belong to nothing go when they are that old. The current tables are never touched.

    Example: bobbin lake clean archive.lake --older-than 7d
    """
    out = Output(as_json=as_json)
    age = parse_age(older_than)
    with open_lake(location, master=master) as lake:
        from bobbin.store.lake.clean import clean

        report, removed = clean(lake, age_seconds=age, dry_run=dry_run)
    size = sum(file.bytes for file in removed)
    for file in removed:
        out.row(
            {"event": "file", "path": file.path, "bytes": file.bytes, "why": file.why},
            f"{out.style(file.path)}  {size_text(file.bytes)}  {out.style(file.why, dim=True)}",
        )
    out.result(
        {
            "event": "summary",
            "lake": location,
            "run": None if report is None else report.run,
            "files": len(removed),
            "bytes": size,
            "dry_run": dry_run,
        },
        f"{'would remove' if dry_run else 'removed'} {count_text(len(removed), 'file')}, {size_text(size)}",
    )
    return ExitCode.OK
