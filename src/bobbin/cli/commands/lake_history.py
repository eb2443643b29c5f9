"""``bobbin lake history``: what was done to a lake, and when."""

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.lake_folder import LakeArgument, LakeMaster, open_lake, when
from bobbin.cli.options import AsJson, Limit
from bobbin.cli.output import Output
from bobbin.cli.pipeline_run import LOCAL
from bobbin.cli.text import count_text

if TYPE_CHECKING:
    from bobbin.store.lake.lake import Lake, Report
    from bobbin.store.lake.manifest import Manifest

_REASON: Final = "reason:"
_QUARANTINED: Final = "quarantined"
_KEY_SHOWN: Final = 4

TableName = Annotated[
    str | None,
    typer.Option("--table", "-t", metavar="TABLE", help="The manifests of this table instead.", show_default=False),
]


def lake_history(
    location: LakeArgument,
    table: TableName = None,
    limit: Limit = None,
    master: LakeMaster = LOCAL,
    as_json: AsJson = False,
) -> ExitCode:
    """List the runs that changed a lake, the newest first, or the manifests of one table.

    Examples: bobbin lake history archive.lake · bobbin lake history archive.lake --table records
    """
    with open_lake(location, master=master) as lake:
        return _show(Output(as_json=as_json), lake, table, limit)


def _show(out: Output, lake: "Lake", table: str | None, limit: int | None) -> ExitCode:
    if table is None:
        for count, report in enumerate(lake.reports()):
            if limit is not None and count >= limit:
                break
            out.row({"event": "run", **msgspec.to_builtins(report)}, _run_line(out, report))
        return ExitCode.OK
    shown = lake.history(table)
    later = next(shown, None)
    count = 0
    while later is not None and (limit is None or count < limit):
        earlier = next(shown, None)
        added = later.rows - (0 if earlier is None else earlier.rows)
        out.row(_manifest_value(later, added), _manifest_line(out, later, added))
        later, count = earlier, count + 1
    return ExitCode.OK


def _run_line(out: Output, report: "Report") -> str:
    tables = ", ".join(f"{_short(table)} {number}" for table, number in report.tables.items())
    return (
        f"{when(report.started)}  {out.style(f'{report.job:<9}', bold=True)} {report.seconds:>7.1f} s  "
        f"{out.style(_counts_text(report))}{out.style(f' → {tables}' if tables else '')}"
        f"  {out.style(report.run, dim=True)}"
    )


def _counts_text(report: "Report") -> str:
    """What a run has counted, without what it has counted nothing of; reasons in brackets behind their sum."""
    told = {name: count for name, count in (report.counts or report.outputs).items() if count}
    reasons = [f"{count:,} {name.removeprefix(_REASON)}" for name, count in told.items() if name.startswith(_REASON)]
    words = []
    for name, count in told.items():
        if name.startswith(_REASON):
            continue
        why = f" ({', '.join(reasons)})" if name == _QUARANTINED and reasons else ""
        words.append(f"{count:,} {name.replace('_', ' ')}{why}")
    return ", ".join(words) or "nothing"


def _short(table: str) -> str:
    """The name of a table, with as much of its key as tells it from others."""
    kind, _, key = table.partition("/")
    return f"{kind}/{key[:_KEY_SHOWN]}…" if key else kind


def _manifest_value(manifest: "Manifest", added: int) -> dict[str, str | int | dict[str, str]]:
    return {
        "event": "manifest",
        "table": manifest.table,
        "number": manifest.number,
        "created": manifest.created,
        "run": manifest.run,
        "rows": manifest.rows,
        "added": added,
        "files": len(manifest.files),
        "bytes": sum(file.bytes for file in manifest.files),
        "properties": manifest.properties,
    }


def _manifest_line(out: Output, manifest: "Manifest", added: int) -> str:
    change = f"{added:+,}" if added else "same"
    rows = f"{count_text(manifest.rows, 'row')} ({change})"
    return (
        f"{out.style(f'{manifest.number:>6}', bold=True)}  {when(manifest.created)}  {rows:>26}  "
        f"{count_text(len(manifest.files), 'file')}  {out.style(manifest.run, dim=True)}"
    )
