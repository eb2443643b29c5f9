"""``bobbin lift``: end a refusal."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, parse_hash
from bobbin.cli.output import Output, not_found


def lift(
    folder: LaceFolder,
    wanted: Annotated[str, typer.Argument(metavar="HASH", help="Hash of the refused record.", show_default=False)],
    as_json: AsJson = False,
) -> ExitCode:
    """End a refusal.

    The record may then be stored again; it does not come back by itself.

    Example: bobbin lift notes.lace P.tyYE….H3
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    hash_text = parse_hash(wanted)
    with Lace.open(folder) as lace:
        if not lace.lift(hash_text):
            return not_found(out, f"{hash_text} is not refused in {folder}")
    out.result({"hash": hash_text, "lifted": True}, f"{hash_text}  may be stored again")
    return ExitCode.OK
