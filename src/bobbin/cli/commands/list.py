"""``bobbin list``: the records at a place, or all of them."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.freshness import freshen
from bobbin.cli.options import AsJson, LaceFolder, Limit, parse_place
from bobbin.cli.output import Output
from bobbin.cli.record_rows import blob_row, placed_row

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.records.ids import HashText


def list_records(
    folder: LaceFolder,
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="COORDINATE|PREFIX",
            help="//group//app//name, or a prefix ending in /. Default: everything.",
            show_default=False,
        ),
    ] = None,
    tips: Annotated[
        bool, typer.Option("--tips", metavar="", help="Only the newest record of each coordinate.")
    ] = False,
    limit: Limit = None,
    as_json: AsJson = False,
) -> ExitCode:
    """List the records at a coordinate or below a prefix, or all records.

    One line each: hash, time (UTC), size of the data, coordinate. By coordinate, within one the newest first. A listing
    of everything goes group by group, in the order in which the groups came into the lace; Blobs, which have no
    coordinate, come last.

    Examples: bobbin list notes.lace //u//ding// --tips · bobbin list notes.lace --limit 20
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    parsed = None if place is None else parse_place(place)
    count = 0
    freshen(out, folder)
    with Lace.open(folder, read_only=True) as lace:
        for listed in lace.list(parsed, tips=tips, limit=limit):
            count += 1
            placed_row(out, listed)
        if parsed is None and not tips:
            for blob in islice(lace.blobs(), None if limit is None else limit - count):
                count += 1
                blob_row(out, blob, _data_length(lace, blob))
    if count == 0 and limit != 0:
        out.note(f"{folder} has no records yet" if parsed is None else f"nothing at {parsed}")
    return ExitCode.OK


def _data_length(lace: "Lace", record: "HashText") -> int:
    from bobbin.facts.relations import FIELD

    return next((int(length) for *_, length in lace.facts.match(FIELD, (record, "Data-Length", None, None))), 0)
