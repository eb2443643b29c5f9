"""``bobbin lift``: end a refusal."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, parse_wanted
from bobbin.cli.output import Output, not_found
from bobbin.errors import UsageError
from bobbin.records.coordinate import Address


def lift(
    folder: LaceFolder,
    wanted: Annotated[str, typer.Argument(metavar="HASH", help="Hash of the refused record.", show_default=False)],
    as_json: AsJson = False,
) -> ExitCode:
    """End a refusal.

    The record may then be stored again; it does not come back by itself. Only its hash can name it: of a removed
    record nothing else is kept. `bobbin refusals` lists the hashes.

    Example: bobbin lift notes.lace P.tyYE….H3
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    if not isinstance(what, Address):
        raise UsageError(
            f"{what} cannot say which refusal to lift: of a removed record only the hash is kept. "
            f"`bobbin refusals {folder}` lists them"
        )
    hash_text = what.hash
    with Lace.open(folder) as lace:
        if not lace.lift(hash_text):
            return not_found(out, f"{hash_text} is not refused in {folder}")
    out.result({"hash": hash_text, "lifted": True}, f"{hash_text}  may be stored again")
    return ExitCode.OK
