"""``bobbin list``: the records at a place."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, Limit, parse_place
from bobbin.cli.output import Json, Output
from bobbin.cli.text import size_text, utc_text
from bobbin.records import tai

if TYPE_CHECKING:
    from bobbin.store.base import Listed


def list_records(
    folder: LaceFolder,
    place: Annotated[
        str,
        typer.Argument(
            metavar="COORDINATE|PREFIX", help="//group//app//name, or a prefix ending in /.", show_default=False
        ),
    ],
    tips: Annotated[
        bool, typer.Option("--tips", metavar="", help="Only the newest record of each coordinate.")
    ] = False,
    limit: Limit = None,
    as_json: AsJson = False,
) -> ExitCode:
    """List the records at a coordinate or below a prefix.

    One line each: hash, time (UTC), size of the data, coordinate. By coordinate, within one the newest first.

    Example: bobbin list notes.lace //u//ding// --tips
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    parsed = parse_place(place)
    count = 0
    with Lace.open(folder, read_only=True) as lace:
        for listed in lace.list(parsed, tips=tips, limit=limit):
            count += 1
            if as_json:
                out.row(_value(listed))
            else:
                out.row(None, _line(out, listed))
    if count == 0:
        out.note(f"nothing at {parsed}")
    return ExitCode.OK


def _value(listed: "Listed") -> dict[str, Json]:
    return {
        "hash": listed.hash,
        "group": listed.group,
        "app": listed.app,
        "name": listed.name,
        "tai": tai.render(listed.tai),
        "utc": utc_text(listed.tai),
        "signed_by": listed.verifier,
        "data_length": listed.data_length,
    }


def _line(out: Output, listed: "Listed") -> str:
    place = f"//{listed.group}//{listed.app}//{listed.name}"
    when = out.style(utc_text(listed.tai), dim=True)
    return f"{listed.hash}  {when}  {size_text(listed.data_length):>8}  {out.style(place, bold=True)}"
