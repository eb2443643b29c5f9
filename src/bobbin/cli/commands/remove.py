"""``bobbin remove``: take a record out, for good."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, parse_hash
from bobbin.cli.output import Output


def remove(
    folder: LaceFolder,
    wanted: Annotated[str, typer.Argument(metavar="HASH", help="Hash of the record.", show_default=False)],
    reason: Annotated[
        str, typer.Option("--reason", "-r", metavar="TEXT", help="Why. Kept with the refusal.", show_default=False)
    ],
    as_json: AsJson = False,
) -> ExitCode:
    """Remove a record, and refuse it from now on.

    Its facts go with it. No import and no exchange brings it back until `bobbin lift`. Works for a record that is
    not stored, too.

    Example: bobbin remove notes.lace P.tyYE….H3 --reason "sent by mistake"
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    hash_text = parse_hash(wanted)
    with Lace.open(folder) as lace:
        removed = lace.remove(hash_text, reason=reason)
    words = "removed and refused from now on" if removed else "was not stored; refused from now on"
    out.result({"hash": hash_text, "removed": removed, "refused": True, "reason": reason}, f"{hash_text}  {words}")
    return ExitCode.OK
