"""``bobbin remove``: take a record out, for good."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.missing import record_not_found
from bobbin.cli.one_record import one_record
from bobbin.cli.options import AsJson, LaceFolder, parse_wanted
from bobbin.cli.output import Output


def remove(
    folder: LaceFolder,
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="HASH|COORDINATE",
            help="Hash of the record, or //group//app//name if it has only one.",
            show_default=False,
        ),
    ],
    reason: Annotated[
        str, typer.Option("--reason", "-r", metavar="TEXT", help="Why. Kept with the refusal.", show_default=False)
    ],
    as_json: AsJson = False,
) -> ExitCode:
    """Remove a record, and refuse it from now on.

    Its facts go with it. No import and no exchange brings it back until `bobbin lift`. A hash works for a record that
    is not stored, too. A coordinate must have exactly one record.

    Example: bobbin remove notes.lace P.tyYE….H3 --reason "sent by mistake"
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    with Lace.open(folder) as lace:
        hash_text = one_record(lace, what)
        if hash_text is None:
            return record_not_found(out, lace, what)
        removed = lace.remove(hash_text, reason=reason)
    words = "removed and refused from now on" if removed else "was not stored; refused from now on"
    out.result({"hash": hash_text, "removed": removed, "refused": True, "reason": reason}, f"{hash_text}  {words}")
    return ExitCode.OK
