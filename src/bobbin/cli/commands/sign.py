"""``bobbin sign``: sign a stored record."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.missing import record_not_found
from bobbin.cli.options import AsJson, LaceFolder, parse_hash
from bobbin.cli.output import Output
from bobbin.records.coordinate import Address


def sign(
    folder: LaceFolder,
    wanted: Annotated[str, typer.Argument(metavar="HASH", help="Hash of a stored Plex.", show_default=False)],
    key: Annotated[
        str | None, typer.Option("--key", metavar="NAME", help="Key to sign with. Default: the lace's.")
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Sign a stored record.

    Prints the hash of the Seal, which is stored beside the Plex that it signs.

    Example: bobbin sign notes.lace P.tyYE….H3
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    hash_text = parse_hash(wanted)
    with Lace.open(folder) as lace:
        if not lace.have(hash_text):
            return record_not_found(out, lace, Address(hash=hash_text))
        verifier = lace.key(key).verifier
        seal = lace.sign(hash_text, key=key)
    out.result({"hash": seal, "plex": hash_text, "signed_by": verifier}, seal)
    return ExitCode.OK
