"""``bobbin quarantine``: rejected bytes and why they were rejected."""

from base64 import b64encode
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, Limit
from bobbin.cli.output import Json, Output, not_found
from bobbin.cli.text import count_text, preview, size_text, utc_text
from bobbin.errors import UsageError
from bobbin.records import tai

if TYPE_CHECKING:
    from bobbin.store.base import Quarantined

RowId = Annotated[int, typer.Argument(metavar="ID", help="Number of the row, as listed.", show_default=False)]


def quarantine_list(folder: LaceFolder, limit: Limit = None, as_json: AsJson = False) -> ExitCode:
    """List what was rejected, and why.

    Example: bobbin quarantine list notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    count = 0
    with Lace.open(folder, read_only=True) as lace:
        for row in lace.quarantined(with_bytes=False):
            if count == limit:
                break
            count += 1
            head = f"{row.id:>6}  {size_text(row.size):>8}  {out.style(f'{row.reason:<21}', bold=True)}"
            out.row(_value(row), f"{head}  {out.style(_origin(row))}  {out.style(row.detail)}")
        overflow = lace.stat().quarantine_overflow
    if overflow:
        out.note(f"{overflow:,} more rejections found the quarantine full and were only counted")
    elif count == 0 and limit != 0:
        out.note("the quarantine is empty")
    return ExitCode.OK


def quarantine_show(
    folder: LaceFolder,
    number: RowId,
    raw: Annotated[bool, typer.Option("--raw", metavar="", help="Write the rejected bytes to stdout instead.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Show one rejected piece and its first bytes.

    Example: bobbin quarantine show notes.lace 3
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.open(folder, read_only=True) as lace:
        row = lace.quarantined_row(number)
    if row is None:
        return not_found(out, f"the quarantine of {folder} has no row {number}")
    if raw and row.raw is None:
        return not_found(out, f"row {number} was too large to keep; its {size_text(row.size)} are not here")
    if as_json:
        out.result({**_value(row), "raw_base64": None if row.raw is None else b64encode(row.raw).decode()})
    elif raw:
        out.raw(row.raw or b"")
    else:
        shown = ["(too large to keep)"] if row.raw is None else preview(row.raw)
        labels = {
            "row": str(row.id),
            "from": _origin(row),
            "when": utc_text(row.tai),
            "size": size_text(row.size),
            "reason": row.reason,
            "detail": row.detail,
        }
        lines = [f"{out.style(f'{label:<8}', dim=True)} {out.style(text)}" for label, text in labels.items()]
        out.result(None, *lines, *(f"  {line}" for line in shown))
    return ExitCode.OK


def quarantine_release(
    folder: LaceFolder,
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="ID", help="Rows to forget.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Forget every row.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Forget rejected bytes.

    They do not become records by that: to have bytes checked again, import them again. --all is one step, all or
    nothing, and forgets what was only counted, too.

    Example: bobbin quarantine release notes.lace 3 4 5
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    if everything == bool(numbers):
        raise UsageError("name the rows to forget, or --all")
    with Lace.open(folder) as lace:
        missing = [] if everything else [number for number in numbers or [] if not lace.release(number)]
        released = lace.release_all() if everything else len(numbers or []) - len(missing)
    out.result({"released": released, "missing": missing}, f"{count_text(released, 'row')} forgotten")
    if missing:
        return not_found(out, f"the quarantine of {folder} has no row {', '.join(map(str, missing))}")
    return ExitCode.OK


def _origin(row: "Quarantined") -> str:
    source = row.source or "unknown"
    return source if row.offset is None else f"{source}:{row.offset}"


def _value(row: "Quarantined") -> dict[str, Json]:
    return {
        "id": row.id,
        "source": row.source,
        "offset": row.offset,
        "size": row.size,
        "kept": row.kept,
        "reason": row.reason,
        "detail": row.detail,
        "tai": tai.render(row.tai),
        "utc": utc_text(row.tai),
    }
