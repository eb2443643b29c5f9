"""``bobbin get``: the data of one record."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.freshness import freshen
from bobbin.cli.message_records import warn_unaccepted
from bobbin.cli.missing import record_not_found
from bobbin.cli.options import AsJson, LaceFolder, parse_wanted
from bobbin.cli.output import Output


def get(
    folder: LaceFolder,
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="COORDINATE|HASH", help="//group//app//name (its newest record) or a hash.", show_default=False
        ),
    ],
    whole: Annotated[bool, typer.Option("--record", metavar="", help="The whole record, headers included.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Write the data of one record to stdout.

    Byte for byte, with nothing added. A coordinate means its newest record. With --json the answer is the whole record
    as a line of JSONL, as `bobbin export` writes it.

    Examples: bobbin get notes.lace //u//ding//links/1 · bobbin get notes.lace P.tyYE….H3 --record > one.record
    """
    from bobbin.lace import Lace
    from bobbin.records.jsonl import encode

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    freshen(out, folder)
    with Lace.open(folder, read_only=True) as lace:
        record = lace.get(what)
        if record is None:
            return record_not_found(out, lace, what)
        warn_unaccepted(out, lace, what, record)
    if as_json:
        out.json_text(encode(record))
    else:
        out.raw(record.raw if whole else record.data)
    return ExitCode.OK
