"""``bobbin lake stat``: what a lake holds."""

from typing import TYPE_CHECKING

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.lake_folder import LakeArgument, LakeMaster, open_lake, when
from bobbin.cli.options import AsJson
from bobbin.cli.output import Json, Output
from bobbin.cli.pipeline_run import LOCAL
from bobbin.cli.text import count_text, size_text

if TYPE_CHECKING:
    from bobbin.store.lake.lake import Lake
    from bobbin.store.lake.manifest import Manifest


def lake_stat(location: LakeArgument, master: LakeMaster = LOCAL, as_json: AsJson = False) -> ExitCode:
    """Show what a lake holds: for each table rows, files, bytes, and which run wrote it last.

    Instant at any size: manifests say all of it.

    Example: bobbin lake stat archive.lake
    """
    with open_lake(location, master=master) as lake:
        return _show(Output(as_json=as_json), lake, location)


def _show(out: Output, lake: "Lake", location: str) -> ExitCode:
    manifests = [lake.manifest(name) for name in lake.tables()]
    from bobbin.store.lake import commit

    going = [run for run in commit.running(lake.files) if lake.files.is_claimed(commit.running_path(run))]
    tables: list[Json] = [_value(lake, manifest) for manifest in manifests]
    size = sum(file.bytes for manifest in manifests for file in manifest.files)
    runs = len(commit.reported(lake.files))
    width = max((len(manifest.table) for manifest in manifests), default=0)
    lines = [_line(out, lake, manifest, width) for manifest in manifests]
    summary = f"{count_text(len(manifests), 'table')} · {size_text(size)} · {count_text(runs, 'run')}" + (
        f" · {count_text(len(going), 'run')} going" if going else ""
    )
    out.result(
        {"lake": location, "tables": tables, "bytes": size, "runs": runs, "running": going},
        *lines,
        out.style(summary, dim=True) if lines else "empty",
    )
    return ExitCode.OK


def _value(lake: "Lake", manifest: "Manifest") -> dict[str, Json]:
    report = lake.report(manifest.run)
    return {
        "table": manifest.table,
        "rows": manifest.rows,
        "files": len(manifest.files),
        "bytes": sum(file.bytes for file in manifest.files),
        "manifest": manifest.number,
        "schema": manifest.schema,
        "created": manifest.created,
        "run": manifest.run,
        "job": None if report is None else report.job,
        "current": _is_current(lake, manifest),
        "properties": manifest.properties,
    }


def _is_current(lake: "Lake", manifest: "Manifest") -> bool | None:
    """Whether a table was made from the records as they are now; None for one that is not made from records."""
    made_from = manifest.properties.get("records", "")
    return lake.is_current("records", int(made_from)) if made_from.isascii() and made_from.isdecimal() else None


def _line(out: Output, lake: "Lake", manifest: "Manifest", width: int) -> str:
    report = lake.report(manifest.run)
    job = "" if report is None else f" by {report.job}"
    age = out.style("  older than the records", fg="yellow") if _is_current(lake, manifest) is False else ""
    size = sum(file.bytes for file in manifest.files)
    origin = out.style(f"manifest {manifest.number}, {when(manifest.created)}{job}", dim=True)
    return (
        f"{out.style(f'{manifest.table:<{width}}', bold=True)}  {count_text(manifest.rows, 'row'):>18}  "
        f"{count_text(len(manifest.files), 'file'):>11}  {size_text(size):>9}  {origin}{age}"
    )
